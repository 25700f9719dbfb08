#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "tests/support/as_nobody.h"
#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"
#include "tests/trainer/picture/ppm.h"
#include "trainer/data/bad_samples.h"
#include "trainer/data/data_loader.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder_index.h"
#include "trainer/data/sampler.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageFolderTest : public ::testing::Test {
 protected:
  const fs::path& path() const { return directory_.path(); }

  // A copy of one of tests/golden/picture.
  void put(const std::string& name, const std::string& picture = "rgb.png") const {
    fs::create_directories((path() / name).parent_path());
    fs::copy_file(test::picture_file(picture), path() / name, fs::copy_options::overwrite_existing);
  }
  void put_small_set() const {
    for (const char* part : {"train", "val"}) {
      put(std::string(part) + "/cat/1.png", "rgb.png");
      put(std::string(part) + "/cat/2.JPG", "colour.jpg");
      put(std::string(part) + "/dog/1.jpeg", "progressive.jpg");
    }
  }
  std::vector<std::string> listed() const {
    const FolderIndex index = list_folder(path());
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < index.size(); ++i) {
      names.push_back(fmt::format("{} {}", index.label(i), index.path(i)));
    }
    return names;
  }
  std::string problem() const {
    return error_of([&] { list_folder(path()); }, path());
  }
  std::unique_ptr<Dataset> open(Part part = Part::kTraining) const {
    return open_image_folder(path(), {}, part, {});
  }

 private:
  test::TemporaryDirectory directory_;
};

// python3 -c 'import torchvision; print(torchvision.datasets.ImageFolder(".").samples)'
TEST_F(ImageFolderTest, has_torchvisions_order) {
  for (const char* name :
       {"b/2.png", "b/10.png", "B2/x.png", "a/z.png", "a/sub/1.png", "a/sub-b/1.png",
        "a/sub/deep/1.png", "a/A.png", "\xc3\xa4/1.png", "a/notes.txt", "a/.hidden.png"}) {
    put(name);
  }
  EXPECT_THAT(listed(), ElementsAre("0 B2/x.png", "1 a/A.png", "1 a/z.png", "1 a/sub/1.png",
                                    "1 a/sub-b/1.png", "1 a/sub/deep/1.png", "2 b/10.png",
                                    "2 b/2.png", "3 \xc3\xa4/1.png"));
}

TEST_F(ImageFolderTest, reads_what_lies_in_it) {
  put_small_set();
  const auto training = open();
  EXPECT_EQ(training->size(), 3);
  EXPECT_EQ(training->classes(), 2);
  EXPECT_EQ(training->sample_shape(), (tensor::Shape{1, 3, 13, 21}));
  EXPECT_EQ(training->label(2), 1);
  EXPECT_EQ(bytes_of(*training, 0), test::read_ppm("rgb.png.ppm").pixels);
  EXPECT_EQ(open(Part::kTest)->size(), 3);
  EXPECT_EQ(open_image_folder(path() / "train", path() / "val", Part::kTest, {})->size(), 3);
}

TEST_F(ImageFolderTest, says_what_is_wrong_with_a_folder) {
  EXPECT_EQ(problem(),
            "65 [data] DIR: holds no folders; a folder for each class is expected, with its "
            "pictures in it");
  put("cat/1.png");
  fs::create_directories(path() / "dog");
  EXPECT_EQ(problem(),
            "65 [data] DIR/dog: a class without a JPEG or PNG: remove the folder, or fill it");
  put("dog/1.png");
  put("Cat/1.png");
  EXPECT_EQ(problem(),
            "65 [data] DIR: the classes Cat and cat differ in case alone; rename one, or put them "
            "together");
  fs::remove_all(path() / "Cat");
  for (const std::string name : {"2.webp", "2.GIF"}) {
    put("dog/" + name);
    EXPECT_EQ(problem(), "65 [data] DIR/dog/" + name +
                             ": JPEG and PNG alone are read; convert it, or remove it");
    fs::remove(path() / "dog" / name);
  }
  fs::remove_all(path() / "dog");
  EXPECT_EQ(error_of([&] { open(); }, path()),
            "65 [data] DIR: holds one folder alone, cat; a folder for each of two classes or more "
            "is expected: is data.path one level too high?");
}

