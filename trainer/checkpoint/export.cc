#include "trainer/checkpoint/export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "trainer/checkpoint/chunked_file.h"
#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"
#include "trainer/checkpoint/format_npz.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {

namespace {

using Path = std::filesystem::path;

// What `write` appends, under the name `output` when all of it is written.
void write_whole(FileSystem& files, const Path& output,
                 const std::function<void(ChunkedWriter&)>& write) {
  const Path part =
      output.parent_path() / fmt::format(".{}.part-{}", output.filename().string(), ::getpid());
  try {
    ChunkedWriter target(files, part);
    write(target);
    target.finish();
    files.rename(part, output);
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw;
  }
}

ZipMember member_of(const NamedTensor& tensor) {
  if (!is_plain_name(tensor.name)) {
    refuse("tensor " + in_quotes(tensor.name),
           "its name is none for a file in an .npz: export it as safetensors");
  }
  const std::string header = encode_npy_header(tensor.dims);
  const auto values = std::as_bytes(std::span(tensor.values));
  return {.name = tensor.name + ".npy",
          .crc32 = combine_checksums(checksum(std::as_bytes(std::span(header))), checksum(values),
                                     values.size()),
          .bytes = header.size() + values.size()};
}

}  // namespace

void export_safetensors(FileSystem& files, const std::vector<NamedTensor>& tensors,
                        const Path& output) {
  write_whole(files, output, [&](ChunkedWriter& target) { append_safetensors(target, tensors); });
}

void export_bytes(FileSystem& files, std::span<const std::byte> bytes, const Path& output) {
  write_whole(files, output, [&](ChunkedWriter& target) { target.append(bytes); });
}

void export_npz(FileSystem& files, const std::vector<NamedTensor>& tensors, const Path& output) {
  std::vector<ZipMember> members;
  for (const NamedTensor& tensor : tensors) members.push_back(member_of(tensor));
  if (!fits_zip(members)) {
    throw Error(ExitCode::kUsage,
                "--format npz holds 4 GiB at most, and these weights are more: export them as "
                "safetensors");
  }
  write_whole(files, output, [&](ChunkedWriter& target) {
    std::uint64_t offset = 0;
    const auto append = [&](std::span<const std::byte> bytes) {
      target.append(bytes);
      offset += bytes.size();
    };
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      members[i].offset = offset;
      const std::string header = encode_zip_header(members[i]) + encode_npy_header(tensors[i].dims);
      append(std::as_bytes(std::span(header)));
      append(std::as_bytes(std::span(tensors[i].values)));
    }
    const std::string end = encode_zip_end(members, offset);
    append(std::as_bytes(std::span(end)));
  });
}

}  // namespace coxswain::checkpoint
