#include "coordinator/service/checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "coordinator/store/sha256.h"

namespace shoal::coordinator {
namespace {

namespace fs = std::filesystem;

Error disk_error(const std::string& path, const std::string& what, int number) {
  const bool full = number == ENOSPC || number == EDQUOT;
  return {.code = full ? Code::kResourceExhausted : Code::kUnavailable,
          .message = what + ": " + std::strerror(number),
          .field = path,
          .remedy = full ? "free space on the coordinator's disk, or keep fewer checkpoints "
                           "(checkpoint.keep)"
                         : "check the coordinator's disk"};
}

Error bad_upload(Code code, const std::string& path, std::string message) {
  return {.code = code,
          .message = std::move(message),
          .field = path,
          .remedy = "the agent writes the checkpoint again"};
}

Status sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return disk_error(path, "cannot open the folder", errno);
  const bool synced = ::fsync(fd) == 0;
  const int number = errno;
  ::close(fd);
  return synced ? Status() : disk_error(path, "cannot sync the folder", number);
}

Status make_folders(const std::string& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  return failure ? disk_error(path, "cannot make the folder", failure.value()) : Status();
}

Status remove_tree(const std::string& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  return failure ? disk_error(path, "cannot remove the folder", failure.value()) : Status();
}

Status write_all(int fd, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return disk_error(path, "cannot write the checkpoint", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<Bytes> size_of(const std::vector<FileEntry>& files) {
  std::int64_t size = 0;
  for (const FileEntry& file : files) {
    if (__builtin_add_overflow(size, file.size.n, &size)) {
      return bad_upload(Code::kInvalidArgument, file.path, "the sizes add up to too much");
    }
  }
  return Bytes(size);
}

Status check_list(const std::vector<FileEntry>& files) {
  if (files.empty() || files.size() > CheckpointFiles::kFilesMax) {
    return bad_upload(Code::kInvalidArgument, "files",
                      "a checkpoint has 1 to " + std::to_string(CheckpointFiles::kFilesMax) +
                          " files, got " + std::to_string(files.size()));
  }
  std::set<std::string> seen;
  for (const FileEntry& file : files) {
    if (!is_safe_path(file.path)) {
      return bad_upload(Code::kInvalidArgument, file.path, "the path is not accepted");
    }
    if (file.size.n < 0)
      return bad_upload(Code::kInvalidArgument, file.path, "the size is negative");
    if (!seen.insert(file.path).second) {
      return bad_upload(Code::kInvalidArgument, file.path, "the file is listed twice");
    }
  }
  return {};
}

}  // namespace

bool is_safe_path(const std::string& path) {
  if (path.empty() || path.size() > 1000) return false;
  std::string component;
  for (const char c : path + "/") {
    if (c == '/') {
      if (component.empty() || component == "." || component == ".." || component.size() > 255) {
        return false;
      }
      component.clear();
    } else {
      if (static_cast<unsigned char>(c) < 0x20 || c == '\\') return false;
      component += c;
    }
  }
  return true;
}

Result<Bytes> free_room(const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0)
    return disk_error(folder, "cannot look at the disk", errno);
  return Bytes(static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize));
}

Result<std::unique_ptr<CheckpointFiles>> CheckpointFiles::open(const std::string& root,
                                                               FreeRoom room) {
  if (Status s = make_folders(root); !s.ok()) return s.error();
  std::vector<std::string> unfinished;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(root, failure)) {
    const auto suffix = entry.path().extension();
    if (suffix == ".partial" || suffix == ".deleted") unfinished.push_back(entry.path().string());
  }
  if (failure) return disk_error(root, "cannot list the folder", failure.value());
  for (const std::string& path : unfinished) {
    if (Status s = remove_tree(path); !s.ok()) return s.error();
  }
  return std::unique_ptr<CheckpointFiles>(new CheckpointFiles(root, std::move(room)));
}

Status CheckpointFiles::prune(const std::set<CheckpointId>& wanted) {
  std::set<CheckpointId> left;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(root_, failure)) {
    const std::string name = entry.path().filename().string();
    const auto id = parse_id<CheckpointTag>(name.substr(0, name.find('.')));
    if (id && !wanted.contains(*id)) left.insert(*id);
  }
  if (failure) return disk_error(root_, "cannot list the folder", failure.value());
  for (const CheckpointId id : left) {
    if (Status s = remove(id); !s.ok()) return s;
  }
  return {};
}

// ---- upload