TEST_F(ImageFolderTest, refuses_what_has_a_pictures_name_and_is_no_file) {
  put("cat/1.png");
  put("dog/1.png");
  ASSERT_EQ(mkfifo((path() / "cat/2.png").c_str(), 0600), 0);
  EXPECT_EQ(problem(),
            "65 [data] DIR/cat/2.png: named as a picture, and no regular file: remove it");
  fs::rename(path() / "cat/2.png", path() / "cat/pipe");
  EXPECT_THAT(listed(), ElementsAre("0 cat/1.png", "1 dog/1.png"));
}

TEST_F(ImageFolderTest, follows_links_within_the_folder_alone) {
  put("cat/1.png");
  fs::create_symlink("1.png", path() / "cat/2.png");
  EXPECT_THAT(listed(), ElementsAre("0 cat/1.png", "0 cat/2.png"));
  fs::create_symlink("/proc/self/exe", path() / "cat/3.png");
  EXPECT_THAT(problem(), HasSubstr("DIR/cat/3.png: a link out of the folder, to "));
  fs::remove(path() / "cat/3.png");
  fs::create_symlink("nowhere", path() / "cat/4.png");
  EXPECT_EQ(problem(),
            "65 [data] DIR/cat/4.png: a link that leads nowhere: No such file or directory");
  fs::remove(path() / "cat/4.png");
  fs::create_directory_symlink("..", path() / "cat/up");
  EXPECT_THAT(problem(), HasSubstr("deeper than 32 folders; does a link lead upwards?"));
}

TEST_F(ImageFolderTest, shows_odd_names_on_one_line) {
  put("train/cat/a\nb.png", "grey.jpg");
  put("train/dog/1.png");
  EXPECT_THAT(open()->name(0), ::testing::EndsWith("train/cat/a\\x0ab.png"));
}

TEST_F(ImageFolderTest, shows_odd_classes_on_one_line) {
  put_small_set();
  put("train/an\nowl/1.png");
  EXPECT_EQ(open()->class_name(0), "an\nowl") << "as it is, for those who write JSON";
  EXPECT_THAT(open()->name(0), ::testing::EndsWith("train/an\\x0aowl/1.png"));
  EXPECT_EQ(error_of([&] { open(Part::kTest); }, path()),
            "65 [data] DIR/val: has no class an\\x0aowl, which train has");
  put("train/An\nowl/1.png");
  fs::create_directories(path() / "train/a\nb");
  EXPECT_EQ(error_of([&] { list_folder(path() / "train"); }, path()),
            "65 [data] DIR/train: the classes An\\x0aowl and an\\x0aowl differ in case alone; "
            "rename one, or put them together");
  fs::remove_all(path() / "train/An\nowl");
  EXPECT_EQ(error_of([&] { list_folder(path() / "train"); }, path()),
            "65 [data] DIR/train/a\\x0ab: a class without a JPEG or PNG: remove the folder, or "
            "fill it");
}

// A checkpoint's state holds text alone, and a resume compares the names with it.
TEST_F(ImageFolderTest, names_classes_in_text) {
  for (const char* part : {"train", "val"}) {
    put(std::string(part) + "/cat/1.png");
    put(std::string(part) + "/caf\xe9/1.png");
  }
  EXPECT_THAT(open()->class_names(), ElementsAre("caf\\xe9", "cat"));
}

