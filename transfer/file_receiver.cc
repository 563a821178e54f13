#include "transfer/file_receiver.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "threads/file_content.h"
#include "transfer/files.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

std::string list_path(const std::string& folder) { return folder + ".list"; }

// Empty when the text is no list.
std::vector<FileEntry> parse_list(const std::string& text) {
  std::vector<FileEntry> files;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::int64_t size = -1;
    FileEntry file;
    if (!(words >> size >> file.sha256) || size < 0 || words.get() != ' ') return {};
    file.size = Bytes(size);
    if (!std::getline(words, file.path) || file.path.empty()) return {};
    files.push_back(std::move(file));
  }
  return files;
}

Status make_folders(const std::string& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  return failure ? Status(disk_error("make the folder", path, failure.value())) : Status();
}

Status remove_tree(const std::string& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  return failure ? Status(disk_error("remove", path, failure.value())) : Status();
}

}  // namespace

std::string list_text(const std::vector<FileEntry>& files) {
  std::string text;
  for (const FileEntry& file : files) {
    text += std::to_string(file.size.count()) + " " + file.sha256 + " " + file.path + "\n";
  }
  return text;
}

Result<std::unique_ptr<FileReceiver>> FileReceiver::open(std::string folder,
                                                         std::vector<FileEntry> files) {
  std::unique_ptr<FileReceiver> receiver(new FileReceiver(std::move(folder), std::move(files)));
  if (Status s = receiver->make_room(); !s.ok()) return s.error();
  if (Status s = receiver->take_stock(); !s.ok()) return s.error();
  if (Status s = receiver->advance(); !s.ok()) return s.error();
  return receiver;
}

Result<std::unique_ptr<FileReceiver>> FileReceiver::reopen(std::string folder) {
  std::vector<FileEntry> files = parse_list(file_content(list_path(folder)).value_or(""));
  if (files.empty() || !fs::exists(folder)) {
    return Error{Code::kNotFound, "nothing was received yet", folder, ""};
  }
  return open(std::move(folder), std::move(files));
}

Status FileReceiver::take_back(const std::string& target, const std::string& folder) {
  if (!fs::exists(target) || fs::exists(folder)) return {};
  if (::rename(target.c_str(), folder.c_str()) != 0) {
    return disk_error("rename the folder to " + folder, target, errno);
  }
  // Without its list it starts over.
  (void)::rename(list_path(target).c_str(), list_path(folder).c_str());
  return {};
}

Status FileReceiver::discard(const std::string& folder) {
  if (Status s = remove_tree(folder); !s.ok()) return s;
  return remove_tree(list_path(folder));
}

FileReceiver::~FileReceiver() {
  if (fd_ >= 0) ::close(fd_);
}

// The list comes first: without it nobody knows what lies in the folder.
Status FileReceiver::make_room() {
  const std::string list = list_text(files_);
  if (file_content(list_path(folder_)) == list) return make_folders(folder_);
  if (Status s = discard(folder_); !s.ok()) return s;
  if (Status s = make_folders(folder_); !s.ok()) return s;
  return write_file_durably(list_path(folder_), list);
}

// Files came one after the other: behind the first that is not whole nothing counts.
Status FileReceiver::take_stock() {
  for (bool whole = true; whole && next_ < files_.size();) {
    Result<bool> known = take_stock_of(files_[next_]);
    if (!known) return known.error();
    whole = *known;
    next_ += whole;
  }
  return {};
}

// False: the file continues behind what hash_ and here_ know of it.
Result<bool> FileReceiver::take_stock_of(const FileEntry& file) {
  hash_ = Sha256();
  here_ = 0;
  std::error_code failure;
  const auto size = fs::file_size(path(), failure);
  if (failure || size > static_cast<std::uintmax_t>(file.size.count())) return false;
  const FileEntry found{file.path, Bytes(static_cast<std::int64_t>(size)), {}};
  const Status read = read_files(folder_, {found}, {}, [this](std::span<const std::byte> piece) {
    hash_.add(piece);
    here_ += static_cast<std::int64_t>(piece.size());
    return true;
  });
  const bool whole = read.ok() && found.size == file.size;
  if (!read.ok() || (whole && hash_.finish() != file.sha256)) {
    hash_ = Sha256();
    here_ = 0;
    return false;
  }
  received_ += Bytes(here_);
  return whole;
}