struct CheckpointFiles::Upload::Parts {
  CheckpointFiles& owner;
  CheckpointId id;
  StageIndex stage, stages;
  std::vector<FileEntry> files;
  std::string partial;       // the folder
  std::size_t index = 0;     // the file being written
  std::int64_t missing = 0;  // bytes of it
  int fd = -1;
  Sha256 hash;
  Bytes total;

  const FileEntry& file() const { return files[index]; }
  std::string path() const { return partial + "/" + file().path; }

  Status open_file() {
    const std::string name = path();
    if (Status s = make_folders(fs::path(name).parent_path().string()); !s.ok()) return s;
    fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return disk_error(name, "cannot create the file", errno);
    hash = Sha256();
    missing = file().size.n;
    return {};
  }

  Status close_file() {
    const bool synced = ::fsync(fd) == 0;
    const int number = errno;
    ::close(fd);
    fd = -1;
    if (!synced) return disk_error(path(), "cannot sync the file", number);
    const std::string found = hash.finish();
    if (found != file().sha256) {
      return bad_upload(Code::kDataLoss, file().path,
                        "SHA-256 is " + found + ", announced was " + file().sha256);
    }
    ++index;
    return {};
  }

  // Opens and closes files until one wants bytes, or none is left.
  Status advance() {
    while (index < files.size()) {
      if (fd < 0) {
        if (Status s = open_file(); !s.ok()) return s;
      }
      if (missing > 0) return {};
      if (Status s = close_file(); !s.ok()) return s;
    }
    return {};
  }
};

CheckpointFiles::Upload::Upload(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

CheckpointFiles::Upload::~Upload() {
  if (parts_->fd >= 0) ::close(parts_->fd);
  (void)remove_tree(parts_->partial);  // what stays is removed at the next start
  const std::lock_guard guard(parts_->owner.mutex_);
  parts_->owner.uploading_.erase({parts_->id, parts_->stage});
}

Status CheckpointFiles::Upload::write(std::span<const std::byte> bytes) {
  Parts& parts = *parts_;
  while (!bytes.empty()) {
    if (parts.index == parts.files.size()) {
      return bad_upload(Code::kInvalidArgument, to_string(parts.id),
                        "more bytes came than announced");
    }
    const auto taken =
        bytes.first(std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(parts.missing)));
    const Bytes size(static_cast<std::int64_t>(taken.size()));
    if (Status s = parts.owner.check_room(size); !s.ok()) return s;  // others write there, too
    if (Status s = write_all(parts.fd, parts.path(), taken); !s.ok()) return s;
    parts.hash.add(taken);
    parts.missing -= size.n;
    parts.total += size;
    bytes = bytes.subspan(taken.size());
    if (Status s = parts.advance(); !s.ok()) return s;
  }
  return {};
}

Result<Bytes> CheckpointFiles::Upload::finish() {
  Parts& parts = *parts_;
  if (parts.index < parts.files.size()) {
    return bad_upload(Code::kInvalidArgument, parts.file().path,
                      std::to_string(parts.missing) + " bytes are missing");
  }
  std::set<std::string> folders{parts.partial};
  for (const FileEntry& file : parts.files) {
    fs::path folder = fs::path(file.path).parent_path();
    for (; !folder.empty(); folder = folder.parent_path()) {
      folders.insert(parts.partial + "/" + folder.string());
    }
  }
  for (const std::string& folder : folders) {
    if (Status s = sync_folder(folder); !s.ok()) return s.error();
  }
  const std::string target = parts.owner.part(parts.id, parts.stage);
  if (Status s = remove_tree(target); !s.ok()) return s.error();  // of a start that died here
  if (::rename(parts.partial.c_str(), target.c_str()) != 0) {
    return disk_error(target, "cannot place the checkpoint", errno);
  }
  if (Status s = sync_folder(parts.owner.root_); !s.ok()) return s.error();
  if (Status s = parts.owner.join_parts(parts.id, parts.stages); !s.ok()) return s.error();
  return parts.total;
}

