#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"

// What the bytes of a checkpoint mean. PURE: from values to bytes and back. Every decoder takes
// outside bytes, checks sizes before it allocates, and throws Error (65) that begins with `where`.
namespace coxswain::checkpoint {

constexpr std::int64_t kFormatVersion = 1;
constexpr std::uint64_t kChunkBytes = 1U << 20;

constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kStateFile = "state.json";
constexpr std::string_view kManifestFile = "MANIFEST.json";
constexpr std::uint64_t kMaxJsonBytes = 16U << 20;  // of state.json and of MANIFEST.json

// Value. "step-00001200.g7"; a step saved again by one generation gets ".r2", ".r3": what was
// published is never replaced. Ordered by what a reader prefers.
struct CheckpointName {
  std::int64_t generation = 0;
  std::int64_t step = 0;
  std::int64_t revision = 1;
  auto operator<=>(const CheckpointName&) const = default;
};

std::string to_text(const CheckpointName& name);
std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);

// Directories that say something by their name: ".generation-7" was claimed; ".run-7-<uid>": with
// generation 7 a run of that job began without resuming (".run-7": of a job that is not known).
constexpr std::string_view kClaimPrefix = ".generation-";
constexpr std::string_view kRunPrefix = ".run-";
std::optional<std::int64_t> parse_numbered(std::string_view text, std::string_view prefix);

// Value. Where a run began without resuming.
struct RunMark {
  std::int64_t generation = 0;
  std::string job_uid;
  bool operator==(const RunMark&) const = default;
};

std::string to_text(const RunMark& mark);

// The mark of the run that generation `generation` belongs to, by the names of a directory; nothing
// when there is none up to it.
std::optional<RunMark> mark_of_run(const std::vector<std::string>& names, std::int64_t generation);

// Value. What keeps a checkpoint: a directory beside it, ".epoch-3-step-00001200.g7" or
// ".best-step-00001200.g7", made before the checkpoint has its name.
struct KeepMark {
  std::int64_t epoch = 0;  // from 1; 0: the best one
  CheckpointName checkpoint;
  bool operator==(const KeepMark&) const = default;
};

std::string to_text(const KeepMark& mark);
std::optional<KeepMark> parse_keep_mark(std::string_view text);

// What is not yet whole: ".tmp-7-step-00001200.g7", ".tmp-7-LATEST", by the generation that makes
// it.
constexpr std::string_view kTemporaryPrefix = ".tmp-";

// Hints for people and scripts: files that name the newest checkpoint and the best one.
constexpr std::string_view kLatestFile = "LATEST";
constexpr std::string_view kBestFile = "BEST";

// Whether a file or directory of this name, beside checkpoints, is one of theirs.
bool is_own_name(std::string_view name);

// CRC-32 (zlib's) of a chunk, and of two byte sequences one after the other.
std::uint32_t checksum(std::span<const std::byte> bytes);
std::uint32_t combine_checksums(std::uint32_t first, std::uint32_t second,
                                std::uint64_t second_bytes);

// Value. Where a tensor lies in the data part of a safetensors file, in bytes.
struct TensorPlace {
  std::string name;
  std::string type = "F32";
  std::vector<std::int64_t> dims = {};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const TensorPlace&) const = default;
};

// The safetensors format (github.com/huggingface/safetensors, "Format"): u64 header length, JSON,
// data. Float32 alone, row-major, contiguous, without holes; the header is padded to 8 bytes.
std::string encode_safetensors_header(const std::vector<NamedTensor>& tensors);

constexpr std::uint64_t kLengthBytes = 8;

// The header's length, from the file's first 8 bytes: at most 100 MB and inside the file.
std::uint64_t decode_header_length(std::span<const std::byte, kLengthBytes> bytes,
                                   std::uint64_t file_bytes, std::string_view where);

// kFloats: F32 alone, as checkpoints hold them.
enum class Types { kFloats, kAny };

// Tensors in the order of their data, which fill `data_bytes` exactly.
std::vector<TensorPlace> decode_safetensors_header(std::string_view header,
                                                   std::uint64_t data_bytes, std::string_view where,
                                                   Types types = Types::kFloats);

// Elements of a safetensors type as float32; nothing for one that is not F32, F16 or BF16.
std::optional<std::vector<float>> to_floats(std::string_view type,
                                            std::span<const std::byte> bytes);

bool all_finite(std::span<const float> values);

// Value. One file of a checkpoint: a checksum for each chunk of 1 MiB, and for the whole.
struct FileEntry {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  std::vector<std::uint32_t> chunks = {};
  bool operator==(const FileEntry&) const = default;
};

// Value. MANIFEST.json, written last. It carries a checksum of itself, and only the exact bytes
// that encode() writes are accepted.
struct Manifest {
  CheckpointName name;
  std::string fingerprint = {};
  std::vector<FileEntry> files = {};
  bool operator==(const Manifest&) const = default;
};

std::string encode(const Manifest& manifest);
Manifest decode_manifest(std::string_view text, std::string_view where);

std::string encode(const State& state);
State decode_state(std::string_view text, std::string_view where);

}  // namespace coxswain::checkpoint
