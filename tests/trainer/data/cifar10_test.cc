#include "trainer/data/cifar10.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"
#include "trainer/data/dataset.h"

namespace coxswain::data {
namespace {

using namespace coxswain::test;

class Cifar10 : public ::testing::Test {
 protected:
  // Batches of 3, 4, 5, 6 and 7 records.
  void write_training(const std::filesystem::path& root) {
    std::filesystem::create_directories(root);
    for (int i = 1; i <= 5; ++i) {
      write_file(root / ("data_batch_" + std::to_string(i) + ".bin"), cifar_records(i + 2));
    }
  }
  const std::filesystem::path& path() const { return directory_.path(); }
  std::string error(Part part) const {
    return error_of([&] { open_cifar10(path(), part); }, path());
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(Cifar10, reads_the_five_batches_one_after_another) {
  write_training(path());
  const auto dataset = open_cifar10(path(), Part::kTraining);
  ASSERT_EQ(dataset->size(), 25);
  EXPECT_EQ(dataset->sample_shape(), (tensor::Shape{1, 3, 32, 32}));
  EXPECT_EQ(dataset->classes(), 10);
  const std::vector<int> first_of_batch = {0, 3, 7, 12, 18};
  for (const int id : first_of_batch) {
    EXPECT_EQ(dataset->label(id), 0);
    EXPECT_EQ(dataset->label(id + 2), 2);
    const Bytes bytes = bytes_of(*dataset, id + 2);
    EXPECT_EQ(bytes.size(), 3072U);
    EXPECT_EQ(bytes[0], 2);                    // red of the first pixel
    EXPECT_EQ(bytes[3], 3);                    // and of the second
    EXPECT_EQ(bytes[3071], (2 + 3071) % 256);  // blue of the last
  }
  EXPECT_EQ(dataset->label(24), 6);
  Bytes last = cifar_records(7);
  last.back() ^= 1;
  write_file(path() / "data_batch_5.bin", last);
  EXPECT_NE(open_cifar10(path(), Part::kTraining)->content_hash(), dataset->content_hash());
}

TEST_F(Cifar10, reads_the_folder_that_the_archive_unpacks_to) {
  write_training(path() / "cifar-10-batches-bin");
  write_file(path() / "cifar-10-batches-bin" / "test_batch.bin", cifar_records(11));
  EXPECT_EQ(open_cifar10(path(), Part::kTraining)->size(), 25);
  EXPECT_EQ(open_cifar10(path(), Part::kTest)->size(), 11);
}

TEST_F(Cifar10, says_which_file_is_missing) {
  write_training(path());
  std::filesystem::remove(path() / "data_batch_3.bin");
  EXPECT_EQ(
      error(Part::kTraining),
      "65 [data] DIR: data_batch_3.bin is missing (file 3 of 5); set data.path to the directory "
      "with CIFAR-10's binary version");
  EXPECT_EQ(
      error(Part::kTest),
      "65 [data] DIR: test_batch.bin is missing (file 1 of 1); set data.path to the directory "
      "with CIFAR-10's binary version");
  EXPECT_EQ(error_of([&] { open_cifar10(path() / "none", Part::kTest); }, path()),
            "65 [data] DIR/none: No such file or directory; set data.path to the directory with "
            "test_batch.bin");
  EXPECT_THAT(error_of([&] { open_cifar10(path(), Part::kTest, kEvalPathKey); }, path()),
              ::testing::HasSubstr("; set data.evalPath to the directory with"));
}

TEST_F(Cifar10, says_what_is_wrong_with_a_file) {
  const struct {
    Bytes content;
    std::string message;
  } cases[] = {
      {{}, "0 bytes, records of 3073 expected"},
      {first_bytes(cifar_records(5), 4 * 3073 + 100),
       "ends in record 4: 100 of 3073 bytes; copy it anew, or is it not CIFAR-10's binary "
       "version?"},
      {first_bytes(cifar_records(5), 5 * 3073 + 1),
       "ends in record 5: 1 of 3073 bytes; copy it anew, or is it not CIFAR-10's binary version?"},
      {with_byte(cifar_records(5), 3 * 3073, 10), "record 3: label 10, expected 0..9"},
  };
  for (const auto& c : cases) {
    write_file(path() / "test_batch.bin", c.content);
    EXPECT_EQ(error(Part::kTest), "65 [data] DIR/test_batch.bin: " + c.message);
  }
}

TEST_F(Cifar10, refuses_a_fifo_without_waiting_for_its_writer) {
  ASSERT_EQ(mkfifo((path() / "test_batch.bin").c_str(), 0600), 0);
  EXPECT_EQ(error(Part::kTest), "65 [data] DIR/test_batch.bin: a FIFO, not a regular file");
}

}  // namespace
}  // namespace coxswain::data
