#include "coordinator/service/files/file_store.h"

#include <algorithm>
#include <filesystem>
#include <future>

#include "base/number_text.h"
#include "base/sha256.h"
#include "job/data_rules.h"
#include "job/field_checker.h"
#include "threads/clock.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSizeMax = std::int64_t{1} << 50;
constexpr std::size_t kManifestsKept = 256;

Error unknown_file(const std::string& sha256) {
  return {Code::kNotFound, "there is no file " + sha256, "",
          "announce it with POST /api/v1/files, and upload it"};
}

Error unknown_dataset(const std::string& name) {
  return {Code::kNotFound, "there is no dataset " + shoal::quoted(name), "",
          "`shoal dataset ls` lists them"};
}

std::string text_of(Bytes bytes) { return size_text(static_cast<double>(bytes.count())); }

FileEntry entry_of(const FileRecord& record) {
  return {FileStore::kContent, record.size, record.sha256};
}

Status remove_tree(const std::string& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  return failure ? disk_error("remove the folder", path, failure.value()) : Status();
}

}  // namespace

// ---- the start

Result<std::unique_ptr<FileStore>> FileStore::open(FileStoreOptions options, Store& store) {
  if (!options.clock) options.clock = unix_now;
  std::error_code failure;
  fs::create_directories(options.folder, failure);
  if (failure) return disk_error("make the folder", options.folder, failure.value());
  auto tables = store.load_files();
  if (!tables) return tables.error();
  std::unique_ptr<FileStore> files(new FileStore(std::move(options), store));
  if (Status s = files->take_stock(std::move(tables).value()); !s.ok()) return s.error();
  return files;
}

Status FileStore::take_stock(FileTables tables) {
  const MutexLock changing(writing_);
  const Instant old = options_.clock() - kUploadLife;
  std::vector<FileRow> gone;
  std::set<std::string> known;
  {
    const MutexLock guard(mutex_);
    for (DatasetRecord& dataset : tables.datasets) {
      std::string name = dataset.name;
      datasets_.emplace(std::move(name), std::move(dataset));
    }
    for (FileRecord& file : tables.files) {
      if (!file.complete && file.created < old) {
        gone.push_back(RemovedFile{file.sha256});
        continue;
      }
      known.insert(file.sha256);
      if (!file.complete) uploads_[file.sha256];
      std::string sha256 = file.sha256;
      files_.emplace(std::move(sha256), std::move(file));
    }
  }
  if (Status s = commit(std::move(gone)); !s.ok()) return s;
  std::vector<std::string> left;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(options_.folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (!known.contains(name.substr(0, name.find('.')))) left.push_back(entry.path().string());
  }
  if (failure) return disk_error("list the folder", options_.folder, failure.value());
  for (const std::string& path : left) {
    if (Status s = remove_tree(path); !s.ok()) return s;
  }
  return {};
}

Status FileStore::commit(std::vector<FileRow> rows) {
  if (rows.empty()) return {};
  auto written = std::make_shared<std::promise<Status>>();
  auto done = written->get_future();
  store_.write_files(std::move(rows), [written](Status s) { written->set_value(std::move(s)); });
  return done.get();  // the store answers every batch, also when its disk is full
}

// ---- uploads

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
  Bytes kept;
  for (const auto& [hash, file] : files_) {
    if (file.owner == owner) kept += file.size;
  }
  if (options_.each_owner.n == 0 || kept + size <= options_.each_owner) return {};
  return Error{Code::kValidation,
               owner + " keeps " + text_of(kept) + " of files; with " + text_of(size) +
                   " more that would be over the limit of " + text_of(options_.each_owner),
               "size", "remove datasets, or ask for a larger --file-quota-gib"};
}

