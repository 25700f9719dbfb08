#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/as_nobody.h"
#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"
#include "tests/trainer/picture/ppm.h"
#include "trainer/data/dataset.h"
#include "trainer/data/record.h"
#include "trainer/data/record_file.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::bytes_of;
using test::error_of;
using ::testing::ElementsAre;

constexpr std::uint8_t kMagicBytes[] = {0x0a, 0x23, 0xd7, 0xce};

class RecordTest : public ::testing::Test {
 protected:
  const fs::path& path() const { return directory_.path(); }
  fs::path file() const { return path() / "train.rec"; }
  void write(const Bytes& bytes) const { test::write_file(file(), bytes); }
  std::unique_ptr<Dataset> open(const PictureOptions& options = {}) const {
    return open_records(path(), {}, Part::kTraining, options);
  }
  std::string problem() const {
    return error_of([&] { RecordFile{file()}; }, path());
  }
  static Bytes of_pictures() {
    Bytes records;
    append_record(records, 1, 7, test::file_bytes(test::picture_file("rgb.png")));
    append_record(records, 0, 8, test::file_bytes(test::picture_file("colour.jpg")));
    return records;
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST_F(RecordTest, reads_what_was_packed) {
  write(of_pictures());
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->classes(), 2);
  EXPECT_EQ(dataset->sample_shape(), (tensor::Shape{1, 3, 13, 21}));
  EXPECT_EQ(dataset->label(0), 1);
  EXPECT_EQ(bytes_of(*dataset, 0), test::read_ppm("rgb.png.ppm").pixels);
  EXPECT_THAT(dataset->name(1), ::testing::EndsWith("train.rec: record 1"));
}

TEST_F(RecordTest, are_another_set_with_other_images_and_no_set_without_two_classes) {
  const auto hash_with = [&](const Bytes& image) {
    Bytes records;
    for (const std::uint8_t label : {0, 1}) append_record(records, label, label, image);
    write(records);
    return open({.raw = {1, 1, 1, 3}})->content_hash();
  };
  EXPECT_NE(hash_with({1, 2, 3}), hash_with({1, 2, 4}));
  EXPECT_EQ(hash_with({1, 2, 3}), hash_with({1, 2, 3}));
  Bytes records;
  append_record(records, 0, 0, Bytes{1, 2, 3});
  write(records);
  EXPECT_EQ(error_of([&] { open({.raw = {1, 1, 1, 3}}); }, path()),
            "65 [data] DIR: every record's label is 0; two classes or more are expected");
}

TEST_F(RecordTest, takes_the_records_of_an_index_in_its_order) {
  write(of_pictures());
  const std::uint64_t second = [&] {
    Bytes first;
    append_record(first, 1, 7, test::file_bytes(test::picture_file("rgb.png")));
    return first.size();
  }();
  const auto put = [&](const std::string& text) {
    test::write_file(path() / "train.idx", {text.begin(), text.end()});
  };
  put(fmt::format("8\t{}\n7\t0\n", second));
  const auto dataset = open();
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->label(0), 0);
  EXPECT_EQ(dataset->label(1), 1);
  EXPECT_EQ(bytes_of(*dataset, 1), test::read_ppm("rgb.png.ppm").pixels);
  put("7\t0\r\n");
  EXPECT_EQ(open()->size(), 1);
  put(fmt::format("7\t0\n8\t{}", second));
  EXPECT_EQ(open()->label(0), 1);

  const auto problem_of = [&](const std::string& text) {
    put(text);
    return error_of([&] { open(); }, path());
  };
  const auto wrong = [](const std::string& what) { return "65 [data] DIR/train.idx: " + what; };
  EXPECT_EQ(
      problem_of("7\t0\n8\t4\n"),
      wrong("line 2: no record begins at byte 4 of train.rec; it is of another file: write it "
            "anew, or remove it"));
  EXPECT_EQ(problem_of("7\t0\n8\t0\n"),
            wrong("line 2: lists again the record at byte 0 of train.rec; it is of another file: "
                  "write it anew, or remove it"));
  for (const std::string text : {"7 0\n", "\n", "x\t0\n", "7\t\n", "7\t0x\n", "7\t-1\n"})
    EXPECT_EQ(problem_of(text), wrong("line 1: is no number and position, parted by a tab"))
        << text;
  EXPECT_EQ(problem_of(""), wrong("lists no record"));
}

