// The uploads of the file store: announced, received in pieces, proved.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/number_text.h"
#include "base/sha256.h"
#include "coordinator/service/files/file_errors.h"
#include "coordinator/service/files/file_store.h"
#include "job/data_rules.h"
#include "job/field_checker.h"
#include "transfer/disk.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSizeMax = std::int64_t{1} << 50;

std::string text_of(Bytes bytes) { return size_text(static_cast<double>(bytes.count())); }

}  // namespace

Status FileStore::check_begin(const std::string& sha256, Bytes size,
                              const std::string& owner) const {
  if (!is_sha256_hex(sha256)) {
    return Error{Code::kValidation,
                 "must be 64 lower-case hex characters, got " + shoal::quoted(sha256), "sha256",
                 "give the SHA-256 of the whole file"};
  }
  if (size.n < 1 || size.n > kSizeMax) {
    return Error{Code::kValidation, "must be from 1 byte to 1 PiB, got " + std::to_string(size.n),
                 "size", "an empty file cannot be stored"};
  }
  if (files_.size() >= kFilesMax) {
    return Error{Code::kResourceExhausted,
                 "there are " + std::to_string(kFilesMax) + " files, the most that are kept", "",
                 "remove datasets that no job uses"};
  }
  return check_quota(size, owner);
}

// Proofs count while they take room.
Status FileStore::check_quota(Bytes size, const std::string& owner) const {
  Bytes kept;
  for (const auto& [hash, file] : files_) {
    if (file.owner == owner) kept += file.size;
  }
  for (const auto& [key, upload] : uploads_) {
    if (key.second == owner && is_proof(key)) kept += files_.at(key.first).size;
  }
  if (options_.each_owner.n == 0 || kept + size <= options_.each_owner) return {};
  return Error{Code::kValidation,
               owner + " keeps " + text_of(kept) + " of files; with " + text_of(size) +
                   " more that would be over the limit of " + text_of(options_.each_owner),
               "size", "remove datasets, or ask for a larger --file-quota-gib"};
}

bool FileStore::is_proof(const UploadKey& upload) const {
  const FileRecord& record = files_.at(upload.first);
  return record.complete || record.owner != upload.second;
}

std::vector<std::string> FileStore::owners_of(const FileRecord& record) const {
  if (!record.complete) return {};
  std::vector<std::string> owners{record.owner};
  const auto further = uploaders_.find(record.sha256);
  if (further != uploaders_.end()) {
    owners.insert(owners.end(), further->second.begin(), further->second.end());
  }
  return owners;
}

Status FileStore::announce(const std::string& sha256, Bytes size, const ObjectUser& who) {
  std::optional<FileRecord> known;
  bool is_readable = false;
  {
    const MutexLock guard(mutex_);
    const auto found = files_.find(sha256);
    if (found != files_.end()) known = found->second;
    if (!known) {
      if (Status s = check_begin(sha256, size, who.name); !s.ok()) return s.error();
    } else {
      is_readable = may_use(who, ObjectKind::kUpload, owners_of(*known));
    }
  }
  if (known && known->size != size) {
    return Error{Code::kConflict,
                 "the file is known with " + std::to_string(known->size.n) + " bytes, not " +
                     std::to_string(size.n),
                 "size", "give the size of the file that has this SHA-256"};
  }
  // Its rows came back from a backup without it.
  const bool lost = known && known->complete && !fs::exists(folder_of(sha256));
  const bool is_own = known && !known->complete && known->owner == who.name;
  if (is_own || (known && known->complete && is_readable && !lost)) return {};
  if (Status s = check_room(options_.room, options_.folder, size, "the file",
                            "free space on the coordinator's disk, or remove datasets");
      !s.ok()) {
    return s.error();
  }
  if (known && !lost) return announce_proof(*known, who.name);
  const FileRecord record{sha256, size, known ? known->owner : who.name, options_.clock(), false};
  if (Status s = commit({record}); !s.ok()) return s.error();
  {
    const MutexLock guard(mutex_);
    files_[sha256] = record;
    uploads_[{sha256, record.owner}].folder = upload_of(sha256);
  }
  return record.owner == who.name ? Status() : announce_proof(record, who.name);
}

