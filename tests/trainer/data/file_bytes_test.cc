#include "trainer/data/file_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/as_nobody.h"
#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"

namespace coxswain::data {
namespace {

using namespace coxswain::test;

TEST(FileBytes, shows_a_path_on_one_line_of_80_characters) {
  EXPECT_EQ(shown("/data/train images"), "/data/train images");
  EXPECT_EQ(shown("/data/a\nb\x1b[31m\xff\\"), "/data/a\\x0ab\\x1b[31m\\xff\\x5c");
  const std::string exact(80, 'x');
  EXPECT_EQ(shown(exact), exact);
  EXPECT_EQ(shown("/data/" + std::string(90, 'x') + "/labels"),
            "..." + std::string(70, 'x') + "/labels");
}

TEST(FileBytes, escapes_names_in_refusals) {
  EXPECT_EQ(error_of([] { require_directory("/nowhere/a\nb", "digits", "data.path"); }),
            "65 [data] /nowhere/a\\x0ab: No such file or directory; set data.path to the directory "
            "with digits");
  EXPECT_EQ(error_of([] { read_file("/nowhere/a\nb"); }),
            "65 [data] /nowhere/a\\x0ab: No such file or directory");
}

TEST(FileBytes, says_when_a_name_cannot_be_looked_up) {
  const std::string name(300, 'x');
  EXPECT_EQ(error_of([&] { is_present("/tmp/" + name); }),
            "65 [data] ..." + std::string(77, 'x') + ": File name too long");
}

TEST(FileBytes, says_when_permission_is_denied) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "labels";
  write_file(file, {1, 2, 3});
  using std::filesystem::perms;
  std::filesystem::permissions(directory.path(), perms::owner_all | perms::others_exec);
  std::filesystem::permissions(file, perms::none);
  {
    const AsNobody nobody;
    EXPECT_EQ(error_of([&] { read_file(file); }, directory.path()),
              "65 [data] DIR/labels: Permission denied");
  }
  std::filesystem::permissions(directory.path(), perms::none);
  {
    const AsNobody nobody;
    EXPECT_EQ(error_of([&] { is_present(file); }, directory.path()),
              "65 [data] DIR/labels: Permission denied");
  }
  std::filesystem::permissions(directory.path(), perms::owner_all);
}

class Open {
 public:
  Open(const std::filesystem::path& path, int flags) : descriptor_(open(path.c_str(), flags)) {}
  ~Open() { close(descriptor_); }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

TEST(FileBytes, says_when_a_file_shrinks_or_cannot_be_read) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "labels";
  write_file(file, {1, 2, 3});
  Bytes bytes(5);
  EXPECT_EQ(error_of([&] { read_exactly(Open(file, O_RDONLY).descriptor(), bytes, file); },
                     directory.path()),
            "65 [data] DIR/labels: changed while it was read: 3 of 5 bytes");
  EXPECT_EQ(error_of([&] { read_exactly(Open(file, O_WRONLY).descriptor(), bytes, file); },
                     directory.path()),
            "74 [data] DIR/labels: cannot read at byte 0: Bad file descriptor");
}

}  // namespace
}  // namespace coxswain::data
