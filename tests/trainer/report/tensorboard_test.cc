#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <vector>

#include "tests/trainer/report/samples.h"
#include "trainer/contract/error.h"
#include "trainer/report/tensorboard_log.h"
#include "trainer/report/tensorboard_records.h"

namespace coxswain::report {
namespace {

namespace fs = std::filesystem;

class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "curves-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Directory() { fs::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const fs::path& path() const { return path_; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(path_)) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  fs::path path_;
};

template <typename T>
T take(std::string_view& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  bytes.remove_prefix(sizeof(value));
  return value;
}

// CRC32C by one bit after the other, as RFC 3720 has it, and TFRecord's turn of it.
std::uint32_t slow_checksum(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78U : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8U;
}

struct Histogram {
  std::vector<double> numbers;  // min, max, count, sum, sum of squares
  std::vector<double> limits, buckets;
};

// The curves as a reader sees them: a start drops what came before from its step on.
struct Curves {
  std::map<std::string, std::map<std::int64_t, float>> points;
  std::map<std::string, Histogram> histograms;
  std::string version;

  void read(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view whole = bytes;
      const auto size = take<std::uint64_t>(bytes);
      ASSERT_EQ(take<std::uint32_t>(bytes), slow_checksum(whole.substr(0, 8)));
      const std::string_view event = bytes.substr(0, size);
      bytes.remove_prefix(size);
      ASSERT_EQ(take<std::uint32_t>(bytes), slow_checksum(event));
      take_event({event.data(), event.size()});
    }
  }

  void take_event(protozero::pbf_reader event) {
    std::int64_t step = 0;
    while (event.next()) {
      if (event.tag() == 2) {
        step = event.get_int64();
      } else if (event.tag() == 3) {
        version = event.get_string();
      } else if (event.tag() == 5) {
        take_summary(event.get_message(), step);
      } else if (event.tag() == 7) {
        for (auto& [tag, curve] : points) curve.erase(curve.lower_bound(step), curve.end());
        event.skip();
      } else {
        event.skip();
      }
    }
  }

  static void take_histogram(protozero::pbf_reader message, Histogram& histogram) {
    while (message.next()) {
      if (message.tag() < 6) {
        histogram.numbers.push_back(message.get_double());
        continue;
      }
      auto& all = message.tag() == 6 ? histogram.limits : histogram.buckets;
      const auto range = message.get_packed_double();
      all.assign(range.begin(), range.end());
    }
  }

