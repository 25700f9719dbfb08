#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"
#include "trainer/data/data_loader.h"
#include "trainer/picture/encode.h"

namespace coxswain::data {
namespace {

constexpr std::int64_t kSide = 512;
constexpr int kWorkers = 64;
constexpr std::int64_t kRows = 256;

// Bytes of this process in memory, at most, since the kernel was asked to count anew; nothing where
// it does not count.
std::int64_t most_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    std::int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes << 10;
  }
  return 0;
}
bool count_anew() {
  return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5\n" << std::flush);
}

void put_picture(const std::filesystem::path& file) {
  const tensor::Shape shape{1, 3, kSide, kSide};
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape.per_sample()));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i / 97);
  std::filesystem::create_directories(file.parent_path());
  test::write_file(file, picture::encode_png({shape, pixels}));
}

// As docs/design.md says: a thread holds a picture, its file, and what a step or two make of it;
// four batches are ahead and two more with whom trains.
TEST(DataLoader, holds_no_more_than_a_picture_for_each_worker) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what was freed";
#endif
  const test::TemporaryDirectory directory;
  for (const char* name : {"a/1.png", "b/1.png"}) put_picture(directory.path() / name);
  const auto dataset = open_image_folder(directory.path(), {}, Part::kTraining, {});
  const Preprocessing steps = {augment::RandomResizedCrop{.size = 32}, augment::Flip{}};
  if (!count_anew()) GTEST_SKIP() << "the kernel does not count memory anew";
  const std::int64_t before = most_resident();
  int batches = 0;
  DataLoader loader(*dataset, {steps, true, 0, 4, kWorkers}, [&]() -> std::optional<BatchRequest> {
    if (++batches > 2) return std::nullopt;
    BatchRequest request{{}, 0, 0};
    for (std::int64_t i = 0; i < kRows; ++i) request.sample_ids.push_back(i % 2);
    return request;
  });
  while (loader.next() != nullptr) continue;
  const auto file =
      static_cast<std::int64_t>(std::filesystem::file_size(directory.path() / "a/1.png"));
  constexpr std::int64_t kMade = 2 * 32 * 32 * 3;
  constexpr std::int64_t kOfAThread = 256 << 10;  // its stack and allocator
  const std::int64_t batch = kRows * 32 * 32 * 3;
  EXPECT_LE(most_resident() - before,
            kWorkers * (kSide * kSide * 3 + file + kMade + kOfAThread) + 6 * batch);
}

}  // namespace
}  // namespace coxswain::data
