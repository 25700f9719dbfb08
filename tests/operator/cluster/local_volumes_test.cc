#include "operator/cluster/local_volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "tests/support/test_flags.h"
#include "trainer/contract/error.h"

namespace coxswain::cluster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// The current directory for the length of a test.
class CurrentDirectory {
 public:
  explicit CurrentDirectory(const fs::path& path) : before_(fs::current_path()) {
    fs::current_path(path);
  }
  ~CurrentDirectory() { fs::current_path(before_); }

 private:
  fs::path before_;
};

job::TrainingJob with_checkpoints(const job::Json& source) {
  job::TrainingJob job;
  job.spec.checkpoints_volume = source;
  return job;
}

std::string error_of(const std::function<void()>& act, ExitCode code) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

TEST(LocalVolumes, are_directories_made_when_missing) {
  const test::TemporaryDirectory temporary;
  const CurrentDirectory here(temporary.path());
  const fs::path base = fs::canonical(temporary.path());
  struct Row {
    job::Json source;
    fs::path directory;
  };
  const Row rows[] = {
      {{{"persistentVolumeClaim", {{"claimName", "a"}}}}, base / "coxswain-volumes/a"},
      {{{"hostPath", {{"path", (base / "host/b").string()}}}}, base / "host/b"},
      {{{"emptyDir", job::Json::object()}}, base / "run/volumes/checkpoints"},
  };
  for (const Row& row : rows) {
    const auto volumes = local_volumes(with_checkpoints(row.source), base / "run");
    EXPECT_EQ(volumes.checkpoints, row.directory) << row.source;
    EXPECT_EQ(volumes.data, "");
    EXPECT_TRUE(fs::is_directory(row.directory)) << row.source;
  }
}

TEST(LocalVolumes, say_how_to_map_what_has_no_directory) {
  const test::TemporaryDirectory run_dir;
  for (const job::Json& source :
       std::vector<job::Json>{{{"nfs", {{"server", "a"}}}},
                              {{"persistentVolumeClaim", {{"claimName", "../up"}}}},
                              {{"persistentVolumeClaim", {{"claimName", ".."}}}},
                              {{"persistentVolumeClaim", {{"claimName", 3}}}},
                              {{"hostPath", "text"}},
                              job::Json::object()}) {
    EXPECT_THAT(error_of([&] { local_volumes(with_checkpoints(source), run_dir.path()); },
                         ExitCode::kBadInput),
                HasSubstr("--volume checkpoints=DIR"))
        << source;
  }
}

TEST(LocalVolumes, name_a_place_that_is_no_directory) {
  const test::TemporaryDirectory temporary;
  const fs::path file = temporary.path() / "file";
  std::ofstream(file) << "x";
  const auto job = with_checkpoints({{"hostPath", {{"path", file.string()}}}});
  EXPECT_THAT(error_of([&] { local_volumes(job, temporary.path()); }, ExitCode::kVolume),
              HasSubstr(file.string()));
}

TEST(LocalVolumes, given_by_hand_take_the_place_of_the_jobs_own) {
  const test::TemporaryDirectory temporary;
  auto job = with_checkpoints({{"nfs", {{"server", "a"}}}});
  job.spec.data_volume = job::Json{{"emptyDir", job::Json::object()}};
  job = with_volumes(job, {{"checkpoints", temporary.path() / "c"}, {"data", temporary.path()}});
  const auto volumes = local_volumes(job, temporary.path() / "run");
  EXPECT_EQ(volumes.checkpoints, fs::canonical(temporary.path()) / "c");
  EXPECT_EQ(volumes.data, fs::canonical(temporary.path()));
}

TEST(LocalVolumes, given_by_hand_are_volumes_of_the_job) {
  const auto refusal = [](const job::TrainingJob& job, const VolumeDirectories& given) {
    return error_of([&] { with_volumes(job, given); }, ExitCode::kUsage);
  };
  auto job = with_checkpoints({{"emptyDir", job::Json::object()}});
  EXPECT_EQ(refusal(job, {{"model", "/x"}}),
            "--volume model=/x: the job has the volumes checkpoints");
  EXPECT_EQ(refusal(job, {{"data", "/x"}}),
            "--volume data=/x: the job has the volumes checkpoints; add it to spec.volumes");
  EXPECT_EQ(refusal({}, {{"data", "/x"}}),
            "--volume data=/x: the job has no volumes; add it to spec.volumes");
  job.spec.data_volume = job.spec.checkpoints_volume;
  EXPECT_EQ(refusal(job, {{"model", "/x"}}),
            "--volume model=/x: the job has the volumes checkpoints and data");
}

TEST(LocalVolumes, replace_data_in_paths_of_the_configuration) {
  const LocalVolumes mine{.data = "/mine", .checkpoints = ""};
  struct Row {
    const char* given;
    LocalVolumes volumes;
    const char* expected;
  };
  const Row rows[] = {
      {R"({"path":"/data","evalPath":"/data/test"})", mine,
       R"({"path":"/mine","evalPath":"/mine/test"})"},
      {R"({"path":"/data"})", {}, R"({"path":"/data"})"},
      {R"({"path":"/database"})", mine, R"({"path":"/database"})"},
      {R"({"path":"here","format":"mnist"})", mine, R"({"path":"here","format":"mnist"})"},
      {R"("text")", mine, R"("text")"},
  };
  for (const Row& row : rows) {
    job::TrainingJob job;
    job.spec.training.emplace(job::Json::object());
    (*job.spec.training)["data"] = job::Json::parse(row.given);
    EXPECT_EQ(with_local_paths(job, row.volumes).spec.training->at("data"),
              job::Json::parse(row.expected));
  }
}

TEST(LocalVolumes, find_the_digits_of_a_checkout) {
  const test::TemporaryDirectory temporary;
  const fs::path digits = temporary.path() / "examples/data/mnist";
  fs::create_directories(digits);
  fs::create_directories(temporary.path() / "build/release/bin");
  EXPECT_EQ(bundled_digits(temporary.path() / "build/release/bin/coxswain"), fs::canonical(digits));
  const CurrentDirectory here(temporary.path());
  EXPECT_EQ(bundled_digits("/usr/bin/coxswain").filename(), "mnist");
}

}  // namespace
}  // namespace coxswain::cluster