Status FileStore::announce_proof(const FileRecord& record, const std::string& by) {
  std::string dropped;
  {
    const MutexLock guard(mutex_);
    const UploadKey key{record.sha256, by};
    if (uploads_.contains(key)) return {};
    if (Status s = check_quota(record.size, by); !s.ok()) return s;
    const auto proofs =
        std::ranges::count_if(uploads_, [&](const auto& entry) { return is_proof(entry.first); });
    if (proofs >= static_cast<std::ptrdiff_t>(kProofsMax)) dropped = drop_oldest_proof();
    Upload& upload = uploads_[key];
    upload.folder = folder_of(record.sha256) + "." + sha256_of(by).substr(0, 16) + ".upload";
    upload.used = options_.clock();
  }
  if (!dropped.empty()) (void)FileReceiver::discard(dropped);
  return {};
}

// Its folder; empty: a thread works on each of them.
std::string FileStore::drop_oldest_proof() {
  auto oldest = uploads_.end();
  for (auto it = uploads_.begin(); it != uploads_.end(); ++it) {
    if (it->second.busy || !is_proof(it->first)) continue;
    if (oldest == uploads_.end() || it->second.used < oldest->second.used) oldest = it;
  }
  if (oldest == uploads_.end()) return {};
  std::string folder = std::move(oldest->second.folder);
  uploads_.erase(oldest);
  return folder;
}

Result<StoredFile> FileStore::begin(const std::string& sha256, Bytes size, const ObjectUser& who) {
  {
    const MutexLock changing(writing_);
    if (Status s = announce(sha256, size, who); !s.ok()) return s.error();
  }
  return with_upload(sha256, who,
                     [](FileReceiver&, const FileRecord&) { return Result<bool>(true); });
}

// Takes the receiver out, so that no lock is held while the disk works.
Result<FileStore::Claimed> FileStore::claim(const std::string& sha256, const ObjectUser& who) {
  const MutexLock guard(mutex_);
  const auto file = files_.find(sha256);
  if (file == files_.end()) return unknown_file(sha256);
  FileRecord record = file->second;
  if (record.complete && may_use(who, ObjectKind::kUpload, owners_of(record))) {
    return Claimed{std::move(record), {}, {}};
  }
  record.complete = false;
  const auto found = uploads_.find({sha256, who.name});
  if (found == uploads_.end()) return unknown_file(sha256);
  Upload& upload = found->second;
  if (upload.busy) {
    return Error{Code::kConflict, "another piece of " + sha256 + " is being written", "",
                 "ask how far it is, and continue there"};
  }
  if (!upload.receiver) close_oldest();
  upload.busy = true;
  upload.used = options_.clock();
  return Claimed{std::move(record), upload.folder, std::move(upload.receiver)};
}

void FileStore::close_oldest() {
  std::size_t open = 0;
  Upload* oldest = nullptr;
  for (auto& [sha256, upload] : uploads_) {
    if (!upload.receiver) continue;
    ++open;
    if (oldest == nullptr || upload.used < oldest->used) oldest = &upload;
  }
  if (open >= kOpenUploadsMax) oldest->receiver.reset();
}

void FileStore::let_go(const UploadKey& key, std::unique_ptr<FileReceiver> receiver) {
  const MutexLock guard(mutex_);
  const auto upload = uploads_.find(key);
  if (upload == uploads_.end()) return;
  upload->second.busy = false;
  upload->second.receiver = std::move(receiver);
}

