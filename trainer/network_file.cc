#include "trainer/network_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "trainer/contract/config/config_value.h"
#include "trainer/contract/config/nearest_key.h"
#include "trainer/contract/config/yaml_text.h"
#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain {

namespace {

using graph::Layer;
using graph::LayerKind;

constexpr std::size_t kMostBytes = std::size_t{64} << 10;
constexpr std::size_t kMostLayers = 2000;
constexpr int kMostLevels = 8;
constexpr std::size_t kMostBranches = 64;
constexpr std::size_t kMostName = 60;

// What a kind of layer may say, and what it must.
struct Keys {
  LayerKind kind;
  std::vector<std::string_view> known;
  std::vector<std::string_view> required = {};
};

const Keys& keys_of(LayerKind kind) {
  static const std::array<Keys, 19> kKeys{{
      {LayerKind::kConv,
       {"channels", "kernel", "stride", "pad", "groups", "bias", "firstWeights", "name"},
       {"channels", "kernel"}},
      {LayerKind::kBatchNorm, {"epsilon", "scale", "name"}},
      {LayerKind::kRelu, {}},
      {LayerKind::kTanh, {}},
      {LayerKind::kGelu, {}},
      {LayerKind::kSigmoid, {}},
      {LayerKind::kSilu, {}},
      {LayerKind::kHardSwish, {}},
      {LayerKind::kHardSigmoid, {}},
      {LayerKind::kRelu6, {}},
      {LayerKind::kMaxPool, {"kernel", "stride", "pad"}, {"kernel"}},
      {LayerKind::kAvgPool, {"kernel", "stride", "pad", "countsPadding"}, {"kernel"}},
      {LayerKind::kGlobalAvgPool, {}},
      {LayerKind::kFlatten, {}},
      {LayerKind::kDropout, {"rate", "name"}, {"rate"}},
      {LayerKind::kDense, {"outputs", "bias", "name"}, {"outputs"}},
      {LayerKind::kResidual, {"body", "shortcut"}, {"body"}},
      {LayerKind::kGate, {"body"}, {"body"}},
      {LayerKind::kConcat, {"branches"}, {"branches"}},
  }};
  return *std::ranges::find(kKeys, kind, &Keys::kind);
}

// Names that tensors get where the file gives none: "conv1".
std::string_view stem_of(LayerKind kind) {
  if (kind == LayerKind::kBatchNorm) return "bn";
  return kind == LayerKind::kDense ? "fc" : word(kind);
}

class Reader {
 public:
  explicit Reader(const std::string& name) : file_(name) {}

  NetworkFile read(const YAML::Node& root) {
    if (!root.IsMap()) refuse(root, "must be a mapping with `layers`");
    check_keys(root, {"input", "classes", "layers"}, {"layers"});
    NetworkFile network;
    if (const YAML::Node input = root["input"]) {
      if (!input.IsSequence() || input.size() != 3)
        refuse(input, "input: must be three numbers, [C, H, W]");
      network.input = {1, integer(input[0], "input", 1, 65536),
                       integer(input[1], "input", 1, 65536), integer(input[2], "input", 1, 65536)};
    }
    if (const YAML::Node classes = root["classes"])
      network.classes = integer(classes, "classes", 2, 1 << 20);
    network.layers = list(root["layers"], "layers", 1);
    return network;
  }

 private:
  [[noreturn]] void refuse(const YAML::Node& node, const std::string& what) const {
    throw Error(ExitCode::kBadInput, fmt::format("[model] {}: {}", where(node), what));
  }
  std::string where(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    return mark.is_null() ? file_ : fmt::format("{}:{}", file_, mark.line + 1);
  }

