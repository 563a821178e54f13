#include "agent/host/checkpoint_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "transfer/files.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

const Error kUnwanted{Code::kCancelled, "the checkpoint is no longer wanted", "", ""};

Error differs(const FileEntry& file, const std::string& what) {
  return {Code::kDataLoss, "the file is not what its writer reported: " + what, file.path,
          "let no other process write into the folders of the agent, and check its disk"};
}

// Everything below the folder but folders, sorted. The type is not looked at.
Result<std::vector<std::string>> names_below(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code unknown;
    if (it->symlink_status(unknown).type() == fs::file_type::directory) continue;
    names.push_back(it->path().lexically_relative(folder).generic_string());
    if (names.size() > kCheckpointFilesMax)
      return Error{Code::kDataLoss, folder + " holds too many files", "", "write fewer"};
  }
  if (error)
    return Error{Code::kUnavailable, "cannot read " + folder + ": " + error.message(), "", ""};
  if (names.empty()) return Error{Code::kDataLoss, folder + " holds no files", "", ""};
  std::ranges::sort(names);
  return names;
}

Result<FileEntry> hash_file(const std::string& folder, const std::string& path,
                            const std::atomic<bool>& cancelled) {
  const auto file = RegularFile::open(folder, path);
  if (!file) return file.error();
  Sha256 hash;
  std::vector<std::byte> piece(kPieceBytes);
  for (std::int64_t at = 0; at < file->size().count();) {
    if (cancelled) return kUnwanted;
    const auto most = std::min<std::int64_t>(file->size().count() - at, kPieceBytes);
    const auto bytes = std::span(piece).first(static_cast<std::size_t>(most));
    if (Status s = file->read(at, bytes); !s.ok()) return s.error();
    hash.add(bytes);
    at += most;
  }
  return FileEntry{path, file->size(), hash.finish()};
}

// As a writer of protocol 4 leaves them.
Result<std::vector<FileEntry>> hash_all(const std::string& folder,
                                        const std::vector<std::string>& names,
                                        const std::atomic<bool>& cancelled) {
  std::vector<FileEntry> files;
  for (const std::string& name : names) {
    auto entry = hash_file(folder, name, cancelled);
    if (!entry) return entry.error();
    files.push_back(std::move(*entry));
  }
  return files;
}

Status check_size(const FileEntry& file, const RegularFile& found) {
  if (found.size() == file.size) return {};
  return differs(file, "it has " + std::to_string(found.size().count()) + " bytes, reported were " +
                           std::to_string(file.size.count()));
}

}  // namespace

Result<std::vector<FileEntry>> check_written(const std::string& folder,
                                             const std::vector<FileEntry>& reported,
                                             const std::atomic<bool>& cancelled) {
  const auto names = names_below(folder);
  if (!names) return names.error();
  if (cancelled) return kUnwanted;
  if (reported.empty()) return hash_all(folder, *names, cancelled);
  std::set<std::string> known;
  for (const FileEntry& file : reported) {
    if (!known.insert(file.path).second) return differs(file, "it was reported twice");
    const auto found = RegularFile::open(folder, file.path);
    if (!found) return found.error();
    if (Status s = check_size(file, *found); !s.ok()) return s.error();
  }
  for (const std::string& name : *names) {
    if (!known.contains(name))
      return Error{Code::kDataLoss, "the writer of the checkpoint did not report the file", name,
                   "let no other process write into the folders of the agent"};
  }
  return reported;
}

Status OutgoingFiles::open(std::size_t index) {
  auto file = RegularFile::open(folder_, files_[index].path);
  if (!file) return file.error();
  if (Status s = check_size(files_[index], *file); !s.ok()) return s;
  file_ = std::move(*file);
  index_ = index;
  hash_ = Sha256();
  hashed_ = 0;
  return {};
}

Status OutgoingFiles::hash_to(std::int64_t end, const Take& take) {
  std::vector<std::byte> piece(kPieceBytes);
  while (hashed_ < end) {
    const auto most = std::min<std::int64_t>(end - hashed_, kPieceBytes);
    const auto bytes = std::span(piece).first(static_cast<std::size_t>(most));
    if (Status s = file_->read(hashed_, bytes); !s.ok()) return s;
    hash_.add(bytes);
    hashed_ += most;
    if (!take(bytes)) return kUnwanted;
  }
  return {};
}

Status OutgoingFiles::read(std::size_t index, std::int64_t from, std::int64_t to,
                           const Take& take) {
  if (!file_ || index != index_ || from < hashed_) {
    if (Status s = open(index); !s.ok()) return s;
  }
  const auto pass = [](std::span<const std::byte>) { return true; };
  if (Status s = hash_to(from, pass); !s.ok()) return s;
  if (Status s = hash_to(to, take); !s.ok()) return s;
  const FileEntry& file = files_[index];
  if (to < file.size.count()) return {};
  const std::string found = hash_.finish();
  hashed_ = file.size.count() + 1;  // it was compared: who asks again gets it opened again
  if (found == file.sha256) return {};
  return differs(file, "its SHA-256 is " + found + ", reported was " + file.sha256);
}

Status OutgoingFiles::read_all(Bytes from, const Take& take) {
  std::int64_t skip = from.count();
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::int64_t size = files_[i].size.count(), here = std::min(skip, size);
    skip -= here;
    if (here == size && size > 0) continue;
    if (Status s = read(i, here, size, take); !s.ok()) return s;
  }
  return {};
}

}  // namespace shoal::agent
