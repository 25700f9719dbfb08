#pragma once

#include <string>
#include <string_view>

namespace coxswain::cluster {

// RFC 4648 section 4, with padding, on one line.
std::string base64(std::string_view bytes);

}  // namespace coxswain::cluster