TEST_F(ImageFolderTest, says_what_may_not_be_read) {
  put_small_set();
  fs::permissions(path(), fs::perms::all);
  const fs::path picture = path() / "train/cat/1.png";
  fs::permissions(picture, fs::perms::none);
  {
    const test::AsNobody nobody;
    const auto dataset = open();
    EXPECT_EQ(error_of([&] { bytes_of(*dataset, 0); }), "65 Permission denied") << "of one alone";
    EXPECT_EQ(bytes_of(*dataset, 1).size(), 819U);
  }
  for (const fs::path& folder : {path() / "train/dog", path() / "train"}) {
    fs::permissions(folder, fs::perms::none);
    {
      const test::AsNobody nobody;
      EXPECT_EQ(error_of([&] { open(); }, path()),
                fmt::format("65 [data] DIR/{}: Permission denied",
                            fs::relative(folder, path()).string()));
    }
    fs::permissions(folder, fs::perms::owner_all);
  }
}

TEST_F(ImageFolderTest, wants_the_same_classes_in_both_parts) {
  put_small_set();
  put("train/owl/1.png");
  EXPECT_EQ(error_of([&] { open(Part::kTest); }, path()),
            "65 [data] DIR/val: has no class owl, which train has");
  fs::rename(path() / "train/owl", path() / "val/owl");
  EXPECT_EQ(error_of([&] { open(Part::kTest); }, path()),
            "65 [data] DIR/val: has a class owl, which train has not");
  fs::remove_all(path() / "val");
  EXPECT_EQ(error_of([&] { open(Part::kTest); }, path()),
            "65 [data] DIR: no val/ is there; set data.evalPath to the folder of the test images");
}

TEST_F(ImageFolderTest, tells_a_bad_picture_from_the_others) {
  put_small_set();
  test::write_file(path() / "train/cat/2.JPG",
                   {'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P'});
  fs::remove(path() / "train/dog/1.jpeg");
  put("train/dog/2.png");
  const auto dataset = open();
  fs::remove(path() / "train/dog/2.png");
  EXPECT_EQ(test::problem_of(*dataset, 0), "none");
  EXPECT_EQ(test::problem_of(*dataset, 1), "is WebP; JPEG and PNG can be read");
  EXPECT_EQ(test::problem_of(*dataset, 2), "No such file or directory");
}

// In the place of a bad one stands the next, whatever the number of threads, and it is told of.
TEST_F(ImageFolderTest, passes_bad_pictures_over_when_asked) {
  put("train/cat/1.png", "grey.png");
  put("train/cat/2.png", "turned.jpg.ppm");
  put("train/dog/1.png", "rgb.png");
  const auto dataset = open();
  for (const int workers : {1, 4}) {
    BadSampleLog log;
    int batches = 0;
    DataLoader loader(*dataset, {{}, true, 0, 4, workers, &log},
                      [&]() -> std::optional<BatchRequest> {
                        if (++batches > 2) return std::nullopt;
                        return BatchRequest{{0, 1, 2}, 0, 0};
                      });
    while (const HostBatch* batch = loader.next()) {
      EXPECT_THAT(batch->labels, ElementsAre(0, 1, 1));
      EXPECT_EQ(std::vector(batch->images.begin() + 819, batch->images.begin() + 2 * 819),
                test::read_ppm("rgb.png.ppm").pixels);
    }
    EXPECT_EQ(log.count(), 1);
    EXPECT_THAT(log.first(), ElementsAre(HasSubstr("cat/2.png: is neither JPEG nor PNG")));
  }
  DataLoader loader(*dataset, {},
                    [&]() -> std::optional<BatchRequest> { return BatchRequest{{0, 1, 2}, 0, 0}; });
  EXPECT_EQ(error_of([&] { loader.next(); }, path()),
            "65 [data] DIR/train/cat/2.png: is neither JPEG nor PNG");
}

