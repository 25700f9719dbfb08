#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace coxswain::test {

using PeerValues = std::map<std::string, std::vector<double>>;

// A golden of what other programs give: a name and numbers a line, behind lines that begin with #.
inline PeerValues read_peer_values(const std::string& path) {
  std::ifstream file(path);
  PeerValues values;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string key;
    words >> key;
    for (double value = 0; words >> value;) values[key].push_back(value);
  }
  return values;
}

}  // namespace coxswain::test
