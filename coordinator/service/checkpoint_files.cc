#include "coordinator/service/checkpoint_files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "base/sha256.h"
#include "coordinator/store/manifest.h"
#include "threads/file_content.h"
#include "transfer/file_receiver.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

namespace fs = std::filesystem;

Status make_folders(const std::string& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  return failure ? disk_error("make the folder", path, failure.value()) : Status();
}

Status remove_tree(const std::string& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  return failure ? disk_error("remove the folder", path, failure.value()) : Status();
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

}  // namespace

Result<std::unique_ptr<CheckpointFiles>> CheckpointFiles::open(const std::string& root,
                                                               FreeRoom room) {
  if (Status s = make_folders(root); !s.ok()) return s.error();
  std::vector<std::string> unfinished;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(root, failure)) {
    const auto suffix = entry.path().extension();
    if (suffix == ".partial" || suffix == ".deleted") unfinished.push_back(entry.path().string());
  }
  if (failure) return disk_error("list the folder", root, failure.value());
  for (const std::string& path : unfinished) {
    if (Status s = remove_tree(path); !s.ok()) return s.error();
  }
  return std::unique_ptr<CheckpointFiles>(new CheckpointFiles(root, std::move(room)));
}

Result<std::map<CheckpointId, bool>> CheckpointFiles::list() const {
  std::map<CheckpointId, bool> all;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(root_, failure)) {
    const std::string name = entry.path().filename().string();
    const std::size_t dot = name.find('.');
    const auto id = parse_id<CheckpointTag>(name.substr(0, dot));
    if (id) all[*id] |= dot == std::string::npos;
  }
  if (failure) return disk_error("list the folder", root_, failure.value());
  return all;
}

Status CheckpointFiles::prune(const std::set<CheckpointId>& wanted) {
  const auto all = list();
  if (!all) return all.error();
  for (const auto& [id, complete] : *all) {
    if (wanted.contains(id)) continue;
    if (Status s = remove(id); !s.ok()) return s;
  }
  return {};
}

// ---- upload

struct CheckpointFiles::Upload::Parts {
  CheckpointFiles& owner;
  CheckpointId id;
  StageIndex stage, stages;
  std::string folder;
  std::unique_ptr<FileReceiver> receiver = nullptr;
  bool failed = false;  // for good: what was received is of no use

  Status note(Status status) {
    const bool again = status.ok() || status.error().code == Code::kUnavailable;
    failed |= !again;
    return status;
  }
};

