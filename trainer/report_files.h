#pragma once

#include <filesystem>

#include "trainer/report/run_history.h"

namespace coxswain {

// The page of the run whose checkpoints lie in `directory`, from its history; returns where it is.
// `output`: a file; empty: report.html beside them. Throws Error.
std::filesystem::path write_html_report(const std::filesystem::path& directory,
                                        const std::filesystem::path& output);

// What history.jsonl there says; nothing where it can't be read.
report::RunHistory history_of(const std::filesystem::path& directory);

}  // namespace coxswain
