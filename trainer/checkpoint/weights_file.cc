#include "trainer/checkpoint/weights_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "trainer/checkpoint/chunked_file.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"
#include "trainer/checkpoint/format_mxnet.h"
#include "trainer/checkpoint/reader.h"

namespace coxswain::checkpoint {

namespace {

constexpr std::uint64_t kMostOfFile = 8ULL << 30;

ForeignWeights decode_safetensors(std::span<const std::byte> bytes, std::string_view where) {
  const auto begins = [&](std::size_t at) {
    return at < bytes.size() && bytes[at] == std::byte{'{'};
  };
  if (!begins(kLengthBytes) && begins(0))
    refuse(where,
           "is JSON: of an index name the file that it tells of, and join several by "
           "safetensors.torch.save_file");
  if (!begins(kLengthBytes)) refuse(where, "is neither safetensors nor MXNet's .params");
  const std::uint64_t length =
      decode_header_length(bytes.first<kLengthBytes>(), bytes.size(), where);
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const auto data = bytes.subspan(kLengthBytes + length);
  ForeignWeights weights;
  for (const TensorPlace& place :
       decode_safetensors_header(header, data.size(), where, Types::kAny)) {
    const auto of_tensor = data.subspan(place.begin, place.end - place.begin);
    if (auto values = to_floats(place.type, of_tensor))
      weights.tensors.push_back({place.name, place.dims, std::move(*values)});
    else
      weights.passed_over.push_back(place.name);
  }
  return weights;
}

constexpr std::string_view kZip = "PK\x03\x04";

// The name of a zip's first file stands after a head of 30 bytes (APPNOTE.TXT 4.3.7).
bool is_npz(std::string_view text) {
  constexpr std::size_t kLengthAt = 26;
  constexpr std::size_t kNameAt = 30;
  if (!text.starts_with(kZip) || text.size() < kNameAt) return false;
  std::uint16_t length = 0;
  std::memcpy(&length, text.data() + kLengthAt, sizeof(length));
  return text.substr(kNameAt, length).ends_with(".npy");
}

// Of a name's end, in MXNet's words and in ours.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kEnds{{
    {"_moving_mean", ".running_mean"},
    {"_moving_var", ".running_var"},
    {"_running_mean", ".running_mean"},
    {"_running_var", ".running_var"},
    {"_gamma", ".weight"},
    {"_beta", ".bias"},
    {"_weight", ".weight"},
    {"_bias", ".bias"},
}};

// Which foreign tensor each of the model's is to be; null: none.
std::vector<const NamedTensor*> matches(const ForeignWeights& foreign, std::string_view head,
                                        const std::vector<NamedTensor>& model,
                                        std::string_view where) {
  std::map<std::string, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : foreign.tensors) {
    const auto [at, is_new] = by_name.emplace(model_name(tensor.name), &tensor);
    if (!is_new)
      refuse(where, fmt::format("{} and {} are one tensor of the model",
                                in_quotes(at->second->name), in_quotes(tensor.name)));
  }
  std::map<std::string, std::string_view> of_other_types;
  for (const std::string& name : foreign.passed_over)
    of_other_types.emplace(model_name(name), name);
  std::vector<const NamedTensor*> found;
  std::vector<std::string> missing;
  for (const NamedTensor& tensor : model) {
    const auto at = by_name.find(tensor.name);
    const NamedTensor* match = at == by_name.end() ? nullptr : at->second;
    const bool of_head = tensor.name.starts_with(fmt::format("{}.", head));
    if (const auto other = of_other_types.find(tensor.name); other != of_other_types.end())
      refuse(where, fmt::format("tensor {} is of a type that is not read: save it as float32, "
                                "float16 or bfloat16",
                                in_quotes(other->second)));
    if (match == nullptr && !of_head) missing.push_back(tensor.name);
    if (match != nullptr && match->dims != tensor.dims) {
      if (!of_head)
        refuse(where,
               fmt::format("tensor {} is ({}), and the model's is ({})", in_quotes(match->name),
                           fmt::join(match->dims, ", "), fmt::join(tensor.dims, ", ")));
      match = nullptr;
    }
    found.push_back(match);
  }
  if (!missing.empty()) {
    std::vector<std::string> there;
    for (const NamedTensor& tensor : foreign.tensors) there.push_back(in_quotes(tensor.name));
    refuse(where, fmt::format("has nothing for {} of the model's {} tensors: {}; it has {}",
                              missing.size(), model.size(), listed(missing),
                              there.empty() ? "none" : listed(there)));
  }
  return found;
}