// Links the files of all parts into the folder, once they are all there. Links, because a part must
// stay whole until the folder is.
Status CheckpointFiles::join_parts(CheckpointId id, StageIndex stages) {
  const std::lock_guard guard(joining_);
  for (StageIndex stage = 0; stage < stages; ++stage) {
    if (!fs::exists(part(id, stage))) return {};
  }
  const std::string joined = folder(id) + ".partial";
  if (Status s = remove_tree(joined); !s.ok()) return s;
  std::error_code failure;
  for (StageIndex stage = 0; stage < stages && !failure; ++stage) {
    fs::copy(part(id, stage), joined,
             fs::copy_options::recursive | fs::copy_options::create_hard_links, failure);
  }
  if (failure) return disk_error(joined, "cannot join the parts", failure.value());
  for (const auto& entry : fs::recursive_directory_iterator(joined, failure)) {
    if (!entry.is_directory()) continue;
    if (Status s = sync_folder(entry.path().string()); !s.ok()) return s;
  }
  if (Status s = sync_folder(joined); !s.ok()) return s;
  if (Status s = remove_tree(folder(id)); !s.ok()) return s;  // of a start that died here
  fs::rename(joined, folder(id), failure);
  if (failure) return disk_error(folder(id), "cannot place the checkpoint", failure.value());
  if (Status s = sync_folder(root_); !s.ok()) return s;
  for (StageIndex stage = 0; stage < stages; ++stage) {
    if (Status s = remove_tree(part(id, stage)); !s.ok()) return s;
  }
  return {};
}

Status CheckpointFiles::check_room(Bytes wanted) const {
  const Result<Bytes> room = room_(root_);
  if (!room) return room.error();
  if (wanted <= *room - kReserve) return {};
  Error error = disk_error(root_, "the checkpoint does not fit", ENOSPC);
  error.message = "the checkpoint needs " + std::to_string(wanted.n) + " bytes, the disk has " +
                  std::to_string(room->n) + ", of which " + std::to_string(kReserve.n) +
                  " are kept for the coordinator's tables";
  return error;
}

Result<std::unique_ptr<CheckpointFiles::Upload>> CheckpointFiles::begin(
    CheckpointId id, StageIndex stage, StageIndex stages, const std::vector<FileEntry>& files) {
  if (Status s = check_list(files); !s.ok()) return s.error();
  const Result<Bytes> size = size_of(files);
  if (!size) return size.error();
  if (Status s = check_room(*size); !s.ok()) return s.error();
  {
    const std::lock_guard guard(mutex_);
    if (!uploading_.insert({id, stage}).second) {
      return Error{.code = Code::kConflict,
                   .message = to_string(id) + " is being uploaded already",
                   .remedy = "wait for that upload to end"};
    }
  }
  std::unique_ptr<Upload> upload(new Upload(std::unique_ptr<Upload::Parts>(
      new Upload::Parts{.owner = *this,
                        .id = id,
                        .stage = stage,
                        .stages = stages,
                        .files = files,
                        .partial = folder(id) + "." + std::to_string(stage) + ".partial"})));
  if (Status s = remove_tree(upload->parts_->partial); !s.ok()) return s.error();
  if (Status s = make_folders(upload->parts_->partial); !s.ok()) return s.error();
  if (Status s = upload->parts_->advance(); !s.ok()) return s.error();
  return upload;
}

// ---- the rest

Status CheckpointFiles::read(CheckpointId id, const std::vector<FileEntry>& files,
                             const std::function<bool(std::span<const std::byte>)>& sink) const {
  std::vector<std::byte> buffer(kChunkBytes);
  for (const FileEntry& file : files) {
    const std::string path = folder(id) + "/" + file.path;
    const int fd = is_safe_path(file.path) ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return disk_error(path, "cannot open the file", errno);
    std::int64_t missing = file.size.n;
    bool wanted = true;
    while (missing > 0 && wanted) {
      const ssize_t size = ::read(fd, buffer.data(), buffer.size());
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0 || size > missing) break;
      missing -= size;
      wanted = sink({buffer.data(), static_cast<std::size_t>(size)});
    }
    ::close(fd);
    if (!wanted) return Error{.code = Code::kCancelled, .message = "the receiver is gone"};
    if (missing != 0) {
      return Error{.code = Code::kDataLoss,
                   .message = "the stored file does not have the size it was stored with",
                   .field = path,
                   .remedy = "restore the folder from a backup or use another checkpoint"};
    }
  }
  return {};
}

Status CheckpointFiles::remove(CheckpointId id) {
  std::vector<std::string> parts;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(root_, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(to_string(id) + ".") && name.ends_with(".part")) {
      parts.push_back(entry.path().string());
    }
  }
  if (failure) return disk_error(root_, "cannot list the folder", failure.value());
  for (const std::string& path : parts) {
    if (Status s = remove_tree(path); !s.ok()) return s;
  }
  const std::string target = folder(id), doomed = target + ".deleted";
  // Renamed first: a removal that is cut short must not leave a folder that looks complete.
  if (::rename(target.c_str(), doomed.c_str()) != 0) {
    return errno == ENOENT ? Status() : disk_error(target, "cannot remove the checkpoint", errno);
  }
  return remove_tree(doomed);
}

}  // namespace shoal::coordinator
