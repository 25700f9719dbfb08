#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/convert/draft.h"
#include "operator/convert/hosts.h"
#include "operator/job/job_reader.h"

// Commands and jobs of elsewhere, as a TrainingJob. Pure: files that a command names are read by
// who calls.
namespace coxswain::convert {

struct Request {
  std::string name;    // of the job; empty: the program's, or the foreign job's
  std::string image;   // of programs that aren't ours; empty: not given
  ReadFile read_file;  // may be empty: none can be read
};

struct Converted {
  job::TrainingJob job;
  std::vector<Json> companions;        // the claims that it needs and nobody has made
  std::vector<Note> notes;             // what became of everything, in the order it was said
  std::vector<job::Problem> problems;  // why the job can't start as it came out
};

// The words of a command, as people type it.
Converted from_command(const std::vector<std::string>& words, const Request& request);

// Documents of one or several files: one job of a kind that is known, and what it refers to.
Converted from_documents(const std::vector<job::JobDocument>& documents, const Request& request);

// Whether nothing is lost: all has a place, and the job can start.
bool is_whole(const Converted& converted);

// Its file: the claims, and the job without what every job has anyway.
std::string to_yaml(const Converted& converted);

// The end of both ways: fills in what is the same, reads the draft and judges it.
Converted finish(Draft draft, const Request& request);

}  // namespace coxswain::convert
