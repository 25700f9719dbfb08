#include "trainer/data/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"
#include "tests/trainer/picture/ppm.h"
#include "trainer/data/record.h"

namespace coxswain::data {
namespace {

using test::Bytes;
using ::testing::HasSubstr;

class PackTest : public ::testing::Test {
 protected:
  std::filesystem::path to() const { return directory_.path() / "packed.rec"; }

  // The pictures as they are, a class each.
  void pack_folder(const std::vector<Bytes>& pictures) const {
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      const auto folder = directory_.path() / "train" / std::to_string(i);
      create_directories(folder);
      test::write_file(folder / "picture.jpg", pictures[i]);
    }
    const auto dataset = open_image_folder(directory_.path(), {}, Part::kTraining, {});
    pack(*dataset, to(), {.workers = 2}, [](std::int64_t, std::int64_t) {});
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST_F(PackTest, keeps_the_bytes_of_pictures) {
  const std::vector<Bytes> pictures = {test::file_bytes(test::picture_file("rgb.png")),
                                       test::file_bytes(test::picture_file("colour.jpg"))};
  pack_folder(pictures);
  Bytes records;
  for (std::size_t i = 0; i < pictures.size(); ++i)
    append_record(records, static_cast<std::int32_t>(i), i, pictures[i]);
  EXPECT_EQ(test::file_bytes(to()), records);
}

TEST_F(PackTest, packs_nothing_that_cannot_be_read) {
  const Bytes png = test::file_bytes(test::picture_file("rgb.png"));
  const std::string webp("RIFF\x1a\0\0\0WEBPVP8 \x0e\0\0\0", 20);
  const Bytes cut(png.begin(), png.begin() + 60);
  for (const Bytes& bad : {Bytes(webp.begin(), webp.end()), cut}) {
    try {
      pack_folder({png, bad});
      ADD_FAILURE() << "was packed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_THAT(error.what(), HasSubstr("1/picture.jpg"));
    }
    EXPECT_FALSE(exists(to()));
  }
}

}  // namespace
}  // namespace coxswain::data
