#pragma once

#include <string_view>

namespace coxswain::crd {

// kubernetes.json, as a part of the program.
std::string_view kubernetes_schemas();

}  // namespace coxswain::crd