// Nothing stands in its place there: no sample counts twice.
TEST_F(ImageFolderTest, leaves_bad_pictures_out_of_evaluation) {
  put("train/cat/1.png", "grey.png");
  put("train/cat/2.png", "turned.jpg.ppm");
  put("train/dog/1.png", "rgb.png");
  const auto dataset = open();
  for (const int workers : {1, 4}) {
    BadSampleLog log;
    int batches = 0;
    DataLoader loader(*dataset, {{}, false, 0, 4, workers, &log},
                      [&]() -> std::optional<BatchRequest> {
                        if (++batches > 3) return std::nullopt;
                        if (batches == 3) return BatchRequest{{1}, 0, 4};
                        return BatchRequest{{0, 1, 2}, 0, 4};
                      });
    for (int i = 0; i < 2; ++i) {
      const HostBatch* batch = loader.next();
      ASSERT_EQ(batch->valid, 2);
      EXPECT_EQ(batch->labels.size(), 4U);
      EXPECT_EQ(batch->labels[0], 0);
      EXPECT_EQ(batch->labels[1], 1);
      EXPECT_EQ(batch->sample_ids[1], 2);
      EXPECT_EQ(std::vector(batch->images.begin() + 819, batch->images.begin() + 2 * 819),
                test::read_ppm("rgb.png.ppm").pixels);
    }
    EXPECT_EQ(loader.next()->valid, 0);
    EXPECT_EQ(log.count(), 1);
  }
}

TEST_F(ImageFolderTest, wants_one_size_or_a_step_that_makes_it) {
  put("train/cat/1.png", "rgb.png");
  put("train/cat/2.png", "photo.png");
  put("train/dog/1.png", "rgb.png");
  const auto dataset = open();
  const auto first_of = [&](Preprocessing steps) {
    DataLoader loader(*dataset, {.preprocessing = std::move(steps)},
                      [&]() -> std::optional<BatchRequest> { return BatchRequest{{0, 1}, 0, 0}; });
    return loader.next()->images.size();
  };
  EXPECT_EQ(error_of([&] { first_of({}); }, path()),
            "65 [data] DIR/train/cat/2.png: of 37x29 becomes 37x29, and the network takes 21x13; "
            "begin data.augment with random-resized-crop, or resize and centre-crop");
  EXPECT_EQ(first_of({augment::Resize{.size = 16}, augment::CentreCrop{12}}), 2U * 12 * 12 * 3);
  EXPECT_EQ(first_of({augment::RandomResizedCrop{.size = 9}, augment::Flip{}}), 2U * 9 * 9 * 3);
}

TEST_F(ImageFolderTest, keeps_an_index_while_no_folder_changes) {
  put_small_set();
  const fs::path root = path() / "train";
  const FolderIndex index = list_folder(root);
  EXPECT_EQ(decode_index(encode(index)), index);
  EXPECT_EQ(index_file(root / ""), path() / "train.coxswain-index");
  write_whole(index_file(root), encode(index));
  // Only its own bytes tell of this one.
  FolderIndex other;
  for (const auto& folder : index.folders()) other.add_folder(folder);
  other.add_class("made up");
  other.add_file("1.png", index.stamp(0));
  write_whole(index_file(root), encode(other));
  EXPECT_EQ(index_of(root), other);
  put("train/cat/3.png");
  EXPECT_EQ(index_of(root).size(), 4);
}

// Their names and folders are as they were; so is its size.
TEST_F(ImageFolderTest, tells_of_a_picture_that_changes_while_it_runs) {
  put_small_set();
  const fs::path file = path() / "train/cat/1.png";
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto dataset = open();
  bytes_of(*dataset, 0);
  auto bytes = test::file_bytes(file);
  bytes.back() ^= 1;
  const std::int64_t began = file_time();
  do test::write_file(file, bytes);
  while (content_of(file).changed < began);  // its time may be of the tick before
  BadSampleLog log;  // skips bad samples, and this is none
  DataLoader loader(*dataset, {{}, true, 0, 4, 1, &log},
                    [&]() -> std::optional<BatchRequest> { return BatchRequest{{0}, 0, 0}; });
  EXPECT_EQ(error_of([&] { loader.next(); }, path()),
            "65 [data] DIR/train/cat/1.png: has changed since the run began; start it anew, and "
            "leave its pictures as they are");
  EXPECT_EQ(log.count(), 0);
}

