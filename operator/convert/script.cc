#include "operator/convert/script.h"

#include <algorithm>

namespace coxswain::convert {

namespace {

bool is_among(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t space = std::min(names.find(' '), names.size());
    if (names.substr(0, space) == name) return true;
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return false;
}

}  // namespace

const Script* known_script(const std::string& file_name) {
  const std::string name = base_name(file_name);
  for (const auto scripts :
       {mxnet_scripts(), gluon_scripts(), singa_scripts(), keras_scripts(), torch_scripts()})
    for (const Script& script : scripts)
      if (is_among(script.names, name)) return &script;
  return nullptr;
}

std::string kept(const Draft& draft, std::string_view key, std::string_view otherwise) {
  const Json* value = draft.find("script." + std::string(key));
  return value && value->is_string() ? value->get<std::string>() : std::string(otherwise);
}

int ranks_of(const Draft& draft) {
  const auto number = [&](std::string_view path) {
    const Json* value = draft.find(path);
    return value && value->is_number_integer() ? std::max(value->get<int>(), 1) : 1;
  };
  return number(kWorkers) * number("slotsPerWorker");
}

void use_servers(const Launch& launch, Draft& draft) {
  const Json* workers = draft.find(kWorkers);
  draft.put("strategy", "ParameterServer");
  draft.put(kServers, launch.servers ? Json(*launch.servers) : workers ? *workers : Json(1));
}

void read_from_claim(Draft& draft, std::string_view claim) {
  draft.put("volumes.data", Json{{"persistentVolumeClaim", {{"claimName", claim}}}});
}

void read_imagenet_folders(Draft& draft) {
  const Json normalise = {
      {"normalise", {{"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}}}};
  const Json of_pillow = "antialias";
  draft.put("training.data.format", "imagefolder");
  draft.put("training.data.augment",
            Json::array({{{"random-resized-crop", {{"size", 224}, {"interpolation", of_pillow}}}},
                         "flip",
                         normalise}));
  draft.put("training.data.evalAugment",
            Json::array({{{"resize", {{"size", 256}, {"interpolation", of_pillow}}}},
                         {{"centre-crop", {{"size", 224}}}},
                         normalise}));
  read_from_claim(draft, "imagenet");
  draft.note(Outcome::kMind, "volumes.data",
             "the claim imagenet must hold train/ and val/, with a folder a class");
}

}  // namespace coxswain::convert
