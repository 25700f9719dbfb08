#include "trainer/checkpoint/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "trainer/checkpoint/chunked_file.h"
#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {

namespace {

using Path = std::filesystem::path;

// Whose temporary file or folder this is: ".tmp-7-step-00001200.g7", ".tmp-7-LATEST".
std::optional<std::int64_t> temporary_generation(std::string_view name) {
  const auto end = name.find('-', kTemporaryPrefix.size());
  return parse_numbered(name.substr(0, end), kTemporaryPrefix);
}

std::int64_t highest_generation(const std::vector<std::string>& names) {
  std::int64_t highest = 0;
  for (const std::string& name : names) {
    if (const auto claim = parse_numbered(name, kClaimPrefix)) highest = std::max(highest, *claim);
    if (const auto checkpoint = parse_checkpoint_name(name)) {
      highest = std::max(highest, checkpoint->generation);
    }
  }
  return highest;
}

void check_tensors(const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& tensor : tensors) {
    std::uint64_t elements = 1;
    for (const std::int64_t dim : tensor.dims) elements *= static_cast<std::uint64_t>(dim);
    if (elements != tensor.values.size()) {
      throw Error(ExitCode::kInternal,
                  fmt::format("[checkpoint] tensor \"{}\" has {} values, its shape needs {}",
                              tensor.name, tensor.values.size(), elements));
    }
    if (!all_finite(tensor.values)) {
      throw Error(ExitCode::kNotFinite,
                  fmt::format("[checkpoint] not saved: tensor \"{}\" holds values that are not "
                              "finite",
                              tensor.name));
    }
  }
}

FileEntry write_tensors(FileSystem& files, const Path& path,
                        const std::vector<NamedTensor>& tensors) {
  ChunkedWriter writer(files, path);
  append_safetensors(writer, tensors);
  return writer.finish();
}

FileEntry write_text(FileSystem& files, const Path& path, std::string_view text) {
  ChunkedWriter writer(files, path);
  writer.append(std::as_bytes(std::span(text)));
  return writer.finish();
}

// Of one run: what its directory's names say.
struct Kept {
  std::vector<CheckpointName> checkpoints;  // newest first
  std::vector<KeepMark> marks;              // those of the newest checkpoints first
};

Kept kept_by(const std::vector<std::string>& entries, std::int64_t first, std::int64_t last) {
  const auto is_of_run = [&](const CheckpointName& name) {
    return name.generation >= first && name.generation <= last;
  };
  Kept kept;
  for (const std::string& entry : entries) {
    const auto name = parse_checkpoint_name(entry);
    const auto mark = parse_keep_mark(entry);
    if (name && is_of_run(*name)) kept.checkpoints.push_back(*name);
    if (mark && is_of_run(mark->checkpoint)) kept.marks.push_back(*mark);
  }
  std::ranges::sort(kept.checkpoints, std::greater());
  std::ranges::sort(kept.marks, std::greater(), &KeepMark::checkpoint);
  return kept;
}

// The marks that keep nothing any more: of checkpoints that are not there, of an epoch that was
// saved again, of epochs before the newest `keep_epochs` (0: all; nothing: every mark stays), and
// of what was the best before `new_best`.
std::vector<KeepMark> outlived(const Kept& kept, std::optional<int> keep_epochs,
                               const std::optional<CheckpointName>& new_best) {
  std::vector<KeepMark> marks;
  std::set<std::int64_t> epochs;
  for (const KeepMark& mark : kept.marks) {
    bool stays = std::ranges::find(kept.checkpoints, mark.checkpoint) != kept.checkpoints.end();
    if (stays && mark.epoch == 0) stays = !new_best || mark.checkpoint == *new_best;
    if (stays && mark.epoch > 0 && keep_epochs) {
      const bool has_room = *keep_epochs == 0 || std::ssize(epochs) < *keep_epochs;
      stays = has_room && epochs.insert(mark.epoch).second;
    }
    if (!stays) marks.push_back(mark);
  }
  return marks;
}

// Links are removed, not followed.
void remove_folder(FileSystem& files, const Path& path) {
  if (files.is_directory(path)) {
    for (const std::string& name : files.list(path).value_or(std::vector<std::string>())) {
      files.remove(path / name);
    }
  }
  files.remove(path);
}

}  // namespace

Publisher::Publisher(FileSystem& files, Path directory, int keep,
                     const std::optional<std::string>& new_run, std::optional<int> keep_epochs)
    : files_(files),
      directory_(std::move(directory)),
      keep_(std::max(keep, 1)),
      keep_epochs_(keep_epochs) {
  files_.make_directories(directory_);
  claim(new_run);
  remove_leftovers();
}

void Publisher::claim(const std::optional<std::string>& new_run) {
  const auto names = files_.list(directory_).value_or(std::vector<std::string>());
  const auto claim_path = [this] {
    return directory_ / fmt::format("{}{}", kClaimPrefix, generation_);
  };
  generation_ = highest_generation(names) + 1;
  while (!files_.make_directory(claim_path())) ++generation_;
  // The claim alone is no loss: a start that is killed here has saved nothing, and the next one of
  // its job, which finds no mark of it, begins the run again.
  if (new_run) {
    files_.make_directory(directory_ / to_text(RunMark{generation_, *new_run}));
  }
  files_.sync_directory(directory_);
}

// Claims of older generations, and temporary files and folders up to this one: between two saves
// nothing temporary is in use. An older writer that still runs loses its save with them, and sees
// why at its next fence.
void Publisher::remove_leftovers() {
  for (const std::string& name : files_.list(directory_).value_or(std::vector<std::string>())) {
    const auto owner = temporary_generation(name);
    const auto claimed = parse_numbered(name, kClaimPrefix);
    if ((owner && *owner <= generation_) || (claimed && *claimed < generation_)) {
      discard(directory_ / name);
    }
  }
}

