#pragma once

#include <span>
#include <string>
#include <string_view>

#include "operator/convert/launch.h"
#include "operator/convert/options.h"

// Scripts whose model, data and loop the trainer has: their options become `training`.
namespace coxswain::convert {

// A script, and what it does without being told. Between `begin` and `end` the draft holds what its
// options say below `script`, where no key of the spec takes the value as it is.
struct Script {
  std::string_view names;  // of its file, with a blank between
  std::string_view what;   // for people: whose it is, and its name
  std::span<const Option> options;
  void (*begin)(Draft& draft);
  void (*end)(const Launch& launch, Draft& draft);
};

// nullptr: nobody's.
const Script* known_script(const std::string& file_name);

// Fields that a script's numbers are.
template <const char* kKey>
void keep(Draft& draft, const std::vector<std::string>& values) {
  draft.put(std::string("script.") + kKey, values.front());
}

std::string kept(const Draft& draft, std::string_view key, std::string_view otherwise = {});

// How many ranks the job has: all that has been said of it.
int ranks_of(const Draft& draft);

// A strategy of servers: as many as the launcher starts, else as many as workers.
void use_servers(const Launch& launch, Draft& draft);

// A claim that a job reads, for files that aren't in the image.
void read_from_claim(Draft& draft, std::string_view claim);

// ImageNet in folders, changed as torchvision's example does.
void read_imagenet_folders(Draft& draft);

std::span<const Script> mxnet_scripts();
std::span<const Script> gluon_scripts();
std::span<const Script> singa_scripts();
std::span<const Script> keras_scripts();
std::span<const Script> torch_scripts();

}  // namespace coxswain::convert
