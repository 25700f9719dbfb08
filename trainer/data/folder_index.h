#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/file_bytes.h"

namespace coxswain::data {

// Value. The pictures of a folder of classes, in torchvision's order: the classes by name, and of
// each its files by their folder and name, at any depth; and what each of them was when it was
// listed. An image of a million takes 46 bytes.
class FolderIndex {
 public:
  // A folder that was listed, and when it had last changed.
  struct Folder {
    std::string path;  // from the root on; "": itself
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    bool operator==(const Folder&) const = default;
  };

  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  const std::vector<std::string>& classes() const { return classes_; }
  std::int32_t label(std::int64_t file) const;
  std::string path(std::int64_t file) const;  // "cat/0001.jpg"
  const FileStamp& stamp(std::int64_t file) const {
    return stamps_[static_cast<std::size_t>(file)];
  }
  const std::vector<Folder>& folders() const { return folders_; }

  void add_class(std::string name);
  void add_file(std::string_view name, FileStamp stamp);  // of the newest class, from its folder on
  void add_folder(Folder folder) { folders_.push_back(std::move(folder)); }

  bool operator==(const FolderIndex&) const = default;

 private:
  std::vector<std::string> classes_;
  std::vector<std::int64_t> firsts_;  // file of each class
  std::string names_;
  std::vector<std::uint64_t> ends_;  // of each file's name in names_
  std::vector<FileStamp> stamps_;
  std::vector<Folder> folders_;
};

// Goes through the folder. Throws Error (65) in words: a class without a picture, two that differ
// in case alone, a link that leads out of the folder, a kind of picture that is not read, a folder
// that may not be.
FolderIndex list_folder(const std::filesystem::path& root);

// As a file, and back; nothing when the bytes are not one. Pure.
std::vector<std::uint8_t> encode(const FolderIndex& index);
std::optional<FolderIndex> decode_index(std::span<const std::uint8_t> bytes);

// Where `pack --index` leaves the index of a folder: beside it.
std::filesystem::path index_file(const std::filesystem::path& root);

// The folder's index: as it was written beside the folder or remembered under /tmp, if no folder
// has changed since; else listed, and remembered.
FolderIndex index_of(const std::filesystem::path& root);

}  // namespace coxswain::data