// mxnet.recordio.MXRecordIO wrote it: two images, of bytes that hold the magic at 0, 4 and 6.
TEST_F(RecordTest, reads_mxnets_own_file) {
  const RecordFile records{test::picture_file("mxnet.rec")};
  ASSERT_EQ(records.size(), 3);
  std::vector<Bytes> images;
  std::vector<int> labels;
  Bytes written;
  for (std::int64_t i = 0; i < records.size(); ++i) {
    Bytes bytes;
    Bytes joined;
    const ParsedRecord parsed = parse_record(records.read(i, bytes), joined);
    EXPECT_EQ(parsed.problem, "");
    images.emplace_back(parsed.record.image.begin(), parsed.record.image.end());
    labels.push_back(records.label(i));
    append_record(written, labels.back(), parsed.record.id, images.back());
  }
  const auto magic = [](Bytes before, const Bytes& after) {
    before.insert(before.end(), std::begin(kMagicBytes), std::end(kMagicBytes));
    before.insert(before.end(), after.begin(), after.end());
    return before;
  };
  EXPECT_EQ(images[0], magic({}, magic({}, {1, 2, 3})));
  EXPECT_EQ(images[1], magic({5, 6}, {}));
  EXPECT_EQ(images[2], (Bytes{9}));
  EXPECT_THAT(labels, ElementsAre(3, 0, 1));
  EXPECT_EQ(written, test::file_bytes(test::picture_file("mxnet.rec")));
}