  void check_keys(const YAML::Node& map, const std::vector<std::string_view>& known,
                  const std::vector<std::string_view>& required) const {
    for (const auto& entry : map) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (std::ranges::find(known, key) != known.end()) continue;
      const auto near = contract::nearest_key(key, known);
      refuse(entry.first,
             fmt::format(
                 "unknown key \"{}\"; {}", printable(key, kMostName),
                 near ? fmt::format("did you mean {}?", *near)
                      : fmt::format(
                            "known here: {}",
                            known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")))));
    }
    for (const std::string_view key : required)
      if (!map[std::string(key)]) refuse(map, fmt::format("{}: required", key));
  }

  std::int64_t integer(const YAML::Node& node, std::string_view key, std::int64_t least,
                       std::int64_t most) const {
    const contract::ParsedNumber number = contract::parse_number(node);
    const auto value = static_cast<std::int64_t>(number.value);
    if (!number.problem.empty() || number.value < static_cast<double>(least) ||
        number.value > static_cast<double>(most) || static_cast<double>(value) != number.value)
      refuse(node, fmt::format("{}: must be an integer, {}..{}, got {}", key, least, most,
                               contract::describe(node)));
    return value;
  }

  float share(const YAML::Node& node, std::string_view key) const {
    const contract::ParsedNumber number = contract::parse_number(node);
    if (!number.problem.empty() || number.value < 0 || number.value >= 1)
      refuse(node, fmt::format("{}: must be a number, at least 0, below 1, got {}", key,
                               contract::describe(node)));
    return static_cast<float>(number.value);
  }

  bool truth(const YAML::Node& node, std::string_view key) const {
    if (node.IsScalar() && (node.Scalar() == "true" || node.Scalar() == "false"))
      return node.Scalar() == "true";
    refuse(node, fmt::format("{}: must be true or false, got {}", key, contract::describe(node)));
  }

  std::vector<Layer> list(const YAML::Node& node, std::string_view key, int level) {
    if (!node.IsSequence()) refuse(node, fmt::format("{}: must be a list of layers", key));
    if (level > kMostLevels) refuse(node, fmt::format("more than {} levels deep", kMostLevels));
    std::vector<Layer> layers;
    for (const YAML::Node& entry : node) {
      const bool repeats = entry.IsMap() && entry["repeat"];
      if (!repeats) {
        layers.push_back(layer(entry, level));
        continue;
      }
      const YAML::Node repeat = entry["repeat"];
      if (entry.size() != 1 || !repeat.IsMap()) refuse(entry, "repeat: must be {times, layers}");
      check_keys(repeat, {"times", "layers"}, {"times", "layers"});
      const std::int64_t times = integer(repeat["times"], "times", 1, kMostLayers);
      if (repeat["layers"].size() == 0) refuse(entry, "repeat: layers is empty");
      for (std::int64_t i = 0; i < times; ++i)
        for (Layer& repeated : list(repeat["layers"], "layers", level + 1))
          layers.push_back(std::move(repeated));
    }
    return layers;
  }

  std::vector<std::vector<Layer>> branches(const YAML::Node& node, int level) {
    if (!node.IsSequence() || node.size() < 2 || node.size() > kMostBranches)
      refuse(node,
             fmt::format("branches: must be a list of 2 to {} lists of layers", kMostBranches));
    std::vector<std::vector<Layer>> result;
    for (const YAML::Node& branch : node) result.push_back(list(branch, "branches", level));
    return result;
  }

  Layer layer(const YAML::Node& entry, int level) {
    const bool is_map = entry.IsMap() && entry.size() == 1 && entry.begin()->first.IsScalar();
    if (!is_map && !entry.IsScalar())
      refuse(entry, "a layer is a word, or a mapping of one: `conv: {...}`");
    const std::string word = is_map ? entry.begin()->first.Scalar() : entry.Scalar();
    const auto kind = value_of<LayerKind>(word);
    if (!kind)
      refuse(entry, fmt::format("unknown layer \"{}\": must be one of {}, or repeat",
                                printable(word, kMostName), list_words(words_of(LayerKind{}))));
    if (++count_ > kMostLayers) refuse(entry, fmt::format("more than {} layers", kMostLayers));
    const YAML::Node said = is_map ? entry.begin()->second : YAML::Node(YAML::NodeType::Map);
    Layer result{.kind = *kind, .where = where(entry)};
    const bool is_rate = *kind == LayerKind::kDropout && said.IsScalar();  // dropout: 0.5
    if (is_rate)
      result.rate = share(said, "rate");
    else
      read(said, entry, level, result);
    if (result.name.empty()) result.name = fresh_name(*kind);
    if (!names_.insert(result.name).second)
      refuse(entry, fmt::format("two layers have the name {}", result.name));
    return result;
  }

  void read(const YAML::Node& said, const YAML::Node& entry, int level, Layer& to) {
    if (!said.IsMap()) refuse(entry, fmt::format("{}: must be a mapping", word(to.kind)));
    const Keys& keys = keys_of(to.kind);
    if (said.size() == 0 && !keys.required.empty())
      refuse(entry, fmt::format("{}: needs {}", word(to.kind), fmt::join(keys.required, ", ")));
    check_keys(said, keys.known, keys.required);
    constexpr std::int64_t kMostChannels = 1 << 16;
    constexpr std::int64_t kMostExtent = 1024;
    const auto read_int = [&](const char* key, int& value, std::int64_t least) {
      if (said[key]) value = static_cast<int>(integer(said[key], key, least, kMostExtent));
    };
    if (said["channels"]) to.channels = integer(said["channels"], "channels", 1, kMostChannels);
    if (const YAML::Node outputs = said["outputs"]; outputs && !is_word(outputs, "classes"))
      to.channels = integer(outputs, "outputs", 1, kMostChannels);
    read_int("kernel", to.kernel, 1);
    if (to.kind == LayerKind::kMaxPool || to.kind == LayerKind::kAvgPool) to.stride = to.kernel;
    read_int("stride", to.stride, 1);
    if (said["pad"] && is_word(said["pad"], "same")) {
      if (to.kernel % 2 == 0) refuse(said["pad"], "pad: same needs an odd kernel");
      to.pad = to.kernel / 2;
    } else {
      read_int("pad", to.pad, 0);
    }
    if (const YAML::Node groups = said["groups"])
      to.groups = is_word(groups, "depthwise")
                      ? 0
                      : static_cast<int>(integer(groups, "groups", 1, kMostChannels));
    if (said["countsPadding"]) to.counts_padding = truth(said["countsPadding"], "countsPadding");
    if (said["bias"]) to.bias = truth(said["bias"], "bias");
    if (said["scale"]) to.scale = truth(said["scale"], "scale");
    if (const YAML::Node first = said["firstWeights"]) to.first_weights = first_weights(first);
    if (said["epsilon"]) to.epsilon = share(said["epsilon"], "epsilon");
    if (said["rate"]) to.rate = share(said["rate"], "rate");
    if (said["name"]) to.name = given_name(said["name"]);
    if (said["body"]) to.body = list(said["body"], "body", level + 1);
    if (said["shortcut"]) to.shortcut = list(said["shortcut"], "shortcut", level + 1);
    if (said["branches"]) to.branches = branches(said["branches"], level + 1);
  }

  graph::FirstWeights first_weights(const YAML::Node& node) const {
    if (const auto value = value_of<graph::FirstWeights>(node.IsScalar() ? node.Scalar() : ""))
      return *value;
    refuse(node,
           fmt::format("firstWeights: must be one of {}, got {}",
                       list_words(words_of(graph::FirstWeights{})), contract::describe(node)));
  }

  static bool is_word(const YAML::Node& node, std::string_view word) {
    return node.IsScalar() && node.Scalar() == word;
  }

  std::string given_name(const YAML::Node& node) const {
    const std::string name = node.IsScalar() ? node.Scalar() : "";
    const bool is_plain = std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '.' || c == '-';
    });
    if (name.empty() || name.size() > kMostName || !is_plain)
      refuse(node, fmt::format("name: must be 1 to {} letters, digits, _, . or -", kMostName));
    return name;
  }

  std::string fresh_name(LayerKind kind) {
    for (;;) {
      std::string name = fmt::format("{}{}", stem_of(kind), ++used_[kind]);
      if (!names_.contains(name)) return name;
    }
  }

  std::string file_;
  std::size_t count_ = 0;
  std::set<std::string> names_;
  std::map<LayerKind, int> used_;
};

}  // namespace

NetworkFile parse_network(std::string_view text, const std::string& name) {
  if (text.size() > kMostBytes)
    throw Error(ExitCode::kBadInput, fmt::format("[model] {}: {} bytes long, the limit is {}", name,
                                                 text.size(), kMostBytes));
  NetworkFile network = Reader(name).read(contract::load_yaml(text, name));
  network.text = text;
  return network;
}

NetworkFile read_network(const std::filesystem::path& file) {
  return parse_network(contract::read_yaml_file(file), file.filename().string());
}

}  // namespace coxswain