// What mends a picture in its place leaves its folder's time, and the list that was kept, as it is.
TEST_F(ImageFolderTest, takes_a_picture_that_changed_before_the_run_as_it_is) {
  put_small_set();
  const fs::path root = path() / "train";
  fs::resize_file(root / "cat/1.png", 40);
  write_whole(index_file(root), encode(list_folder(root)));
  put("train/cat/1.png");
  EXPECT_EQ(index_of(root).stamp(0).bytes, 40U);
  EXPECT_EQ(bytes_of(*open(), 0), test::read_ppm("rgb.png.ppm").pixels);
}

TEST_F(ImageFolderTest, is_another_set_once_a_picture_is_replaced) {
  put_small_set();
  const std::uint64_t before = open()->content_hash();
  EXPECT_EQ(open()->content_hash(), before);
  EXPECT_EQ(first_of(repeat_channels(open(), 1), 2)->content_hash(), before);
  const fs::path root = path() / "train";
  fs::last_write_time(root / "cat/1.png", fs::file_time_type::clock::now());  // as copied anew
  EXPECT_EQ(open()->content_hash(), before);
  write_whole(index_file(root), encode(list_folder(root)));
  put("train/cat/1.png", "grey.png");  // in its place: the list stays
  EXPECT_NE(open()->content_hash(), before);
  put("train/cat/1.png", "rgb.png");
  EXPECT_EQ(open()->content_hash(), before);
  auto bytes = test::file_bytes(root / "cat/1.png");
  bytes.back() ^= 1;  // as large as it was
  test::write_file(root / "cat/1.png", bytes);
  EXPECT_NE(open()->content_hash(), before);
}

// ILSVRC2012's, of whose pictures the first alone is there. The DDP lab printed these steps.
TEST_F(ImageFolderTest, lists_all_of_imagenet) {
  constexpr std::int64_t kImages = 1'281'167;
  constexpr int kClasses = 1000;
  const std::string first = "n00000000/n00000000_0.JPEG";
  put("train/" + first, "colour.jpg");
  const fs::path root = path() / "train";
  const FolderIndex found = list_folder(root);
  FolderIndex index;
  for (const auto& folder : found.folders()) index.add_folder(folder);
  for (int c = 0; c < kClasses; ++c) {
    const std::string name = fmt::format("n{:08}", c);
    index.add_class(name);
    const std::int64_t count = kImages * (c + 1) / kClasses - kImages * c / kClasses;
    for (std::int64_t i = 0; i < count; ++i)
      index.add_file(fmt::format("{}_{}.JPEG", name, i), found.stamp(0));
  }
  write_whole(index_file(root), encode(index));
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), kImages);
  EXPECT_EQ(dataset->classes(), kClasses);
  EXPECT_EQ(dataset->label(kImages - 1), kClasses - 1);
  EXPECT_THAT(dataset->name(0), ::testing::EndsWith(first));
  const auto steps = [&](int ranks) {
    return steps_of({dataset->size(), 256 * ranks, ranks, Split::kShuffle, LastBatch::kKeep, 0}, 1);
  };
  EXPECT_EQ(steps(1), 5005);
  EXPECT_EQ(steps(2), 2503);
}

TEST_F(ImageFolderTest, takes_no_damaged_index) {
  put_small_set();
  const auto bytes = encode(list_folder(path() / "train"));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(decode_index(std::span(bytes).first(i)), std::nullopt);
    auto flipped = bytes;
    flipped[i] ^= 4;
    EXPECT_EQ(decode_index(flipped), std::nullopt) << i;
  }
}

}  // namespace
}  // namespace coxswain::data
