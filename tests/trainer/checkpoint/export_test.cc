#include "trainer/checkpoint/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_flags.h"
#include "tests/trainer/checkpoint/faulty_file_system.h"
#include "tests/trainer/checkpoint/sample_checkpoint.h"
#include "trainer/checkpoint/format_npz.h"
#include "trainer/checkpoint/publisher.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

// A checkpoint, and a directory to export to.
class Export : public ::testing::Test {
 protected:
  Export() : checkpoint_(Publisher(files_, from_.path(), 1).publish(sample_contents(10)).path) {}

  fs::path at(const std::string& name) const { return to_.path() / name; }
  std::string model() const { return read_bytes(checkpoint_ / "model.safetensors"); }

  PosixFileSystem files_;
  test::TemporaryDirectory from_;
  test::TemporaryDirectory to_;
  fs::path checkpoint_;
  std::vector<NamedTensor> tensors_ = sample_contents(10).model;
};

TEST_F(Export, makes_a_file_or_replaces_one) {
  export_safetensors(files_, tensors_, at("new"));
  EXPECT_EQ(read_bytes(at("new")), model());
  write_bytes(at("old"), "what was there");
  export_safetensors(files_, tensors_, at("old"));
  EXPECT_EQ(read_bytes(at("old")), model());
  EXPECT_THAT(names_in(to_.path()), ElementsAre("new", "old"));
}

TEST_F(Export, a_failure_at_any_call_leaves_nothing_behind) {
  FaultyFileSystem counting;
  export_safetensors(counting, tensors_, at("counted"));
  fs::remove(at("counted"));
  ASSERT_GE(counting.calls, 5);
  for (int fail_at = 0; fail_at < counting.calls; ++fail_at) {
    FaultyFileSystem files;
    files.fail_at = fail_at;
    try {
      export_safetensors(files, tensors_, at("model"));
      ADD_FAILURE() << "call " << fail_at << " failed unseen";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kVolume);
    }
    EXPECT_THAT(names_in(to_.path()), IsEmpty()) << fail_at;
  }
}

TEST(NpyHeader, is_what_numpy_writes) {
  const auto text_of = [](const std::vector<std::int64_t>& dims) {
    const std::string header = encode_npy_header(dims);
    EXPECT_EQ(header.size() % 64, 0U);
    EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    EXPECT_EQ(static_cast<std::uint8_t>(header[8]) + 256 * static_cast<std::uint8_t>(header[9]),
              static_cast<int>(header.size()) - 10);
    EXPECT_EQ(header.back(), '\n');
    return header.substr(10, header.find('}') - 9);
  };
  EXPECT_EQ(text_of({}), "{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
  EXPECT_EQ(text_of({5}), "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }");
  EXPECT_EQ(text_of({5, 7}), "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 7), }");
  for (std::int64_t dim = 1; dim < 1'000'000'000'000; dim *= 10) text_of({dim, dim, dim});
}

TEST(Zip, ends_below_4_GiB_and_65535_members) {
  const std::uint64_t most = 0xFFFF'FFFEU - 22 - 30 - 46 - 2;
  EXPECT_TRUE(fits_zip({{.name = "a", .bytes = most}}));
  EXPECT_FALSE(fits_zip({{.name = "a", .bytes = most + 1}}));
  EXPECT_FALSE(fits_zip({{.name = "a", .bytes = ~std::uint64_t{0}}}));
  EXPECT_TRUE(fits_zip(std::vector<ZipMember>(0xFFFE)));
  EXPECT_FALSE(fits_zip(std::vector<ZipMember>(0xFFFF)));
}

TEST(Zip, has_names_alone_that_stay_in_their_directory) {
  for (const char* name : {"conv1.weight", "layer1.0.bn1.running_mean", "a-b_c"}) {
    EXPECT_TRUE(is_plain_name(name)) << name;
  }
  for (const char* name : {"", ".", "..", ".hidden", "-rf", "a/b", "../a", "/a", "a\\b", "C:a",
                           "a b", "a\n", "\xC3\xA4"}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
  }
  EXPECT_FALSE(is_plain_name(std::string("a\0b", 3)));
  EXPECT_TRUE(is_plain_name(std::string(200, 'a')));
  EXPECT_FALSE(is_plain_name(std::string(201, 'a')));
}

TEST_F(Export, writes_the_same_npz_of_the_same_tensors) {
  const auto tensors = sample_contents(10).model;
  export_npz(files_, tensors, at("a.npz"));
  write_bytes(at("b.npz"), "what was there");
  export_npz(files_, tensors, at("b.npz"));
  const std::string bytes = read_bytes(at("a.npz"));
  EXPECT_EQ(bytes, read_bytes(at("b.npz")));
  std::size_t from = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::string values(reinterpret_cast<const char*>(tensor.values.data()),
                             tensor.values.size() * sizeof(float));
    const std::string member = tensor.name + ".npy" + encode_npy_header(tensor.dims) + values;
    const std::size_t found = bytes.find(member, from);
    ASSERT_NE(found, std::string::npos) << tensor.name;
    from = found + member.size();
  }
  EXPECT_THAT(names_in(to_.path()), ElementsAre("a.npz", "b.npz"));
}

TEST_F(Export, refuses_an_npz_of_names_that_are_none_for_files) {
  try {
    export_npz(files_, {sample_tensor("../evil", {3}, 1)}, at("a.npz"));
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("tensor \"../evil\""));
  }
  EXPECT_THAT(names_in(to_.path()), IsEmpty());
}

TEST_F(Export, a_failure_at_any_call_leaves_no_npz_behind) {
  const auto tensors = sample_contents(10).model;
  FaultyFileSystem counting;
  export_npz(counting, tensors, at("counted"));
  fs::remove(at("counted"));
  ASSERT_GE(counting.calls, 4);
  for (int fail_at = 0; fail_at < counting.calls; ++fail_at) {
    FaultyFileSystem files;
    files.fail_at = fail_at;
    EXPECT_THROW(export_npz(files, tensors, at("model")), Error) << fail_at;
    EXPECT_THAT(names_in(to_.path()), IsEmpty()) << fail_at;
  }
}

}  // namespace
}  // namespace coxswain::checkpoint
