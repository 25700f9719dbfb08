#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>

#include "trainer/contract/error.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder_index.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::data {

namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 32;  // a link to a folder above it would go on for ever
// A folder that changed in the very moment of its listing may change again and look the same.
constexpr std::int64_t kSettledAfter = 2;  // seconds

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

enum class NameKind { kPicture, kOtherPicture, kOther };

// By torchvision's IMG_EXTENSIONS, and what else somebody would take for a picture.
NameKind kind_of_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return NameKind::kOther;
  const std::string extension = lower(name.substr(dot + 1));
  const auto is_one_of = [&](auto... names) { return ((extension == names) || ...); };
  if (is_one_of("jpg", "jpeg", "png")) return NameKind::kPicture;
  if (is_one_of("ppm", "bmp", "pgm", "tif", "tiff", "webp", "gif", "heic", "avif"))
    return NameKind::kOtherPicture;
  return NameKind::kOther;
}

struct File {
  std::string name;
  FileStamp stamp;
};

struct Entries {
  std::vector<std::string> folders;
  std::vector<File> files;
};

// Goes through one root; remembers each folder's time before it reads it.
class Lister {
 public:
  explicit Lister(const fs::path& root) : root_(root) {
    std::error_code failed;
    real_root_ = fs::canonical(root, failed);
    if (failed) refuse(root, failed.message());
  }

  FolderIndex list() {
    const Entries top = read_folder("");
    require_distinct(top.folders);
    for (const std::string& name : top.folders) {
      index_.add_class(name);
      const std::int64_t before = index_.size();
      add_files(name);
      if (index_.size() == before) {
        refuse(root_ / name, "a class without a JPEG or PNG: remove the folder, or fill it");
      }
    }
    if (index_.size() == 0) {
      refuse(root_,
             "holds no folders; a folder for each class is expected, with its pictures in it");
    }
    return std::move(index_);
  }

 private:
  void require_distinct(const std::vector<std::string>& names) const {
    std::map<std::string, std::string> seen;
    for (const std::string& name : names) {
      const auto [other, is_new] = seen.emplace(lower(name), name);
      if (is_new) continue;
      refuse(root_, fmt::format("the classes {} and {} differ in case alone; rename one, or put "
                                "them together",
                                shown(other->second), shown(name)));
    }
  }

  using FilesByFolder = std::map<std::string, std::vector<File>>;

  // Of a class: a folder after another by its whole name, as sorted(os.walk()) has them.
  void add_files(const std::string& name) {
    FilesByFolder found;
    collect(name, "", 0, found);
    for (const auto& [within, files] : found) {
      for (const auto& [file, stamp] : files) {
        index_.add_file(within.empty() ? file : within + "/" + file, stamp);
      }
    }
  }

  void collect(const std::string& name, const std::string& within, int depth,
               FilesByFolder& found) {
    const std::string here = within.empty() ? name : name + "/" + within;
    if (depth > kDeepest) refuse(root_ / here, "deeper than 32 folders; does a link lead upwards?");
    Entries entries = read_folder(here);
    found[within] = std::move(entries.files);
    for (const std::string& folder : entries.folders) {
      collect(name, within.empty() ? folder : within + "/" + folder, depth + 1, found);
    }
  }

