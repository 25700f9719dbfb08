#include "trainer/checkpoint/export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <vector>

#include "trainer/checkpoint/chunked_file.h"
#include "trainer/checkpoint/format.h"
#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain::checkpoint {

namespace {

using Path = std::filesystem::path;
using std::filesystem::file_type;

[[noreturn]] void refuse_output(const Path& output, const char* what) {
  constexpr std::size_t kMostCharacters = 300;
  throw Error(ExitCode::kUsage,
              fmt::format("--output \"{}\" {}: name a new file, or one to be replaced",
                          printable(output.native(), kMostCharacters), what));
}

void check_output(const Path& output) {
  if (!output.has_filename()) refuse_output(output, "is no name of a file");
  std::error_code ignored;  // what can't be looked at can't be written either, and says so then
  switch (std::filesystem::symlink_status(output, ignored).type()) {
    case file_type::directory:
      refuse_output(output, "is a directory");
    case file_type::symlink:
      refuse_output(output, "is a link");
    case file_type::fifo:
      refuse_output(output, "is a FIFO");
    case file_type::socket:
      refuse_output(output, "is a socket");
    case file_type::block:
    case file_type::character:
      refuse_output(output, "is a device");
    default:
      return;
  }
}

void copy(FileSystem& files, const Path& from, const Path& to) {
  OpenFile source = files.open(from);
  ChunkedWriter target(files, to);
  std::vector<std::byte> chunk(kChunkBytes);
  while (const std::size_t count = files.read(source, chunk)) {
    target.append(std::span(chunk).first(count));
  }
  target.finish();
}

}  // namespace

void export_model(FileSystem& files, const Path& checkpoint, const Path& output) {
  check_output(output);
  const Path part =
      output.parent_path() / fmt::format(".{}.part-{}", output.filename().string(), ::getpid());
  try {
    copy(files, checkpoint / kModelFile, part);
    files.rename(part, output);
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw;
  }
}

}  // namespace coxswain::checkpoint
