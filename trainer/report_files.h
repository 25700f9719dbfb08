#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "trainer/report/run_history.h"

namespace coxswain {

// The page of the run whose checkpoints lie in `directory`, from its history; returns where it is.
// `output`: a file; empty: report.html beside them. Throws Error.
std::filesystem::path write_html_report(const std::filesystem::path& directory,
                                        const std::filesystem::path& output);

// The text of a regular file. Throws Error (65) "[command] file: why" and the advice.
std::string read_report_file(std::string_view command, const std::filesystem::path& file,
                             std::uintmax_t most_bytes, std::string_view advice = "");

// What history.jsonl there says; nothing where it can't be read.
report::RunHistory history_of(const std::filesystem::path& directory);

}  // namespace coxswain
