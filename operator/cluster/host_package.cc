#include "operator/cluster/host_package.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/question.h"

namespace coxswain::cluster {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAnswerWithin{30};

// Of the C library, which a host has of its own and which must be the kernel's and the loader's.
constexpr std::array<std::string_view, 9> kCLibrary = {
    "linux-vdso", "ld-linux", "libc.so",  "libm.so",     "libpthread.so",
    "libdl.so",   "librt.so", "libutil.", "libresolv.so"};

void link(const fs::path& target, const fs::path& place) {
  std::error_code error;
  fs::create_directories(place.parent_path(), error);
  if (!error) fs::create_symlink(target, place, error);
  if (error)
    throw Error(ExitCode::kVolume,
                fmt::format("[hosts] can't make {}: {}", place.string(), error.message()));
}

// Adds the names and bytes of files.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }

  void add(const std::string& name, const fs::path& file) {
    add(fmt::format("{}\n{}\n", name, fs::file_size(file)));
    std::ifstream in(file, std::ios::binary);
    std::string piece(1 << 20, '\0');
    while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())), in.gcount() > 0)
      add(std::string_view(piece).substr(0, static_cast<std::size_t>(in.gcount())));
    if (!in.eof())
      throw Error(ExitCode::kVolume, fmt::format("[hosts] can't read {}", file.string()));
  }

  std::string text() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    EVP_DigestFinal_ex(context_.get(), bytes.data(), nullptr);
    std::string hex;
    for (int i = 0; i < 16; ++i) hex += fmt::format("{:02x}", bytes[static_cast<std::size_t>(i)]);
    return hex;
  }

 private:
  void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::vector<fs::path> libraries_to_carry(const std::string& trace) {
  std::vector<fs::path> libraries;
  std::istringstream in(trace);
  for (std::string line; std::getline(in, line);) {
    const std::size_t arrow = line.find(" => /");
    if (arrow == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t");
    const std::string name = line.substr(begin, arrow - begin);
    const auto is_it = [&](std::string_view prefix) { return name.starts_with(prefix); };
    if (std::ranges::any_of(kCLibrary, is_it)) continue;
    const std::size_t path = arrow + 4;
    libraries.emplace_back(line.substr(path, line.find(" (", path) - path));
  }
  return libraries;
}

Package make_package(const fs::path& trainer, const fs::path& digits, const fs::path& folder) {
  contract::Question trace({trainer}, {{"LD_TRACE_LOADED_OBJECTS", "1"}}, kAnswerWithin);
  if (trace.wait() != 0)
    throw Error(ExitCode::kBadInput,
                fmt::format("[hosts] {}: {}", trainer.string(), trace.last_words()));
  link(trainer, folder / "coxswain-trainer");
  for (const fs::path& library : libraries_to_carry(trace.heard()))
    link(library, folder / "lib" / library.filename());
  if (!digits.empty())
    for (const auto& file : fs::directory_iterator(digits))
      link(file.path(), folder / "mnist" / file.path().filename());
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) files.push_back(entry.path());
  std::ranges::sort(files);
  Package package{folder, {}, 0};
  Digest digest;
  for (const fs::path& file : files) {
    digest.add(fs::relative(file, folder), file);
    package.bytes += static_cast<std::int64_t>(fs::file_size(file));
  }
  package.hash = digest.text();
  return package;
}

}  // namespace coxswain::cluster
