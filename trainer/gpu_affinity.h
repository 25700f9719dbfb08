#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace coxswain {

using Cores = std::set<int>;

// "0-3,8", as Linux lists cores; nothing when the text is something else. Pure, as its opposite.
std::optional<Cores> parse_cores(std::string_view list);
std::string to_text(const Cores& cores);

// Value. Where Linux says that a device is; "" where it says nothing.
struct DevicePlace {
  std::string numa_node = {};  // -1: it doesn't know
  std::string cores = {};      // beside it
};

// Of "0000:3B:00.0".
DevicePlace place_of_device(const std::string& pci_id,
                            const std::filesystem::path& root = "/sys/bus/pci/devices");

// Those beside the device that may be used; nothing where its place is not known, and where they
// are all or none. Pure.
std::optional<Cores> cores_beside(const DevicePlace& place, const Cores& allowed);

// Of the calling thread.
Cores allowed_cores();

// Binds all threads of this process, and whom they start. False when the system refuses.
bool bind_to(const Cores& cores);

}  // namespace coxswain