// Whether one could train with them: NaN would say so at the end alone.
void require_usable(const NamedTensor& tensor, std::string_view where) {
  if (!all_finite(tensor.values))
    refuse(where,
           fmt::format("tensor {} holds values that are not finite", in_quotes(tensor.name)));
  if (!model_name(tensor.name).ends_with(".running_var")) return;
  const auto least = std::ranges::min_element(tensor.values);
  if (least != tensor.values.end() && *least < 0)
    refuse(where,
           fmt::format("tensor {} holds {}, and a variance is not negative: was it saved whole?",
                       in_quotes(tensor.name), *least));
}

}  // namespace

ForeignWeights decode_weights(std::span<const std::byte> bytes, std::string_view where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (is_npz(text))
    refuse(where,
           "is NumPy's .npz: write it with safetensors.numpy.save_file(dict(numpy.load(FILE)), "
           "\"weights.safetensors\")");
  if (text.starts_with(kZip) || text.starts_with("\x80\x02"))
    refuse(where,
           "is what torch.save writes, which can run code when it is read: write it with "
           "safetensors.torch.save_file(model.state_dict(), FILE)");
  return is_mxnet(bytes) ? decode_mxnet(bytes, where) : decode_safetensors(bytes, where);
}

ForeignWeights read_weights(const std::filesystem::path& path) {
  PosixFileSystem files;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return {std::move(load_from(path).contents.model), {}};
  // Caches of downloads name their files by links.
  const std::filesystem::path file = std::filesystem::canonical(path, ignored);
  OpenFile opened = files.open(file.empty() ? path : file);
  const std::string where = path.string();
  if (opened.bytes > kMostOfFile)
    refuse(where, fmt::format("{} bytes long, the limit is {}", opened.bytes, kMostOfFile));
  std::vector<std::byte> bytes(opened.bytes);
  if (!read_exactly(files, opened, bytes)) refuse(where, "became shorter while it was read");
  return decode_weights(bytes, where);
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  const auto shown = std::span(names).first(std::min(names.size(), kMost));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

std::string model_name(std::string_view foreign) {
  // DataParallel around torch.compile, or the other way round.
  for (const std::string_view prefix : {"arg:", "aux:", "module.", "_orig_mod.", "module."})
    if (foreign.starts_with(prefix)) foreign.remove_prefix(prefix.size());
  for (const auto& [theirs, ours] : kEnds)
    if (foreign.ends_with(theirs))
      return fmt::format("{}{}", foreign.substr(0, foreign.size() - theirs.size()), ours);
  return std::string(foreign);
}

Placed place_weights(const ForeignWeights& foreign, std::string_view head,
                     std::vector<NamedTensor>& model, std::string_view where) {
  const std::vector<const NamedTensor*> found = matches(foreign, head, model, where);
  Placed placed{.unused = foreign.passed_over};
  std::erase_if(placed.unused, [](const std::string& name) {
    return name.ends_with(".num_batches_tracked");  // PyTorch's, which nobody misses
  });
  for (const NamedTensor& tensor : foreign.tensors)
    if (std::ranges::find(found, &tensor) == found.end()) placed.unused.push_back(tensor.name);
  for (const NamedTensor* tensor : found)
    if (tensor != nullptr) require_usable(*tensor, where);
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (found[i] != nullptr)
      model[i].values = found[i]->values;
    else
      placed.new_head = true;
  }
  return placed;
}

}  // namespace coxswain::checkpoint
