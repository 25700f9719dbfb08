#include "trainer/report/tensorboard_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "trainer/contract/error.h"

namespace coxswain::report {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& where, const std::string& why) {
  throw Error(ExitCode::kVolume,
              fmt::format("[report] report.tensorboard: {}: {}", where.string(), why));
}

}  // namespace

TensorBoardLog::TensorBoardLog(TensorBoardOptions options) : options_(std::move(options)) {
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  if (error) refuse(options_.directory, error.message());
  file_ = open_new();
  write(version_record(wall_time()));
  if (!file_) refuse(options_.directory, "can't be written to");
}

// Readers take files in the order of their names. The number keeps two starts of one second apart.
TensorBoardLog::File TensorBoardLog::open_new() {
  constexpr int kMostOfASecond = 1000;
  const auto second = static_cast<std::int64_t>(wall_time());
  for (int number = 0; number < kMostOfASecond; ++number) {
    const auto path = options_.directory /
                      fmt::format("events.out.tfevents.{:010}.{:03}.coxswain", second, number);
    if (File file{std::fopen(path.c_str(), "wbx")}) return file;
    if (errno != EEXIST) refuse(path, std::strerror(errno));
  }
  refuse(options_.directory, "too many starts in one second");
}

double TensorBoardLog::wall_time() const {
  return std::chrono::duration<double>(options_.now().time_since_epoch()).count();
}

void TensorBoardLog::write(const std::string& record) {
  if (!file_) return;
  const bool written = std::fwrite(record.data(), 1, record.size(), file_.get()) == record.size();
  if (written && std::fflush(file_.get()) == 0) return;
  options_.on_problem(fmt::format("report.tensorboard: the curves in {} end here: {}",
                                  options_.directory.string(), std::strerror(errno)));
  file_.reset();
}

void TensorBoardLog::started(const train::RunInfo& info) {
  first_step_ = info.first_step;
  write(start_record({wall_time(), info.first_step + 1}));
}

void TensorBoardLog::stepped(const train::StepReport& report) {
  std::vector<Scalar> scalars{{"Loss/train", report.loss},
                              {"Accuracy/train", report.accuracy},
                              {"lr", report.lr},
                              {"images/s", report.samples_per_second}};
  if (report.top5) scalars.push_back({"Top5/train", *report.top5});
  write(scalars_record({wall_time(), report.step}, scalars));
}

// The end of an epoch that a resume, which went on from there, comes to once more.
bool TensorBoardLog::has(std::int64_t step) const {
  return step == first_step_ && options_.evaluated.contains(first_step_);
}

void TensorBoardLog::finished_epoch(const train::EpochReport& report) {
  if (!report.evaluated || has(report.step)) return;
  const std::vector<Scalar> scalars{
      {"Loss/Val", report.loss}, {"Accuracy/Val", report.accuracy}, {"Top5/Val", report.top5}};
  write(scalars_record({wall_time(), report.step}, scalars));
}

void TensorBoardLog::finished_epoch_with(const train::WeightsReport& report) {
  if (has(report.step)) return;
  for (const checkpoint::NamedTensor& tensor : report.tensors)
    write(histogram_record({wall_time(), report.step}, "Weights/" + tensor.name, tensor.values));
}

}  // namespace coxswain::report
