#include "operator/convert_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "operator/convert/convert.h"
#include "operator/job_text.h"
#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain {

namespace {

constexpr std::size_t kMostCharacters = 500;

std::optional<std::string> text_of(const std::string& path) {
  try {
    return read_job_text(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

convert::Converted convert_files(const ConvertOptions& options, const convert::Request& request) {
  std::vector<job::JobDocument> documents;
  for (const std::string& file : options.files) {
    const std::string name = file == "-" ? "standard input" : file;
    for (job::JobDocument& one : job::read_documents(read_job_text(file), name))
      documents.push_back(std::move(one));
  }
  return convert::from_documents(documents, request);
}

void tell(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace

int convert_job(const ConvertOptions& options) {
  if (options.files.empty() == options.command.empty())
    throw Error(ExitCode::kUsage,
                "convert takes a command after --, or -f FILE: coxswain convert -- horovodrun -np "
                "2 python train.py");
  const convert::Request request{options.name, options.image, text_of};
  const convert::Converted converted = options.files.empty()
                                           ? convert::from_command(options.command, request)
                                           : convert_files(options, request);
  for (const convert::Note& note : converted.notes) tell(to_text(note));
  for (const job::Problem& problem : converted.problems)
    tell(printable(job::to_text(problem), kMostCharacters));
  if (!convert::is_whole(converted) && !options.partial)
    throw Error(ExitCode::kBadInput,
                "not converted: see what has no place above; --partial prints the rest");
  fmt::print("{}", convert::to_yaml(converted));
  return 0;
}

}  // namespace coxswain