  void take_summary(protozero::pbf_reader summary, std::int64_t step) {
    while (summary.next(1)) {
      protozero::pbf_reader value = summary.get_message();
      std::string tag;
      while (value.next()) {
        if (value.tag() == 1) {
          tag = value.get_string();
        } else if (value.tag() == 5) {
          take_histogram(value.get_message(), histograms[tag]);
        } else {
          ASSERT_TRUE(points[tag].emplace(step, value.get_float()).second) << tag << " " << step;
        }
      }
    }
  }
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TensorBoardOptions options_of(const Directory& directory) {
  TensorBoardOptions options;
  options.directory = directory.path();
  options.now = [] { return std::chrono::system_clock::time_point(std::chrono::seconds(1000)); };
  return options;
}

TEST(TensorBoard, has_the_curves_under_their_usual_names) {
  const Directory directory;
  {
    TensorBoardLog log(options_of(directory));
    log.started(sample_run());
    log.stepped(sample_step(1));
    log.stepped(sample_step(2));
    log.finished_epoch(sample_epoch());
  }
  ASSERT_EQ(directory.files().size(), 1U);
  EXPECT_EQ(directory.files()[0].filename(), "events.out.tfevents.0000001000.000.coxswain");
  Curves curves;
  curves.read(bytes_of(directory.files()[0]));
  EXPECT_EQ(curves.version, "brain.Event:2");
  const std::map<std::int64_t, float> losses{{1, 0.03123F}, {2, 0.03123F}};
  EXPECT_EQ(curves.points["Loss/train"], losses);
  EXPECT_EQ(curves.points["Accuracy/train"].at(2), 0.99117F);
  EXPECT_EQ(curves.points["lr"].at(2), 0.045F);
  EXPECT_EQ(curves.points["images/s"].at(2), 15234.4F);
  const std::map<std::int64_t, float> accuracies{{1876, 0.9921F}};
  EXPECT_EQ(curves.points["Accuracy/Val"], accuracies);
  EXPECT_EQ(curves.points["Loss/Val"].at(1876), 0.0256F);
}

TEST(TensorBoard, goes_on_after_a_resume_without_doubled_points) {
  const Directory directory;
  for (const std::int64_t first : {0, 2}) {
    TensorBoardLog log(options_of(directory));
    train::RunInfo info = sample_run();
    info.first_step = first;
    log.started(info);
    for (std::int64_t step = first + 1; step <= first + 3; ++step) {
      train::StepReport report = sample_step(step);
      report.loss = static_cast<double>(first);
      log.stepped(report);
    }
  }
  ASSERT_EQ(directory.files().size(), 2U);  // two starts in one second
  Curves curves;
  for (const fs::path& file : directory.files()) curves.read(bytes_of(file));
  const std::map<std::int64_t, float> losses{{1, 0}, {2, 0}, {3, 2}, {4, 2}, {5, 2}};
  EXPECT_EQ(curves.points["Loss/train"], losses);
}

TEST(TensorBoard, has_how_weights_lie_where_it_is_told_of_them) {
  const Directory directory;
  {
    TensorBoardLog log(options_of(directory));
    log.started(sample_run());
    const std::vector<checkpoint::NamedTensor> tensors{
        {"fc.weight", {2, 3}, {-1, 0.5F, 2, 2, std::numeric_limits<float>::infinity(), 0}},
        {"fc.bias", {2}, {3, 3}}};
    log.finished_epoch_with({7, tensors});
  }
  Curves curves;
  curves.read(bytes_of(directory.files()[0]));
  const Histogram& weights = curves.histograms.at("Weights/fc.weight");
  EXPECT_EQ(weights.numbers, (std::vector<double>{-1, 2, 5, 3.5, 9.25}));
  ASSERT_EQ(weights.buckets.size(), 30U);  // a tenth wide each
  EXPECT_EQ(weights.limits[0], -0.9);
  EXPECT_EQ(weights.limits[29], 2);
  for (const auto& [at, count] : {std::pair{0U, 1}, {10U, 1}, {15U, 1}, {29U, 2}})
    EXPECT_EQ(weights.buckets[at], count) << at;
  const Histogram& bias = curves.histograms.at("Weights/fc.bias");  // all alike
  EXPECT_EQ(bias.numbers, (std::vector<double>{3, 3, 2, 6, 18}));
  EXPECT_EQ(bias.buckets[0], 2);
}

TEST(TensorBoard, tells_an_evaluation_once_that_a_resume_makes_again) {
  const Directory directory;
  for (const bool again : {false, true}) {
    TensorBoardOptions options = options_of(directory);
    train::RunInfo info = sample_run();
    if (again) {
      info.first_step = 1876;
      options.evaluated = {1876};
    }
    TensorBoardLog log(options);
    log.started(info);
    log.finished_epoch(sample_epoch());
  }
  Curves curves;  // which takes no point twice
  for (const fs::path& file : directory.files()) curves.read(bytes_of(file));
  EXPECT_EQ(curves.points["Accuracy/Val"].size(), 1U);
}

TEST(TensorBoard, refuses_a_place_that_can_not_be_written) {
  const Directory directory;
  std::ofstream(directory.path() / "in the way") << "a file";
  TensorBoardOptions options = options_of(directory);
  options.directory = directory.path() / "in the way" / "curves";
  try {
    const TensorBoardLog log(options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kVolume);
    EXPECT_NE(std::string(error.what()).find("in the way/curves"), std::string::npos);
  }
}

}  // namespace
}  // namespace coxswain::report