Result<StoredFile> FileStore::begin(const std::string& sha256, Bytes size,
                                    const std::string& owner) {
  {
    const MutexLock changing(writing_);
    std::optional<FileRecord> known;
    {
      const MutexLock guard(mutex_);
      const auto found = files_.find(sha256);
      if (found != files_.end()) known = found->second;
      if (!known) {
        if (Status s = check_begin(sha256, size, owner); !s.ok()) return s.error();
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
    if (known && known->complete && !lost) return StoredFile{*known, size};
    if (!known || lost) {
      if (Status s = check_room(options_.room, options_.folder, size, "the file",
                                "free space on the coordinator's disk, or remove datasets");
          !s.ok()) {
        return s.error();
      }
      const FileRecord record{sha256, size, known ? known->owner : owner, options_.clock(), false};
      if (Status s = commit({record}); !s.ok()) return s.error();
      const MutexLock guard(mutex_);
      files_[sha256] = record;
      uploads_[sha256];
    }
  }
  return with_upload(sha256, [](FileReceiver&, const FileRecord&) { return Result<bool>(true); });
}

// Takes the receiver out, so that no lock is held while the disk works.
Result<FileRecord> FileStore::claim(const std::string& sha256,
                                    std::unique_ptr<FileReceiver>& receiver) {
  const MutexLock guard(mutex_);
  const auto file = files_.find(sha256);
  if (file == files_.end()) return unknown_file(sha256);
  if (file->second.complete) return file->second;
  Upload& upload = uploads_[sha256];
  if (upload.busy) {
    return Error{Code::kConflict, "another piece of " + sha256 + " is being written", "",
                 "ask how far it is, and continue there"};
  }
  if (!upload.receiver) close_oldest();
  upload.busy = true;
  upload.used = options_.clock();
  receiver = std::move(upload.receiver);
  return file->second;
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

void FileStore::let_go(const std::string& sha256, std::unique_ptr<FileReceiver> receiver) {
  const MutexLock guard(mutex_);
  const auto upload = uploads_.find(sha256);
  if (upload == uploads_.end()) return;
  upload->second.busy = false;
  upload->second.receiver = std::move(receiver);
}

// `work` says whether the upload may continue; not when its content was another.
Result<StoredFile> FileStore::with_upload(
    const std::string& sha256,
    const std::function<Result<bool>(FileReceiver&, const FileRecord&)>& work) {
  std::unique_ptr<FileReceiver> receiver;
  const auto record = claim(sha256, receiver);
  if (!record) return record.error();
  if (record->complete) return StoredFile{*record, record->size};
  Result<bool> worked = true;
  if (!receiver) {
    auto opened = FileReceiver::open(upload_of(sha256), {entry_of(*record)});
    if (opened) receiver = std::move(opened).value();
    if (!opened) worked = opened.error();
  }
  if (worked.ok()) worked = work(*receiver, *record);
  if (worked.ok() && receiver->complete()) {
    const Status placed = receiver->finish(folder_of(sha256));
    if (placed.ok()) return finish(*record);
    worked = placed.error();
  }
  const Bytes received = receiver ? receiver->received() : Bytes();
  const bool goes_on = worked.ok() || worked.error().code == Code::kConflict;
  if (!goes_on) receiver.reset();  // opened again, it reads what the disk has
  let_go(sha256, std::move(receiver));
  if (!worked.ok()) return worked.error();
  return StoredFile{*record, received};
}

Result<StoredFile> FileStore::finish(FileRecord record) {
  const MutexLock changing(writing_);
  record.complete = true;
  if (Status s = commit({record}); !s.ok()) return s.error();
  const MutexLock guard(mutex_);
  files_[record.sha256] = record;
  uploads_.erase(record.sha256);
  return StoredFile{record, record.size};
}

Result<StoredFile> FileStore::write(const std::string& sha256, Bytes from,
                                    std::span<const std::byte> bytes) {
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
  return with_upload(sha256, [&](FileReceiver& to, const FileRecord& record) -> Result<bool> {
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

// ---- what is here

std::optional<StoredFile> FileStore::find(const std::string& sha256) const {
  const MutexLock guard(mutex_);
  const auto found = files_.find(sha256);
  if (found == files_.end()) return std::nullopt;
  const FileRecord& record = found->second;
  if (record.complete) return StoredFile{record, record.size};
  const auto upload = uploads_.find(sha256);
  const bool open = upload != uploads_.end() && upload->second.receiver;
  return StoredFile{record, open ? upload->second.receiver->received() : Bytes()};
}

std::vector<StoredFile> FileStore::files() const {
  std::vector<std::string> names;
  {
    const MutexLock guard(mutex_);
    for (const auto& [sha256, file] : files_) names.push_back(sha256);
  }
  std::vector<StoredFile> all;
  for (const std::string& sha256 : names) {
    if (auto file = find(sha256)) all.push_back(std::move(*file));
  }
  return all;
}

Result<std::string> FileStore::read_whole(const std::string& sha256) const {
  const auto file = find(sha256);
  if (!file || !file->record.complete) return unknown_file(sha256);
  if (file->record.size.n > static_cast<std::int64_t>(data::kManifestBytesMax)) {
    return Error{Code::kValidation, "the file " + sha256 + " is too long to be read at once", "",
                 "read it by ranges"};
  }
  std::string text;
  Status read = read_files(folder_of(sha256), {entry_of(file->record)}, {},
                           [&](std::span<const std::byte> piece) {
                             text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
                             return true;
                           });
  if (!read.ok()) return read.error();
  if (sha256_of(text) == sha256) return text;
  return Error{Code::kDataLoss, "the stored file " + sha256 + " has another content", "",
               "upload it again after `shoal dataset rm`"};
}

Status FileStore::verify(const std::string& sha256) const {
  const auto file = find(sha256);
  if (!file || !file->record.complete) return unknown_file(sha256);
  Sha256 hash;
  Status read = read_files(folder_of(sha256), {entry_of(file->record)}, {},
                           [&](std::span<const std::byte> piece) {
                             hash.add(piece);
                             return true;
                           });
  if (!read.ok()) return read;
  const std::string found = hash.finish();
  if (found == sha256) return {};
  return Error{Code::kDataLoss, "the stored file " + sha256 + " has the SHA-256 " + found, "",
               "remove the dataset, and add it again"};
}

std::map<std::string, std::string> FileStore::uses(const FileUses& jobs) const {
  std::map<std::string, std::string> used;
  const auto add = [&](const std::string& hash, const std::string& by) {
    used.emplace(hash, by);
    const auto list = manifest(hash);
    if (!list) return;  // code of a job, or a manifest that is gone
    for (const std::string& file : files_of(hash, **list)) used.emplace(file, by);
  };
  for (const DatasetRecord& dataset : datasets()) {
    add(dataset.manifest, "dataset " + dataset.name);
  }
  for (const auto& [hash, job] : jobs) add(hash, "job " + job);
  return used;
}

Status FileStore::drop(const std::string& sha256) {
  {
    const MutexLock guard(mutex_);
    const auto upload = uploads_.find(sha256);
    if (upload != uploads_.end() && upload->second.busy) {
      return Error{Code::kConflict, "a piece of " + sha256 + " is being written", "",
                   "try again in a moment"};
    }
    uploads_.erase(sha256);
    manifests_.erase(sha256);
    files_.erase(sha256);
  }
  if (Status s = commit({RemovedFile{sha256}}); !s.ok()) return s;
  // What cannot be removed costs space until the next start.
  (void)FileReceiver::discard(upload_of(sha256));
  (void)FileReceiver::discard(folder_of(sha256));
  return {};
}

Result<FileRecord> FileStore::remove(const std::string& sha256, const FileUses& jobs) {
  const auto used = uses(jobs);
  const auto user = used.find(sha256);
  if (user != used.end()) {
    return Error{Code::kConflict, "the file " + sha256 + " is used by " + user->second, "",
                 "end or remove that first"};
  }
  const MutexLock changing(writing_);
  const auto file = find(sha256);
  if (!file) return unknown_file(sha256);
  if (Status s = drop(sha256); !s.ok()) return s.error();
  return file->record;
}

// ---- datasets

std::set<std::string> FileStore::files_of(const std::string& manifest_sha256,
                                          const data::Manifest& manifest) {
  std::set<std::string> files{manifest_sha256};
  if (!manifest.tokenizer.empty()) files.insert(manifest.tokenizer);
  for (const data::Shard& shard : manifest.shards) {
    files.insert(shard.chunks);
    if (shard.url.empty()) files.insert(shard.sha256);
  }
  return files;
}

Result<std::shared_ptr<const data::Manifest>> FileStore::manifest(const std::string& sha256) const {
  {
    const MutexLock guard(mutex_);
    const auto known = manifests_.find(sha256);
    if (known != manifests_.end()) return known->second;
  }
  const auto text = read_whole(sha256);
  if (!text) return text.error();
  auto read = data::parse_manifest(*text);
  if (!read) return read.error();
  auto manifest = std::make_shared<const data::Manifest>(std::move(read).value());
  const MutexLock guard(mutex_);
  if (manifests_.size() >= kManifestsKept) manifests_.erase(manifests_.begin());
  manifests_.emplace(sha256, manifest);
  return manifest;
}

Status FileStore::check_tokenizer(const std::string& dataset, const std::string& sha256) const {
  if (sha256.empty()) return {};
  const std::string where = "dataset " + dataset + ": its tokenizer " + sha256;
  const auto file = find(sha256);
  if (!file || !file->record.complete) {
    return Error{Code::kNotFound, where + " is not here", "manifest", "upload it first"};
  }
  if (file->record.size <= Bytes(data::kManifestBytesMax)) return {};
  return Error{Code::kValidation, where + " is longer than 64 MiB", "manifest",
               "make a dataset of fewer, larger shards"};
}

Status FileStore::check_url(const std::string& dataset, const data::Shard& shard) const {
  if (shard.url.empty() || !options_.check_url) return {};
  const Status checked = options_.check_url(shard.url);
  if (checked.ok()) return {};
  Error error = checked.error();
  error.message = "dataset " + dataset + ", shard " + shard.name + ": " + error.message;
  return error;
}

Status FileStore::check_files(const std::string& name, const data::Manifest& manifest) const {
  const auto check = [&](const data::Shard& shard, const std::string& what,
                         const std::string& sha256, std::int64_t bytes) -> Status {
    const auto file = find(sha256);
    const std::string where = "dataset " + name + ", shard " + shard.name + ": " + what + " ";
    if (!file || !file->record.complete) {
      return Error{Code::kNotFound, where + sha256 + " is not here", "manifest", "upload it first"};
    }
    if (file->record.size.n == bytes) return {};
    return Error{Code::kValidation,
                 where + "has " + std::to_string(file->record.size.n) + " bytes, must have " +
                     std::to_string(bytes),
                 "manifest", "`shoal dataset add` makes a manifest that fits"};
  };
  if (Status s = check_tokenizer(name, manifest.tokenizer); !s.ok()) return s;
  for (const data::Shard& shard : manifest.shards) {
    const std::int64_t hashes = data::chunk_count(shard, manifest.chunk_bytes) *
                                static_cast<std::int64_t>(data::kHashBytes);
    if (Status s = check(shard, "the list of hashes", shard.chunks, hashes); !s.ok()) return s;
    if (Status s = check_url(name, shard); !s.ok()) return s;
    if (!shard.url.empty()) continue;
    if (Status s = check(shard, "the content", shard.sha256, shard.bytes); !s.ok()) return s;
  }
  return {};
}

Result<DatasetRecord> FileStore::add_dataset(const std::string& name, const std::string& hash,
                                             const std::string& owner) {
  if (!is_dataset_name(name)) {
    return Error{Code::kValidation,
                 "must be at most 63 lower-case letters, digits, '.', '_' and '-', got " +
                     shoal::quoted(name),
                 "name", "begin with a letter or a digit"};
  }
  const auto list = manifest(hash);
  if (!list) return list.error();
  if (Status s = check_files(name, **list); !s.ok()) return s.error();
  const MutexLock changing(writing_);
  if (const auto known = dataset(name)) {
    if (known->manifest == hash) return *known;
    return Error{Code::kConflict, "there is a dataset " + name + " with another content", "name",
                 "choose another name, or remove it with `shoal dataset rm " + name + "`"};
  }
  if (datasets().size() >= kDatasetsMax) {
    return Error{Code::kResourceExhausted,
                 "there are " + std::to_string(kDatasetsMax) + " datasets, the most that are kept",
                 "name", "remove datasets that no job uses"};
  }
  const DatasetRecord record{name, hash, owner, options_.clock()};
  if (Status s = commit({record}); !s.ok()) return s.error();
  const MutexLock guard(mutex_);
  datasets_[name] = record;
  return record;
}

std::optional<DatasetRecord> FileStore::dataset(const std::string& name) const {
  const MutexLock guard(mutex_);
  const auto found = datasets_.find(name);
  return found == datasets_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<DatasetRecord> FileStore::datasets() const {
  const MutexLock guard(mutex_);
  std::vector<DatasetRecord> all;
  for (const auto& [name, dataset] : datasets_) all.push_back(dataset);
  return all;
}

Result<DatasetRecord> FileStore::remove_dataset(const std::string& name, const FileUses& jobs) {
  const MutexLock changing(writing_);
  const auto known = dataset(name);
  if (!known) return unknown_dataset(name);
  if (const auto job = jobs.find(known->manifest); job != jobs.end()) {
    return Error{Code::kConflict, "job " + job->second + " trains on dataset " + name, "",
                 "wait until it has ended, or cancel it"};
  }
  const auto list = manifest(known->manifest);
  if (Status s = commit({RemovedDataset{name}}); !s.ok()) return s.error();
  {
    const MutexLock guard(mutex_);
    datasets_.erase(name);
  }
  const auto used = uses(jobs);
  std::set<std::string> mine{known->manifest};
  if (list) mine = files_of(known->manifest, **list);
  for (const std::string& file : mine) {
    if (used.contains(file) || !find(file)) continue;
    if (Status s = drop(file); !s.ok()) return s.error();
  }
  return *known;
}

}  // namespace shoal::coordinator
