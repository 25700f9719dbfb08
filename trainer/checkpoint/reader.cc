#include "trainer/checkpoint/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "trainer/checkpoint/chunked_file.h"
#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {

namespace {

using Path = std::filesystem::path;

constexpr auto kNewest = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostHintBytes = 200;

template <typename Texts>
std::string joined(const Texts& texts, std::string_view separator) {
  std::string all;
  for (const auto& text : texts) {
    if (!all.empty()) all += separator;
    all += text;
  }
  return all;
}

// state.json and MANIFEST.json: read as a whole, so their size is limited.
std::string read_manifest_text(FileSystem& files, const Path& folder) {
  OpenFile file = files.open(folder / kManifestFile);
  const std::string where = describe(folder, kManifestFile);
  if (file.bytes > kMaxJsonBytes) {
    refuse(where, fmt::format("{} bytes long, the limit is {}", file.bytes, kMaxJsonBytes));
  }
  std::string text(file.bytes, '\0');
  if (!read_exactly(files, file, std::as_writable_bytes(std::span(text)))) {
    refuse(where, "ended while it was read");
  }
  return text;
}

Manifest read_manifest(FileSystem& files, const Path& folder) {
  if (!files.is_directory(folder)) {
    refuse(folder.string(), "not a checkpoint: missing, or not a folder (links are not followed)");
  }
  const std::string where = describe(folder, kManifestFile);
  Manifest manifest = decode_manifest(read_manifest_text(files, folder), where);
  const auto name = parse_checkpoint_name(folder.filename().string());
  if (name && *name != manifest.name) {
    refuse(where, fmt::format("belongs to {}", to_text(manifest.name)));
  }
  const std::vector<std::string_view> expected = {kModelFile, kOptimizerFile, kStateFile};
  if (!std::ranges::equal(manifest.files, expected, {}, &FileEntry::name)) {
    refuse(where, fmt::format("does not list exactly {}", joined(expected, ", ")));
  }
  return manifest;
}

std::vector<NamedTensor> read_tensors(FileSystem& files, const Path& folder,
                                      const FileEntry& entry) {
  const std::string where = describe(folder, entry.name);
  ChunkedReader reader(files, folder, entry);
  reader.set_context("header");
  std::array<std::byte, kLengthBytes> length{};
  reader.read(length);
  std::string header(decode_header_length(length, entry.bytes, where), '\0');
  reader.read(std::as_writable_bytes(std::span(header)));
  std::vector<NamedTensor> tensors;
  for (TensorPlace& place : decode_safetensors_header(header, reader.remaining(), where)) {
    const std::string what = "tensor " + in_quotes(place.name);
    reader.set_context(what);
    NamedTensor& tensor = tensors.emplace_back();
    tensor.name = std::move(place.name);
    tensor.dims = std::move(place.dims);
    tensor.values.resize((place.end - place.begin) / sizeof(float));
    reader.read(std::as_writable_bytes(std::span(tensor.values)));
    if (!all_finite(tensor.values)) refuse(where, what + ": holds values that are not finite");
  }
  return tensors;
}

State read_state(FileSystem& files, const Path& folder, const FileEntry& entry) {
  const std::string where = describe(folder, entry.name);
  if (entry.bytes > kMaxJsonBytes) {
    refuse(where, fmt::format("{} bytes long, the limit is {}", entry.bytes, kMaxJsonBytes));
  }
  ChunkedReader reader(files, folder, entry);
  std::string text(entry.bytes, '\0');
  reader.read(std::as_writable_bytes(std::span(text)));
  return decode_state(text, where);
}

// "[checkpoint] /checkpoints/step-...: reason" without what a list of one directory repeats.
std::string without_directory(std::string message, const Path& directory) {
  const std::string prefix = fmt::format("[checkpoint] {}/", directory.string());
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

// Value. Why checkpoints were passed over: the newest in words, the others as a number.
class Refusals {
 public:
  void add(const Error& error, const Path& directory) {
    volume_failed_ = volume_failed_ || error.code() == ExitCode::kVolume;
    if (++count_ <= kMostTold) reasons_.push_back(without_directory(error.what(), directory));
  }

  bool volume_failed() const { return volume_failed_; }

  std::vector<std::string> told() const {
    std::vector<std::string> told = reasons_;
    if (count_ > kMostTold) told.push_back(fmt::format("{} older ones", count_ - kMostTold));
    return told;
  }

 private:
  static constexpr std::size_t kMostTold = 5;

  std::vector<std::string> reasons_;
  std::size_t count_ = 0;
  bool volume_failed_ = false;
};

}  // namespace

void verify(FileSystem& files, const Path& checkpoint) {
  const Manifest manifest = read_manifest(files, checkpoint);
  for (const FileEntry& entry : manifest.files) {
    ChunkedReader(files, checkpoint, entry).skip_rest();
  }
}

Contents load(FileSystem& files, const Path& checkpoint) {
  const Manifest manifest = read_manifest(files, checkpoint);
  Contents contents;
  contents.state = read_state(files, checkpoint, manifest.files[2]);
  if (contents.state.step != manifest.name.step ||
      contents.state.fingerprint != manifest.fingerprint) {
    refuse(describe(checkpoint, kStateFile),
           fmt::format("step {} and fingerprint {} differ from the manifest's", contents.state.step,
                       in_quotes(contents.state.fingerprint)));
  }
  contents.model = read_tensors(files, checkpoint, manifest.files[0]);
  contents.optimizer = read_tensors(files, checkpoint, manifest.files[1]);
  return contents;
}

std::optional<std::string> job_of_last_run(const Path& directory) {
  PosixFileSystem files;
  const auto mark =
      mark_of_run(files.list(directory).value_or(std::vector<std::string>()), kNewest);
  return mark ? std::optional(mark->job_uid) : std::nullopt;
}

namespace {

std::int64_t first_generation(const std::vector<std::string>& entries, Runs runs) {
  const auto last = runs == Runs::kLast ? mark_of_run(entries, kNewest) : std::nullopt;
  return last.value_or(RunMark{}).generation;
}

// Newest first.
std::vector<CheckpointName> checkpoints_of(FileSystem& files, const Path& directory, Runs runs) {
  const auto entries = files.list(directory).value_or(std::vector<std::string>());
  const std::int64_t first = first_generation(entries, runs);
  std::vector<CheckpointName> names;
  for (const std::string& entry : entries) {
    const auto name = parse_checkpoint_name(entry);
    if (name && name->generation >= first) names.push_back(*name);
  }
  std::ranges::sort(names, std::greater());
  return names;
}

[[noreturn]] void throw_unread(const Refusals& refusals, const Path& directory) {
  throw Error(ExitCode::kVolume, fmt::format("[checkpoint] {}: no checkpoint could be read: {}",
                                             directory.string(), joined(refusals.told(), "; ")));
}

}  // namespace

std::optional<Loaded> load_where(const Path& directory,
                                 const std::function<bool(const State&)>& is_looked_for) {
  PosixFileSystem files;
  Refusals refusals;
  for (const CheckpointName& name : checkpoints_of(files, directory, Runs::kAll)) {
    const Path path = directory / to_text(name);
    try {
      const Manifest manifest = read_manifest(files, path);
      if (!is_looked_for(read_state(files, path, manifest.files[2]))) continue;
      return Loaded{.path = path,
                    .generation = name.generation,
                    .contents = load(files, path),
                    .refused = refusals.told()};
    } catch (const Error& error) {
      refusals.add(error, directory);
    }
  }
  if (refusals.volume_failed()) throw_unread(refusals, directory);
  return std::nullopt;
}

std::optional<std::string> lost_latest(const Path& directory, Runs runs) {
  PosixFileSystem files;
  const auto entries = files.list(directory).value_or(std::vector<std::string>());
  if (std::ranges::find(entries, kLatestFile) == entries.end()) return std::nullopt;
  std::string text;
  try {
    OpenFile file = files.open(directory / kLatestFile);
    text.resize(std::min<std::size_t>(file.bytes, kMostHintBytes));
    if (!read_exactly(files, file, std::as_writable_bytes(std::span(text)))) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::string name = text.substr(0, text.find('\n'));
  const auto named = parse_checkpoint_name(name);
  const bool is_there = std::ranges::find(entries, name) != entries.end();
  if (!named || is_there || named->generation < first_generation(entries, runs))
    return std::nullopt;
  return name;
}

Loaded load_from(const Path& path) {
  std::error_code ignored;  // reading tells more
  if (std::filesystem::exists(path / kManifestFile, ignored))
    return {.path = path, .contents = load(path), .refused = {}};
  auto newest = load_latest(path);
  if (!newest)
    throw Error(ExitCode::kBadInput,
                fmt::format("[checkpoint] {} holds no checkpoint", path.string()));
  return std::move(*newest);
}

std::optional<Loaded> load_latest(FileSystem& files, const Path& directory, Runs runs) {
  const std::vector<CheckpointName> names = checkpoints_of(files, directory, runs);
  if (names.empty()) return std::nullopt;
  Refusals refusals;
  for (const CheckpointName& name : names) {
    const Path path = directory / to_text(name);
    try {
      return Loaded{.path = path,
                    .generation = name.generation,
                    .contents = load(files, path),
                    .refused = refusals.told()};
    } catch (const Error& error) {
      refusals.add(error, directory);
    }
  }
  // What could not be read may be there and whole: a matter of the volume, to be tried again.
  if (refusals.volume_failed()) throw_unread(refusals, directory);
  throw Error(ExitCode::kBadInput,
              fmt::format("[checkpoint] {}: no checkpoint is whole: {}; restore one, or set "
                          "checkpoint.resume: false",
                          directory.string(), joined(refusals.told(), "; ")));
}

std::optional<Loaded> load_latest(const Path& directory, Runs runs) {
  PosixFileSystem files;
  return load_latest(files, directory, runs);
}

Contents load(const Path& checkpoint) {
  PosixFileSystem files;
  return load(files, checkpoint);
}

}  // namespace coxswain::checkpoint
