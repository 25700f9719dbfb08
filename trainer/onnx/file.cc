#include "trainer/onnx/file.h"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "trainer/checkpoint/chunked_file.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/contract/file_extension.h"
#include "trainer/contract/printable.h"
#include "trainer/onnx/format.h"

namespace coxswain::onnx {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostOutside = 8ULL << 30;  // bytes of external data
constexpr std::size_t kMostOfPath = 200;

std::vector<std::byte> read_all(const fs::path& file, std::uint64_t most, const Model& model) {
  checkpoint::PosixFileSystem files;
  checkpoint::OpenFile opened = files.open(file);
  if (opened.bytes > most)
    refuse(model, fmt::format("{} bytes long, the limit is {}", opened.bytes, most));
  std::vector<std::byte> bytes(opened.bytes);
  if (!checkpoint::read_exactly(files, opened, bytes))
    refuse(model, "became shorter while it was read");
  return bytes;
}

// Files of external data, each read once.
class Outside {
 public:
  Outside(const fs::path& folder, const Model& model) : folder_(folder), model_(model) {}

  void fill(Tensor& tensor) {
    const External& external = *tensor.external;
    const std::vector<std::byte>& all = bytes_of(external.location, tensor.name);
    const std::uint64_t begin = external.offset;
    const std::uint64_t bytes = external.bytes.value_or(raw_bytes_of(tensor));
    if (begin > all.size() || bytes > all.size() - begin)
      refuse(model_, fmt::format("tensor {}: {} ends before byte {} + {}",
                                 printable(tensor.name, kMostOfPath),
                                 printable(external.location, kMostOfPath), begin, bytes));
    take_values(tensor, std::span(all).subspan(begin, bytes), model_.where);
  }

 private:
  const std::vector<std::byte>& bytes_of(const std::string& location, const std::string& tensor) {
    const auto known = files_.find(location);
    if (known != files_.end()) return known->second;
    std::error_code failed;
    const fs::path folder = fs::canonical(folder_, failed);
    const fs::path file = fs::canonical(folder_ / location, failed);
    const bool is_within = !failed && fs::path(location).is_relative() &&
                           !fs::relative(file, folder, failed).native().starts_with("..");
    if (location.empty() || !is_within)
      refuse(model_, fmt::format("tensor {}: its values are in \"{}\", which is no file in the "
                                 "model's folder",
                                 printable(tensor, kMostOfPath), printable(location, kMostOfPath)));
    std::vector<std::byte> bytes = read_all(file, kMostOutside - total_, model_);
    total_ += bytes.size();
    return files_.emplace(location, std::move(bytes)).first->second;
  }

  fs::path folder_;
  const Model& model_;
  std::map<std::string, std::vector<std::byte>> files_;
  std::uint64_t total_ = 0;
};

}  // namespace

bool is_onnx(const fs::path& file) { return has_extension(file, ".onnx"); }

Model read_model(const fs::path& file, Values values) {
  const Model named{.where = file.filename().string()};
  // Caches of downloads name their files by links.
  std::error_code ignored;
  const fs::path target = fs::canonical(file, ignored);
  Model model =
      decode_model(read_all(target.empty() ? file : target, kMostModelBytes, named), named.where);
  if (values == Values::kOfTheNetwork) model = without_weights(std::move(model));
  Outside outside(file.parent_path().empty() ? "." : file.parent_path(), named);
  const auto fill = [&](Tensor& tensor) {
    const bool is_stripped =
        tensor.external && tensor.external->location.empty() && values == Values::kOfTheNetwork;
    if (tensor.external && !is_stripped) outside.fill(tensor);
  };
  for (Tensor& tensor : model.tensors) fill(tensor);
  for (Node& node : model.nodes)
    for (Attribute& attribute : node.attributes)
      if (auto* tensor = std::get_if<Tensor>(&attribute.value)) fill(*tensor);
  return model;
}

}  // namespace coxswain::onnx