void Publisher::check_fence() {
  const auto names = files_.list(directory_);
  if (!names) {
    throw Error(ExitCode::kVolume, fmt::format("[checkpoint] {} is gone", directory_.string()));
  }
  const std::int64_t highest = highest_generation(*names);
  if (highest > generation_) {
    throw Error(ExitCode::kPeerLost,
                fmt::format("[checkpoint] generation {} writes to {} now: this attempt, generation "
                            "{}, is no longer the one",
                            highest, directory_.string(), generation_));
  }
}

Path Publisher::temporary(const std::string& name) const {
  return directory_ / fmt::format("{}{}-{}", kTemporaryPrefix, generation_, name);
}

Published Publisher::publish(const Contents& contents) {
  check_tensors(contents.model);
  check_tensors(contents.optimizer);
  check_fence();
  try {
    return publish_steps(contents);
  } catch (const Error&) {
    check_fence();  // a newer generation may have taken the files away: that is the cause then
    throw;
  }
}

Published Publisher::publish_steps(const Contents& contents) {
  remove_leftovers();
  Manifest manifest{.name = {.generation = generation_, .step = contents.state.step},
                    .fingerprint = contents.state.fingerprint};
  while (files_.is_directory(directory_ / to_text(manifest.name))) ++manifest.name.revision;
  const CheckpointName number = manifest.name;
  const std::string name = to_text(number);
  const Path folder = temporary(name);
  Published published{.path = directory_ / name};
  try {
    published.bytes = write_folder(folder, contents, std::move(manifest));
    check_fence();
    add_marks(number, contents.keep);
    files_.rename(folder, published.path);
  } catch (const Error&) {
    discard(folder);
    throw;
  }
  try {
    files_.sync_directory(directory_);
    verify(files_, published.path);
  } catch (const Error& error) {
    discard_published(name);
    throw Error(ExitCode::kVolume, fmt::format("{} (found when it was read back)", error.what()));
  }
  try {
    write_hints(name, contents.keep);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kVolume) prune(number, contents.keep);  // space may be missing
    throw;
  }
  prune(number, contents.keep);
  return published;
}

// Before the checkpoint has its name: one that is there is never without what keeps it. A mark of
// one that does not come to be is removed by a later prune.
void Publisher::add_marks(const CheckpointName& name, const Keep& keep) {
  if (keep.epoch > 0 && keep_epochs_)
    files_.make_directory(directory_ / to_text(KeepMark{keep.epoch, name}));
  if (keep.best) files_.make_directory(directory_ / to_text(KeepMark{0, name}));
}

std::int64_t Publisher::write_folder(const Path& folder, const Contents& contents,
                                     Manifest manifest) {
  if (!files_.make_directory(folder)) {
    throw Error(ExitCode::kVolume,
                fmt::format("[checkpoint] cannot make {}: it exists", folder.string()));
  }
  manifest.files = {write_tensors(files_, folder / kModelFile, contents.model),
                    write_tensors(files_, folder / kOptimizerFile, contents.optimizer),
                    write_text(files_, folder / kStateFile, encode(contents.state))};
  std::uint64_t bytes = 0;
  for (const FileEntry& file : manifest.files) bytes += file.bytes;
  bytes += write_text(files_, folder / kManifestFile, encode(manifest)).bytes;
  files_.sync_directory(folder);
  return static_cast<std::int64_t>(bytes);
}

// Hints for people and scripts; the reader looks at the checkpoints themselves.
void Publisher::write_hints(const std::string& name, const Keep& keep) {
  write_hint(kLatestFile, name);
  if (keep.best) write_hint(kBestFile, name);
}

void Publisher::write_hint(std::string_view file, const std::string& name) {
  const Path path = temporary(std::string(file));
  try {
    write_text(files_, path, name + "\n");
    check_fence();
    files_.rename(path, directory_ / file);
  } catch (const Error&) {
    discard(path);
    throw;
  }
  files_.sync_directory(directory_);
}

void Publisher::prune(const CheckpointName& published, const Keep& keep) {
  check_fence();
  const auto entries = files_.list(directory_).value_or(std::vector<std::string>());
  const std::int64_t first = mark_of_run(entries, generation_).value_or(RunMark{}).generation;
  const Kept kept = kept_by(entries, first, generation_);
  const auto over =
      outlived(kept, keep_epochs_, keep.best ? std::optional(published) : std::nullopt);
  std::set<CheckpointName> marked;
  for (const KeepMark& mark : kept.marks) {
    if (std::ranges::find(over, mark) == over.end())
      marked.insert(mark.checkpoint);
    else
      files_.remove(directory_ / to_text(mark));
  }
  int others = 0;
  for (const CheckpointName& name : kept.checkpoints) {
    if (marked.contains(name)) continue;
    if (++others > keep_ && name != published) remove_checkpoint(to_text(name));
  }
}

// Renamed first: a checkpoint is there as a whole or not at all.
void Publisher::remove_checkpoint(const std::string& name) {
  const Path path = temporary(name);
  files_.rename(directory_ / name, path);
  remove_folder(files_, path);
}

void Publisher::discard(const Path& path) {
  try {
    remove_folder(files_, path);
  } catch (const Error&) {
    // What can't be removed now is tried again before the next save; the first error tells more.
  }
}

void Publisher::discard_published(const std::string& name) {
  try {
    remove_checkpoint(name);
  } catch (const Error&) {
    // It is damaged, and the reader refuses it.
  }
}

}  // namespace coxswain::checkpoint