TEST_F(RecordTest, reads_raw_images_of_a_shape) {
  Bytes records;
  append_record(records, 0, 0, Bytes{1, 2, 3, 4, 5, 6});
  append_record(records, 1, 1, Bytes{1, 2, 3, 4, 5});
  const Bytes with_magic{0x0a, 0x23, 0xd7, 0xce, 5, 6};  // stored in two parts
  append_record(records, 1, 2, with_magic);
  write(records);
  const auto dataset = open({.raw = {1, 1, 2, 3}});
  EXPECT_EQ(bytes_of(*dataset, 0), (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(bytes_of(*dataset, 2), with_magic);
  EXPECT_EQ(error_of([&] { bytes_of(*dataset, 1); }),
            "65 holds 5 bytes, and raw images of data.shape 6");
  Bytes alike;
  for (std::uint8_t i = 0; i < 3; ++i) append_record(alike, i, i, Bytes{i, 2, 3, 4, 5});
  test::write_file(path() / "alike.rec", alike);
  const auto fives = [&](const PictureOptions& options) {
    return open_records(path() / "alike.rec", {}, Part::kTraining, options);
  };
  EXPECT_EQ(bytes_of(*fives({.raw = {1, 1, 1, 5}}), 2), (Bytes{2, 2, 3, 4, 5}));
  EXPECT_EQ(error_of([&] { bytes_of(*fives({.raw = {1, 1, 2, 3}}), 2); }),
            "65 holds 5 bytes, and raw images of data.shape 6");
  EXPECT_EQ(error_of([&] { open(); }, path()),
            "65 [data] DIR/train.rec: record 0: is neither JPEG nor PNG; of raw images set "
            "data.shape");
}

TEST_F(RecordTest, tells_a_bad_picture_from_the_others) {
  Bytes records = of_pictures();
  append_record(records, 0, 2, test::png_that_says(31623, 31623));
  append_record(records, 0, 3, Bytes{'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P'});
  write(records);
  const auto dataset = open();
  EXPECT_EQ(test::problem_of(*dataset, 1), "none");
  EXPECT_EQ(test::problem_of(*dataset, 2), "has 31623x31623 pixels, over the limit of 67108864");
  EXPECT_EQ(test::problem_of(*dataset, 3), "is WebP; JPEG and PNG can be read");
}

TEST_F(RecordTest, says_when_a_file_may_not_be_read) {
  write(of_pictures());
  fs::permissions(path(), fs::perms::all);
  fs::permissions(file(), fs::perms::none);
  const test::AsNobody nobody;
  EXPECT_EQ(problem(), "65 [data] DIR/train.rec: Permission denied");
}

TEST_F(RecordTest, says_where_a_file_is_cut_or_damaged) {
  const Bytes whole = of_pictures();
  const std::size_t second = parse_part(whole).header.padded() + kPartHeader;
  const auto cut = [&](std::size_t size) {
    write(test::first_bytes(whole, size));
    return problem();
  };
  EXPECT_EQ(cut(0), "65 [data] DIR/train.rec: holds no records");
  EXPECT_EQ(cut(5),
            "65 [data] DIR/train.rec: record 0, at byte 0: ends in a header, after 5 of 8 bytes");
  EXPECT_THAT(
      cut(second + 100),
      ::testing::MatchesRegex(fmt::format(
          ".*: record 1, at byte {}: ends after 92 of [0-9]+ bytes; copy it anew", second)));
  write(test::with_byte(whole, second, 1));
  EXPECT_EQ(problem(), fmt::format("65 [data] DIR/train.rec: record 1, at byte {}: begins with "
                                   "0xced72301, expected 0xced7230a",
                                   second));
  write(test::with_byte(whole, second + 7, 0xe0));
  EXPECT_THAT(problem(), ::testing::EndsWith("has a part of unknown kind 7"));
  write(test::with_byte(whole, second + 7, 0x40));
  EXPECT_THAT(problem(), ::testing::EndsWith("begins in the middle of another"));
  write(test::with_byte(whole, second + 8, 4));
  EXPECT_THAT(problem(), ::testing::EndsWith("has an array of 4 labels; one class for each image "
                                             "can be learnt, so pack it with one label"));
  write(test::with_byte(whole, second + 15, 0xbf));
  EXPECT_THAT(problem(), ::testing::HasSubstr("has label -0"));
}

TEST_F(RecordTest, finds_its_files) {
  write(of_pictures());
  EXPECT_EQ(error_of([&] { open_records(path(), {}, Part::kTest, {}); }, path()),
            "65 [data] DIR: neither val.rec nor val-00000-of-*.rec is there; set data.path to the "
            "folder or the file");
  EXPECT_EQ(error_of([&] { open_records(file(), path(), Part::kTest, {}); }, path()),
            "65 [data] DIR: neither val.rec nor val-00000-of-*.rec is there; set data.evalPath to "
            "the folder or the file");
  EXPECT_EQ(open_records(file(), file(), Part::kTest, {})->size(), 2);
  fs::rename(file(), path() / "train-00000-of-00002.rec");
  EXPECT_EQ(error_of([&] { open(); }, path()),
            "65 [data] DIR: 1 of the 00002 files train-*.rec are there");
  fs::copy_file(path() / "train-00000-of-00002.rec", path() / "train-00001-of-00002.rec");
  const auto both = open();
  EXPECT_EQ(both->size(), 4);
  EXPECT_EQ(both->label(2), 1);
}

// As in image folders. A file that is named itself may be a link to anywhere.
TEST_F(RecordTest, follows_links_within_the_folder_alone) {
  const test::TemporaryDirectory elsewhere;
  test::write_file(elsewhere.path() / "all.rec", of_pictures());
  fs::create_symlink(elsewhere.path() / "all.rec", file());
  EXPECT_THAT(error_of([&] { open(); }, path()),
              ::testing::MatchesRegex("65 \\[data\\] DIR/train.rec: a link out of the folder, to "
                                      ".*/all.rec; name that file itself, or copy it"));
  EXPECT_EQ(open_records(file(), {}, Part::kTraining, {})->size(), 2);
  fs::remove(file());
  fs::create_directory(path() / "first");
  test::write_file(path() / "first/all.rec", of_pictures());
  fs::create_symlink("first/all.rec", file());
  EXPECT_EQ(open()->size(), 2);
  fs::create_symlink(elsewhere.path() / "all.rec", path() / "train.idx");
  EXPECT_THAT(error_of([&] { open(); }, path()),
              ::testing::HasSubstr("DIR/train.idx: a link out of the folder, to "));
}

TEST_F(RecordTest, tells_when_a_file_changes) {
  write(of_pictures());
  fs::last_write_time(file(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto kept = open();  // it is small
  const auto records = std::make_unique<RecordFile>(file());
  const auto problem_of = [&](const RecordFile& read) {
    Bytes bytes;
    return error_of([&] { read.read(0, bytes); }, path());
  };
  EXPECT_EQ(problem_of(*records), "no error");
  const std::string changed =
      "65 [data] DIR/train.rec: has changed since it was opened; start anew, and leave the file as "
      "it is";
  write(test::with_byte(of_pictures(), 60, 1));
  EXPECT_EQ(problem_of(*records), changed) << "its size is the same";
  const RecordFile again{file()};
  fs::resize_file(file(), 60);
  EXPECT_EQ(problem_of(again), changed);
  EXPECT_EQ(bytes_of(*kept, 0), test::read_ppm("rgb.png.ppm").pixels);
}

TEST(Record, refuses_any_truncation) {
  Bytes whole;
  Bytes image{1, 2, 3, 4};
  image.insert(image.end(), std::begin(kMagicBytes), std::end(kMagicBytes));
  image.push_back(9);
  append_record(whole, 1, 2, image);
  Bytes joined;
  for (std::size_t size = 0; size + 3 < whole.size(); ++size) {
    const Bytes part = test::first_bytes(whole, size);
    EXPECT_NE(parse_record(part, joined).problem, "") << size;
  }
  EXPECT_EQ(parse_record(whole, joined).problem, "");
}

}  // namespace
}  // namespace coxswain::data