CheckpointFiles::Upload::Upload(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

CheckpointFiles::Upload::~Upload() {
  parts_->receiver.reset();
  if (parts_->failed) (void)FileReceiver::discard(parts_->folder);  // what stays goes with its id
  const MutexLock guard(parts_->owner.mutex_);
  parts_->owner.uploading_.erase({parts_->id, parts_->stage});
}

Bytes CheckpointFiles::Upload::received() const { return parts_->receiver->received(); }

Status CheckpointFiles::Upload::write(std::span<const std::byte> bytes) {
  const Bytes size(static_cast<std::int64_t>(bytes.size()));
  if (Status s = parts_->owner.check_room(size); !s.ok()) return parts_->note(s);  // others write
  return parts_->note(parts_->receiver->write(bytes));
}

Status CheckpointFiles::Upload::sync() { return parts_->receiver->sync(); }

Result<Bytes> CheckpointFiles::Upload::finish() {
  Parts& parts = *parts_;
  const Bytes total = parts.receiver->received();
  const std::string target = parts.owner.part(parts.id, parts.stage);
  if (Status s = parts.note(parts.receiver->finish(target)); !s.ok()) return s.error();
  if (Status s = parts.owner.join_parts(parts.id, parts.stages); !s.ok()) return s.error();
  return total;
}

// Links the files of all parts into the folder, once they are all there. Links, because a part must
// stay whole until the folder is.
Status CheckpointFiles::join_parts(CheckpointId id, StageIndex stages) {
  const MutexLock guard(joining_);
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
  if (failure) return disk_error("join the parts", joined, failure.value());
  for (const auto& entry : fs::recursive_directory_iterator(joined, failure)) {
    if (!entry.is_directory()) continue;
    if (Status s = sync_folder(entry.path().string()); !s.ok()) return s;
  }
  if (Status s = sync_folder(joined); !s.ok()) return s;
  if (Status s = remove_tree(folder(id)); !s.ok()) return s;  // of a start that died here
  fs::rename(joined, folder(id), failure);
  if (failure) return disk_error("place the checkpoint", folder(id), failure.value());
  if (Status s = sync_folder(root_); !s.ok()) return s;
  for (StageIndex stage = 0; stage < stages; ++stage) {
    if (Status s = FileReceiver::discard(part(id, stage)); !s.ok()) return s;
  }
  return {};
}

Status CheckpointFiles::check_room(Bytes wanted) const {
  return coordinator::check_room(
      room_, root_, wanted, "the checkpoint",
      "free space on the coordinator's disk, or keep fewer checkpoints (checkpoint.keep)");
}

Result<std::unique_ptr<CheckpointFiles::Upload>> CheckpointFiles::begin(
    CheckpointId id, StageIndex stage, StageIndex stages, const std::vector<FileEntry>& files) {
  if (Status s = check_file_list(files); !s.ok()) return s.error();
  const Result<Bytes> size = size_of(files);
  if (!size) return size.error();
  {
    const MutexLock guard(mutex_);
    if (!uploading_.insert({id, stage}).second) {
      return Error{.code = Code::kConflict,
                   .message = to_string(id) + " is being uploaded already",
                   .remedy = "wait for that upload to end"};
    }
  }
  std::unique_ptr<Upload> upload(new Upload(
      std::unique_ptr<Upload::Parts>(new Upload::Parts{.owner = *this,
                                                       .id = id,
                                                       .stage = stage,
                                                       .stages = stages,
                                                       .folder = this->upload(id, stage)})));
  Upload::Parts& parts = *upload->parts_;
  {
    const MutexLock guard(joining_);  // of an upload that ended when the record could not
    if (Status s = FileReceiver::take_back(part(id, stage), parts.folder); !s.ok())
      return s.error();
  }
  auto receiver = FileReceiver::open(parts.folder, files);
  if (!receiver) return receiver.error();
  parts.receiver = std::move(*receiver);
  if (Status s = parts.note(check_room(*size - upload->received())); !s.ok()) return s.error();
  return upload;
}

// ---- the rest

Status CheckpointFiles::read(CheckpointId id, const std::vector<FileEntry>& files, Bytes from,
                             const std::function<bool(std::span<const std::byte>)>& sink) const {
  for (const FileEntry& file : files) {
    if (!is_safe_path(file.path)) {
      return bad_upload(Code::kInvalidArgument, file.path, "the path is not accepted");
    }
  }
  return read_files(folder(id), files, from, sink);
}

bool CheckpointFiles::has(CheckpointId id) const {
  std::error_code failure;
  return fs::exists(folder(id), failure);
}

Status CheckpointFiles::describe(const CheckpointRecord& stored) {
  const std::string path = folder(stored.id) + "/" + kManifestFile;
  std::error_code failure;
  if (fs::exists(path, failure) || !fs::exists(folder(stored.id), failure)) return {};
  return write_file_durably(path, to_manifest(stored));
}

Result<CheckpointRecord> CheckpointFiles::manifest(CheckpointId id) const {
  const std::string path = folder(id) + "/" + kManifestFile;
  const auto text = file_content(path);
  if (!text) return disk_error("read the file", path, ENOENT);
  auto manifest = read_manifest(*text);
  if (manifest) return manifest;
  Error error = manifest.error();
  error.field = path;
  return error;
}

Status CheckpointFiles::verify(CheckpointId id, const std::vector<FileEntry>& files) const {
  if (Status s = check_file_list(files); !s.ok()) return s;
  for (const FileEntry& file : files) {
    const std::string path = folder(id) + "/" + file.path;
    std::error_code failure;
    const auto size = fs::file_size(path, failure);
    if (failure) return disk_error("find the file", path, failure.value());
    Sha256 sha;
    const auto take = [&](std::span<const std::byte> bytes) { return sha.add(bytes), true; };
    if (static_cast<std::int64_t>(size) != file.size.count()) {
      return Error{Code::kDataLoss, "another size than was stored", path};
    }
    if (Status s = read_files(folder(id), {file}, Bytes(), take); !s.ok()) return s;
    if (sha.finish() != file.sha256) return Error{Code::kDataLoss, "another SHA-256", path};
  }
  return {};
}

Status CheckpointFiles::remove(CheckpointId id) {
  std::vector<std::string> parts;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(root_, failure)) {
    const std::string name = entry.path().filename().string();
    const bool part = name.ends_with(".part") || name.ends_with(".upload") ||
                      name.ends_with(".list") || name.ends_with(".store");
    if (part && name.starts_with(to_string(id) + ".")) parts.push_back(entry.path().string());
  }
  if (failure) return disk_error("list the folder", root_, failure.value());
  for (const std::string& path : parts) {
    if (Status s = remove_tree(path); !s.ok()) return s;
  }
  const std::string target = folder(id), doomed = target + ".deleted";
  // Renamed first: a removal that is cut short must not leave a folder that looks complete.
  if (::rename(target.c_str(), doomed.c_str()) != 0) {
    return errno == ENOENT ? Status() : disk_error("remove the checkpoint", target, errno);
  }
  return remove_tree(doomed);
}

}  // namespace shoal::coordinator