// `work` says whether the upload may continue; not when its content was another.
Result<StoredFile> FileStore::with_upload(const std::string& sha256, const ObjectUser& who,
                                          const Work& work) {
  auto claimed = claim(sha256, who);
  if (!claimed) return claimed.error();
  const FileRecord& record = claimed->record;
  if (record.complete) return StoredFile{record, record.size};
  std::unique_ptr<FileReceiver>& receiver = claimed->receiver;
  Result<bool> worked = true;
  if (!receiver) {
    auto opened = FileReceiver::open(claimed->folder, {entry_of(record)});
    if (opened) receiver = std::move(opened).value();
    if (!opened) worked = opened.error();
  }
  if (worked.ok()) worked = work(*receiver, record);
  if (worked.ok() && receiver->complete()) {
    auto finished = finish(*claimed, who.name);
    if (finished) return finished;
    worked = finished.error();
  }
  const Bytes received = receiver ? receiver->received() : Bytes();
  const bool goes_on = worked.ok() || worked.error().code == Code::kConflict;
  if (!goes_on) receiver.reset();  // opened again, it reads what the disk has
  let_go({sha256, who.name}, std::move(receiver));
  if (!worked.ok()) return worked.error();
  return StoredFile{record, received};
}

// The content is here. The first person to complete a file owns it; later ones have proved it.
Result<StoredFile> FileStore::finish(Claimed& upload, const std::string& by) {
  const MutexLock changing(writing_);
  const std::string& sha256 = upload.record.sha256;
  const auto now = find(sha256);
  if (!now) return unknown_file(sha256);
  FileRecord record = now->record;
  if (record.complete) {
    if (Status s = add_uploader(sha256, by); !s.ok()) return s.error();
    upload.receiver.reset();
    (void)FileReceiver::discard(upload.folder);
  } else {
    if (Status s = upload.receiver->finish(folder_of(sha256)); !s.ok()) return s.error();
    record.owner = by;
    record.complete = true;
    if (Status s = commit({record}); !s.ok()) return s.error();
  }
  const MutexLock guard(mutex_);
  files_[sha256] = record;
  uploads_.erase({sha256, by});
  return StoredFile{record, record.size};
}

Status FileStore::add_uploader(const std::string& sha256, const std::string& by) {
  std::vector<std::string> names;
  {
    const MutexLock guard(mutex_);
    names = uploaders_[sha256];
  }
  if (names.size() >= kUploadersMax) names.erase(names.begin());
  names.push_back(by);
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  if (Status s = write_file_durably(uploaders_of(sha256), text); !s.ok()) return s;
  const MutexLock guard(mutex_);
  uploaders_[sha256] = std::move(names);
  return {};
}

Result<StoredFile> FileStore::write(const std::string& sha256, Bytes from,
                                    std::span<const std::byte> bytes, const ObjectUser& who) {
  if (bytes.empty() || bytes.size() > kPieceMax) {
    return Error{Code::kInvalidArgument,
                 "a piece has 1 to " + std::to_string(kPieceMax) + " bytes, got " +
                     std::to_string(bytes.size()),
                 "", ""};
  }
  const Bytes count(static_cast<std::int64_t>(bytes.size()));
  if (Status s = check_room(options_.room, options_.folder, count, "the piece",
                            "free space on the coordinator's disk, or remove datasets");
      !s.ok()) {
    return s.error();
  }
  return with_upload(sha256, who, [&](FileReceiver& to, const FileRecord& record) -> Result<bool> {
    if (to.received() != from) {
      return Error{Code::kConflict,
                   "the upload is at byte " + std::to_string(to.received().n) + ", not at " +
                       std::to_string(from.n),
                   "from", "continue there"};
    }
    if (from + count > record.size) {
      return Error{Code::kInvalidArgument,
                   "the file has " + std::to_string(record.size.n) +
                       " bytes, the piece would end "
                       "at " +
                       std::to_string((from + count).n),
                   "from", "send the file that was announced"};
    }
    Status written = to.write(bytes);
    if (written.ok()) return true;
    Error error = written.error();
    // kUnavailable: part of what was there before did not reach the disk.
    if (error.code == Code::kDataLoss || error.code == Code::kUnavailable) {
      error = {Code::kValidation, error.message, "sha256", "send the file that was announced"};
    }
    return error;
  });
}

}  // namespace shoal::coordinator