Status FileReceiver::open_file() {
  const std::string name = path();
  if (Status s = make_folders(fs::path(name).parent_path().string()); !s.ok()) return s;
  resumed_ = here_ > 0;
  fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) return disk_error("create the file", name, errno);
  if (::ftruncate(fd_, here_) != 0 || ::lseek(fd_, here_, SEEK_SET) != here_) {
    return disk_error("continue the file", name, errno);
  }
  return {};
}

Status FileReceiver::close_file() {
  const int failed = ::fsync(fd_) != 0 ? errno : 0;
  ::close(fd_);
  fd_ = -1;
  if (failed != 0) return disk_error("sync the file", path(), failed);
  const FileEntry& file = files_[next_];
  const std::string found = hash_.finish();
  hash_ = Sha256();
  const std::int64_t size = std::exchange(here_, 0);
  if (found == file.sha256) {
    ++next_;
    return {};
  }
  received_ = received_ - Bytes(size);
  if (Status s = remove_tree(path()); !s.ok()) return s;
  return Error{resumed_ ? Code::kUnavailable : Code::kDataLoss,
               "SHA-256 is " + found + ", announced was " + file.sha256, file.path,
               "the file is sent again"};
}

// Opens and closes files until one wants bytes, or none is left.
Status FileReceiver::advance() {
  while (!complete()) {
    if (fd_ < 0) {
      if (Status s = open_file(); !s.ok()) return s;
    }
    if (here_ < files_[next_].size.count()) return {};
    if (Status s = close_file(); !s.ok()) return s;
  }
  return {};
}

Status FileReceiver::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (Status s = advance(); !s.ok()) return s;
    if (complete()) {
      return Error{Code::kInvalidArgument, "more bytes came than the files have", folder_, ""};
    }
    const auto missing = static_cast<std::size_t>(files_[next_].size.count() - here_);
    const auto taken = bytes.first(std::min(bytes.size(), missing));
    if (Status s = write_all(fd_, taken, path()); !s.ok()) return s;
    hash_.add(taken);
    here_ += static_cast<std::int64_t>(taken.size());
    received_ += Bytes(static_cast<std::int64_t>(taken.size()));
    bytes = bytes.subspan(taken.size());
    if (Status s = advance(); !s.ok()) return s;
  }
  return {};
}

Status FileReceiver::sync() {
  if (fd_ < 0 || ::fdatasync(fd_) == 0) return {};
  return disk_error("sync the file", path(), errno);
}

Status FileReceiver::finish(const std::string& target) {
  if (!complete()) {
    const std::int64_t missing = (total_size(files_) - received_).count();
    return Error{Code::kInvalidArgument, std::to_string(missing) + " bytes are missing",
                 files_[next_].path, ""};
  }
  std::set<std::string> folders{folder_};
  for (const FileEntry& file : files_) {
    fs::path folder = fs::path(file.path).parent_path();
    for (; !folder.empty(); folder = folder.parent_path()) {
      folders.insert(folder_ + "/" + folder.string());
    }
  }
  for (const std::string& folder : folders) {
    if (Status s = sync_folder(folder); !s.ok()) return s;
  }
  if (Status s = discard(target); !s.ok()) return s;
  if (::rename(folder_.c_str(), target.c_str()) != 0) {
    return disk_error("rename the folder to " + target, folder_, errno);
  }
  if (::rename(list_path(folder_).c_str(), list_path(target).c_str()) != 0) {
    return disk_error("rename the list of the folder", folder_, errno);
  }
  return sync_folder(fs::path(target).parent_path().string());
}

}  // namespace shoal
