#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/job/training_job.h"

// A TrainingJob on its way: what has been read of a command or of a foreign job so far.
namespace coxswain::convert {

using job::Json;

// What became of one thing that was said. What has no place is lost when the rest is converted.
enum class Outcome { kBecame, kNotNeeded, kMind, kNoPlace };

struct Note {
  Outcome outcome;
  std::string what;    // "--batch-size 128", "spec.slotsPerWorker"
  std::string answer;  // what it became, why it isn't needed, what to do, why it has no place
  bool operator==(const Note&) const = default;
};

// "--batch-size 128: training.batchSize: 128", printable, one line.
std::string to_text(const Note& note);

class Draft {
 public:
  // Of the spec, by its path: "runPolicy.backoffLimit". What is there already is replaced.
  void put(std::string_view path, Json value);
  void remove(std::string_view path);
  const Json* find(std::string_view path) const;  // null: not put
  void add_to(std::string_view list, Json value);

  void note(Outcome outcome, std::string what, std::string answer);
  void no_place(std::string what, std::string why);

  const Json& spec() const { return spec_; }
  const std::vector<Note>& notes() const { return notes_; }

  std::string name;
  std::string name_space;        // empty: whoever applies it decides
  std::vector<Json> companions;  // objects to make beside it

 private:
  Json spec_ = Json::object();
  std::vector<Note> notes_;
};

inline constexpr std::string_view kWorkers = "replicaSpecs.Worker.replicas";
inline constexpr std::string_view kServers = "replicaSpecs.Server.replicas";
inline constexpr std::string_view kWorkerTemplate = "replicaSpecs.Worker.template";
inline constexpr std::string_view kServerTemplate = "replicaSpecs.Server.template";

// A name of a job made of any text: "lab/Train_1.x" -> "train-1".
std::string job_name(std::string_view text);

// A whole number from `min` on, and nothing else.
std::optional<int> whole_number(std::string_view text, int min = 0);

// The TrainingJob as its reader takes it: what is wrong with it is among its problems.
job::TrainingJob to_job(const Draft& draft);

}  // namespace coxswain::convert