  Entries read_folder(const std::string& path) {
    const fs::path full = path.empty() ? root_ : root_ / path;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(full.c_str()), closedir);
    struct stat status{};
    if (directory == nullptr || fstat(dirfd(directory.get()), &status) != 0) {
      refuse(full, std::strerror(errno));
    }
    index_.add_folder({path, status.st_mtim.tv_sec, status.st_mtim.tv_nsec});
    Entries entries;
    errno = 0;
    while (const dirent* entry = readdir(directory.get())) {
      if (entry->d_name[0] != '.') {
        add_entry(full, dirfd(directory.get()), *entry, path.empty(), entries);
      }
      errno = 0;
    }
    if (errno != 0) {
      throw Error(ExitCode::kVolume,
                  fmt::format("[data] {}: {}", shown(full), std::strerror(errno)));
    }
    std::ranges::sort(entries.folders);
    std::ranges::sort(entries.files, {}, &File::name);
    return entries;
  }

  void add_entry(const fs::path& folder, int descriptor, const dirent& entry, bool is_top,
                 Entries& entries) const {
    const std::string name = entry.d_name;
    const fs::path path = folder / name;
    unsigned char type = entry.d_type;
    if (type == DT_LNK || type == DT_UNKNOWN) type = type_behind(path, name);
    if (type == DT_DIR) {
      entries.folders.push_back(name);
    } else if (!is_top && type == DT_REG) {
      const NameKind kind = kind_of_name(name);
      if (kind == NameKind::kOtherPicture) {
        refuse(path, "JPEG and PNG alone are read; convert it, or remove it");
      }
      if (kind != NameKind::kPicture) return;
      struct stat status{};
      if (fstatat(descriptor, entry.d_name, &status, 0) != 0) refuse(path, std::strerror(errno));
      entries.files.push_back({name, stamp_of(status)});
    } else if (!is_top && kind_of_name(name) != NameKind::kOther) {
      refuse(path, "named as a picture, and no regular file: remove it");
    }
  }

  unsigned char type_behind(const fs::path& path, const std::string& name) const {
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0) refuse(path, std::strerror(errno));
    if (S_ISLNK(status.st_mode)) {
      std::error_code failed;
      const fs::path real = fs::canonical(path, failed);
      if (failed && kind_of_name(name) != NameKind::kPicture) return DT_UNKNOWN;
      if (failed) refuse(path, fmt::format("a link that leads nowhere: {}", failed.message()));
      if (!lies_within(real_root_, real)) {
        refuse(path,
               fmt::format("a link out of the folder, to {}; copy what it shows", shown(real)));
      }
      if (stat(path.c_str(), &status) != 0) refuse(path, std::strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) return DT_DIR;
    return S_ISREG(status.st_mode) ? DT_REG : DT_UNKNOWN;
  }

  const fs::path root_;
  fs::path real_root_;
  FolderIndex index_;
};

bool is_unchanged(const fs::path& root, const FolderIndex& index) {
  for (const FolderIndex::Folder& folder : index.folders()) {
    struct stat status{};
    const fs::path path = folder.path.empty() ? root : root / folder.path;
    if (stat(path.c_str(), &status) != 0 || status.st_mtim.tv_sec != folder.seconds ||
        status.st_mtim.tv_nsec != folder.nanoseconds) {
      return false;
    }
  }
  return true;
}

std::optional<FolderIndex> read_index(const fs::path& root, const fs::path& file, bool own) {
  struct stat status{};
  if (lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  if (own && status.st_uid != geteuid()) return std::nullopt;  // anybody may write in /tmp
  try {
    auto index = decode_index(read_file(file));
    if (index && is_unchanged(root, *index)) return index;
  } catch (const Error&) {  // listing the folder helps, and says what is wrong with it
  }
  return std::nullopt;
}

fs::path remembered_file(const fs::path& root) {
  std::error_code failed;
  const fs::path real = fs::canonical(root, failed);
  return fs::path("/tmp") / fmt::format("coxswain-{}", geteuid()) /
         fmt::format("{:016x}.index", tensor::fnv1a(real.native()));
}

bool is_settled(const FolderIndex& index) {
  const std::int64_t now = std::time(nullptr);
  return std::ranges::all_of(index.folders(), [&](const FolderIndex::Folder& folder) {
    return folder.seconds + kSettledAfter <= now;
  });
}

// A cache: what can't be written is listed again.
void remember(const fs::path& file, const FolderIndex& index) {
  mkdir(file.parent_path().c_str(), 0700);
  struct stat status{};
  if (lstat(file.parent_path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != geteuid()) {
    return;
  }
  try {
    write_whole(file, encode(index));
  } catch (const Error&) {
  }
}

}  // namespace

FolderIndex list_folder(const fs::path& root) { return Lister(root).list(); }

fs::path index_file(const fs::path& root) {
  const fs::path plain = root.has_filename() ? root : root.parent_path();
  return fs::path(plain.native() + ".coxswain-index");
}

FolderIndex index_of(const fs::path& root) {
  if (auto index = read_index(root, index_file(root), false)) return std::move(*index);
  const fs::path remembered = remembered_file(root);
  if (auto index = read_index(root, remembered, true)) return std::move(*index);
  FolderIndex index = list_folder(root);
  if (is_settled(index)) remember(remembered, index);
  return index;
}

}  // namespace coxswain::data
