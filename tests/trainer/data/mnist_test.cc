#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cmath>
#include <set>

#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"
#include "trainer/data/dataset.h"
#include "trainer/data/idx.h"

namespace coxswain::data {
namespace {

using namespace coxswain::test;

constexpr const char* kImages = "train-images-idx3-ubyte";
constexpr const char* kLabels = "train-labels-idx1-ubyte";

class Mnist : public ::testing::Test {
 protected:
  void write(const std::string& name, const Bytes& bytes) { write_file(path() / name, bytes); }
  const std::filesystem::path& path() const { return directory_.path(); }
  std::string error(Part part = Part::kTraining) const {
    return error_of([&] { open_mnist(path(), part); }, path());
  }

 private:
  TemporaryDirectory directory_;
};

// Bytes of a parser's refusal, without a file around them.
std::string parse_error(const Bytes& content, IdxKind kind = IdxKind::kImages) {
  return error_of([&] { parse_idx(content, kind, "data/train-images-idx3-ubyte"); });
}

TEST_F(Mnist, becomes_colour_by_repeating_its_channel) {
  write(kImages, idx_images(2, 3, 4));
  write(kLabels, idx_labels(2));
  const auto grey = open_mnist(path(), Part::kTraining);
  const auto colour = repeat_channels(open_mnist(path(), Part::kTraining), 3);
  EXPECT_EQ(colour->sample_shape(), (tensor::Shape{1, 3, 3, 4}));
  EXPECT_EQ(colour->size(), 2);
  EXPECT_EQ(colour->label(1), grey->label(1));
  augment::Scratch one, three;
  const augment::Image from = grey->read(1, one), to = colour->read(1, three);
  ASSERT_EQ(to.bytes.size(), 36U);
  for (std::size_t i = 0; i < 36; ++i) EXPECT_EQ(to.bytes[i], from.bytes[i / 3]) << i;
}

TEST_F(Mnist, reads_plain_and_gzipped_files_alike) {
  const auto images = idx_images(25, 3, 4);
  const auto labels = idx_labels(25);
  std::set<std::uint64_t> hashes;
  for (const bool compressed : {false, true}) {
    const std::string ending = compressed ? ".gz" : "";
    const TemporaryDirectory directory;
    write_file(directory.path() / (kImages + ending), compressed ? gzipped(images) : images);
    write_file(directory.path() / (kLabels + ending), compressed ? gzipped(labels) : labels);
    const auto dataset = open_mnist(directory.path(), Part::kTraining);
    EXPECT_EQ(dataset->size(), 25);
    EXPECT_EQ(dataset->sample_shape(), (tensor::Shape{1, 1, 3, 4}));
    EXPECT_EQ(dataset->classes(), 10);
    EXPECT_EQ(dataset->label(24), 4);
    EXPECT_THAT(bytes_of(*dataset, 2),
                ::testing::ElementsAre(20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31));
    hashes.insert(dataset->content_hash());
  }
  EXPECT_EQ(hashes.size(), 1U);
  auto other = images;
  other.back() ^= 1;
  const TemporaryDirectory directory;
  write_file(directory.path() / kImages, other);
  write_file(directory.path() / kLabels, labels);
  EXPECT_FALSE(hashes.contains(open_mnist(directory.path(), Part::kTraining)->content_hash()));
}

TEST_F(Mnist, takes_the_test_files_for_the_test_part) {
  write("t10k-images-idx3-ubyte", idx_images(3, 2, 2));
  write("t10k-labels-idx1-ubyte.gz", gzipped(idx_labels(3)));
  EXPECT_EQ(open_mnist(path(), Part::kTest)->size(), 3);
}

TEST_F(Mnist, prefers_plain_files_to_gzipped_ones) {
  write(kImages, idx_images(3, 2, 2));
  write(kLabels, idx_labels(3));
  write(std::string(kImages) + ".gz", gzipped(idx_images(5, 2, 2)));
  write(std::string(kLabels) + ".gz", gzipped(idx_labels(5)));
  EXPECT_EQ(open_mnist(path(), Part::kTraining)->size(), 3);
}

TEST_F(Mnist, goes_by_the_content_when_the_name_is_wrong) {
  write(std::string(kImages) + ".gz", idx_images(3, 2, 2));
  write(kLabels, gzipped(idx_labels(3)));
  EXPECT_EQ(open_mnist(path(), Part::kTraining)->size(), 3);
}

TEST(MnistDigits, are_the_published_ones) {
  const auto training = open_mnist("examples/data/mnist", Part::kTraining);
  const auto test = open_mnist("examples/data/mnist", Part::kTest);
  EXPECT_EQ(training->size(), 60000);
  EXPECT_EQ(test->size(), 10000);
  EXPECT_EQ(training->sample_shape(), (tensor::Shape{1, 1, 28, 28}));
  // The published counts of each digit.
  std::array<int, 10> counts{};
  for (std::int64_t i = 0; i < 60000; ++i) ++counts[static_cast<std::size_t>(training->label(i))];
  EXPECT_THAT(counts,
              ::testing::ElementsAre(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949));
  EXPECT_EQ(training->label(0), 5);
  EXPECT_EQ(test->label(0), 7);
  // Mean 0.1307 and deviation 0.3081 are the numbers that everyone normalises with.
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < 60000; ++i) {
    for (const std::uint8_t pixel : bytes_of(*training, i)) {
      sum += pixel;
      squares += double{1} * pixel * pixel;
    }
  }
  const double mean = sum / (60000.0 * 784 * 255);
  EXPECT_NEAR(mean, 0.1307, 5e-5);
  EXPECT_NEAR(std::sqrt(squares / (60000.0 * 784 * 255 * 255) - mean * mean), 0.3081, 5e-5);
}

TEST_F(Mnist, says_what_is_missing) {
  EXPECT_EQ(error_of([&] { open_mnist(path() / "none", Part::kTest); }, path()),
            "65 [data] DIR/none: No such file or directory; set data.path to the directory with "
            "t10k-images-idx3-ubyte[.gz]");
  EXPECT_THAT(error_of([&] { open_mnist(path() / "none", Part::kTest, kEvalPathKey); }, path()),
              ::testing::HasSubstr("; set data.evalPath to the directory with"));
  EXPECT_EQ(
      error(),
      "65 [data] DIR: neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz is there; "
      "set data.path to the directory that holds them");
  write(kImages, idx_images(3, 2, 2));
  EXPECT_EQ(
      error(),
      "65 [data] DIR: neither train-labels-idx1-ubyte nor train-labels-idx1-ubyte.gz is there; "
      "set data.path to the directory that holds them");
  EXPECT_EQ(
      error_of([&] { open_mnist(path() / kImages, Part::kTest); }, path()),
      "65 [data] DIR/train-images-idx3-ubyte: not a directory; set data.path to the directory "
      "with t10k-images-idx3-ubyte[.gz]");
}

TEST_F(Mnist, refuses_a_fifo_without_waiting_for_its_writer) {
  ASSERT_EQ(mkfifo((path() / kImages).c_str(), 0600), 0);
  write(kLabels, idx_labels(3));
  EXPECT_EQ(error(), "65 [data] DIR/train-images-idx3-ubyte: a FIFO, not a regular file");
}

TEST_F(Mnist, refuses_a_directory_and_a_device_in_a_files_place) {
  std::filesystem::create_directory(path() / kImages);
  write(kLabels, idx_labels(3));
  EXPECT_EQ(error(), "65 [data] DIR/train-images-idx3-ubyte: a directory, not a regular file");
  std::filesystem::remove(path() / kImages);
  std::filesystem::create_symlink("/dev/null", path() / kImages);
  EXPECT_EQ(error(), "65 [data] DIR/train-images-idx3-ubyte: a device, not a regular file");
}

TEST_F(Mnist, refuses_counts_that_differ) {
  write(kImages, idx_images(60, 2, 2));
  write(kLabels, idx_labels(10));
  EXPECT_EQ(
      error(),
      "65 [data] DIR: train-images-idx3-ubyte holds 60 images, train-labels-idx1-ubyte 10 labels");
}

TEST_F(Mnist, refuses_a_label_out_of_range) {
  write(kImages, idx_images(9, 2, 2));
  write(kLabels, with_byte(idx_labels(9), 8 + 7, 10));
  EXPECT_EQ(error(), "65 [data] DIR/train-labels-idx1-ubyte: record 7: label 10, expected 0..9");
}

// The same file, damaged in every way.
TEST(Idx, says_what_is_wrong_with_a_file) {
  const auto images = idx_images(5, 2, 3);  // records of 6 bytes
  const auto longer = [&](std::size_t by) { return first_bytes(images, images.size() + by); };
  const struct {
    Bytes content;
    std::string message;
  } cases[] = {
      {{}, "0 bytes, header of 16 expected"},
      {first_bytes(images, 15), "15 bytes, header of 16 expected"},
      {first_bytes(images, 3), "3 bytes, header of 16 expected"},
      {idx_labels(5),
       "holds labels (magic 2049), expected images (2051); are the two files swapped?"},
      {with_byte(images, 2, 0x0d), "magic 0x00000d03, expected 0x00000803 (IDX images)"},
      {idx_images(0, 2, 3), "states 0 images"},
      {with_byte(images, 11, 0), "record 0: empty image of 0x3"},
      {with_byte(images, 15, 0), "record 0: empty image of 2x0"},
      {with_byte(images, 9, 1), "images of 65538x3, over 16384x16384"},
      {with_byte(images, 12, 255), "images of 2x4278190083, over 16384x16384"},
      {first_bytes(images, 16 + 27),
       "ends in record 4: 3 of 6 bytes, but states 5 images of 2x3; copy it anew"},
      {first_bytes(images, 16),
       "ends in record 0: 0 of 6 bytes, but states 5 images of 2x3; copy it anew"},
      {with_byte(with_byte(images, 4, 255), 5, 255),
       "ends in record 5: 0 of 6 bytes, but states 4294901765 images of 2x3; copy it anew"},
      {longer(1), "1 trailing bytes after the stated 5 images of 2x3"},
      {longer(784), "784 trailing bytes after the stated 5 images of 2x3"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(parse_error(c.content), "65 [data] data/train-images-idx3-ubyte: " + c.message);
    if (c.content.size() < 16) continue;
    // Gzipped, the same is seen, in nearly the same words.
    const std::string compressed = parse_error(gzipped(c.content));
    if (c.message.find("trailing") != std::string::npos) {
      EXPECT_THAT(compressed,
                  ::testing::HasSubstr("trailing bytes after the stated 5 images of 2x3"));
    } else if (c.message.find("4294901765") == std::string::npos) {
      EXPECT_EQ(compressed, "65 [data] data/train-images-idx3-ubyte: " + c.message);
    }
  }
}

TEST(Idx, says_what_is_wrong_with_labels) {
  const auto error = [](const Bytes& content) { return parse_error(content, IdxKind::kLabels); };
  const std::string file = "65 [data] data/train-images-idx3-ubyte: ";
  EXPECT_EQ(error(idx_images(5, 2, 3)),
            file + "holds images (magic 2051), expected labels (2049); are the two files swapped?");
  EXPECT_EQ(error(with_byte(idx_labels(5), 0, 9)),
            file + "magic 0x09000801, expected 0x00000801 (IDX labels)");
  EXPECT_EQ(error({}), file + "0 bytes, header of 8 expected");
  EXPECT_EQ(error(idx_labels(0)), file + "states 0 labels");
  EXPECT_EQ(error(first_bytes(idx_labels(5), 12)),
            file + "ends in record 4: 0 of 1 bytes, but states 5 labels; copy it anew");
}

TEST(Idx, says_what_is_wrong_with_compressed_data) {
  Bytes images = idx_images(5, 40, 50);
  for (std::size_t i = 16; i < images.size(); ++i) {  // incompressible enough
    images[i] = static_cast<std::uint8_t>((i * i * 2654435761U) >> 13);
  }
  const Bytes good = gzipped(images);
  const std::string file = "65 [data] data/train-images-idx3-ubyte: ";
  EXPECT_EQ(parse_error(good), "no error");

  EXPECT_EQ(parse_error(first_bytes(good, good.size() - 3)),
            file + "the gzip checksum is cut off; copy it anew");
  EXPECT_THAT(
      parse_error(first_bytes(good, good.size() * 9 / 10)),
      ::testing::MatchesRegex(".*: ends in record 4: [0-9]+ of 2000 bytes \\(compressed data "
                              "cut off\\), but states 5 images of 40x50; copy it anew"));
  EXPECT_EQ(parse_error(first_bytes(good, 12)), file + "0 bytes, header of 16 expected");
  EXPECT_EQ(parse_error(with_byte(good, good.size() - 6, good[good.size() - 6] ^ 1)),
            file + "corrupt compressed data after 10016 bytes: incorrect data check; copy it anew");
  EXPECT_EQ(
      parse_error(with_byte(good, 2, 9)),
      file + "corrupt compressed data after 0 bytes: unknown compression method; copy it anew");
  Bytes twice = good;
  twice.insert(twice.end(), good.begin(), good.end());
  EXPECT_EQ(parse_error(twice),
            file +
                "corrupt compressed data after 10016 bytes: bytes behind the end of the stream; "
                "copy it anew");
}

TEST(Idx, never_inflates_beyond_what_is_stated) {
  Bytes bomb = idx_images(5, 2, 3);
  bomb.resize(std::size_t{64} << 20);  // 64 MiB of zeros in 64 KiB
  EXPECT_EQ(
      parse_error(gzipped(bomb)),
      "65 [data] data/train-images-idx3-ubyte: trailing bytes after the stated 5 images of 2x3");
  // A header that asks for more than any data set holds is refused before anything is inflated.
  EXPECT_EQ(parse_error(gzipped(with_byte(idx_images(5, 200, 300), 4, 255))),
            "65 [data] data/train-images-idx3-ubyte: states 4278190085 images of 200x300, "
            "256691405100016 bytes, over the limit of 8589934592");
}

// Whatever the bytes are, the answer is a dataset or an Error.
TEST(Idx, survives_random_damage) {
  std::uint64_t seed = flags().seed_given ? flags().seed : 1;
  SCOPED_TRACE("--seed " + std::to_string(seed));
  const auto random = [&seed] {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(seed >> 33);
  };
  const Bytes originals[] = {idx_images(5, 2, 3), idx_labels(9), gzipped(idx_images(5, 2, 3)),
                             gzipped(idx_labels(9))};
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    Bytes bytes = originals[random() % 4];
    for (std::size_t k = random() % 4; k > 0; --k) {
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 8));
    const auto kind = random() % 2 == 0 ? IdxKind::kImages : IdxKind::kLabels;
    try {
      const IdxFile file = parse_idx(bytes, kind, "f");
      EXPECT_EQ(file.record(file.count - 1).size(),
                static_cast<std::size_t>(file.rows * file.columns));
      ++accepted;
    } catch (const Error& error) {
      EXPECT_LE(std::string(error.what()).size(), 400U);
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace coxswain::data
