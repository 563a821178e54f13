#include "coordinator/service/files/file_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/sha256.h"
#include "coordinator/service/files/file_errors.h"
#include "job/data_rules.h"
#include "job/field_checker.h"
#include "threads/clock.h"
#include "transfer/disk.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kManifestsKept = 256;
constexpr const char* kUploaders = ".uploaders";

Error unknown_dataset(const std::string& name) {
  return {Code::kNotFound, "there is no dataset " + shoal::quoted(name), "",
          "`shoal dataset ls` lists them"};
}

Status remove_tree(const std::string& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  return failure ? disk_error("remove the folder", path, failure.value()) : Status();
}

// None where it cannot be read: further owners prove it again.
std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// What belongs to a known file: its folder, the upload that its owner began, its list of owners.
// Proofs are not continued after a restart.
bool is_kept(const std::string& suffix) {
  static const std::set<std::string> kKept{"", ".list", ".upload", ".upload.list", kUploaders};
  return kKept.contains(suffix);
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
      if (!file.complete) uploads_[{file.sha256, file.owner}].folder = upload_of(file.sha256);
      std::string sha256 = file.sha256;
      files_.emplace(std::move(sha256), std::move(file));
    }
  }
  if (Status s = commit(std::move(gone)); !s.ok()) return s;
  std::vector<std::string> left;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(options_.folder, failure)) {
    const std::string name = entry.path().filename().string();
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string sha256 = name.substr(0, dot), suffix = name.substr(dot);
    if (!known.contains(sha256) || !is_kept(suffix)) {
      left.push_back(entry.path().string());
    } else if (suffix == kUploaders) {
      const MutexLock guard(mutex_);
      uploaders_[sha256] = lines_of(entry.path());
    }
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

// ---- what is here

std::optional<StoredFile> FileStore::find(const std::string& sha256) const {
  const MutexLock guard(mutex_);
  const auto found = files_.find(sha256);
  if (found == files_.end()) return std::nullopt;
  const FileRecord& record = found->second;
  if (record.complete) return StoredFile{record, record.size};
  const auto upload = uploads_.find({sha256, record.owner});
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

std::vector<std::string> FileStore::owners(const std::string& sha256) const {
  const MutexLock guard(mutex_);
  const auto found = files_.find(sha256);
  return found == files_.end() ? std::vector<std::string>() : owners_of(found->second);
}

bool FileStore::may_read(const ObjectUser& who, const std::string& sha256) const {
  const auto all = owners(sha256);
  return !all.empty() && may_use(who, ObjectKind::kUpload, all);
}

bool FileStore::may_read_dataset(const ObjectUser& who, const std::string& hash) const {
  if (!may_read(who, hash)) return false;
  const auto list = manifest(hash);
  return list.ok() && std::ranges::all_of(files_of(hash, **list), [&](const std::string& file) {
           return may_read(who, file);
         });
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
  std::vector<std::string> folders{upload_of(sha256), folder_of(sha256)};
  {
    const MutexLock guard(mutex_);
    const auto first = uploads_.lower_bound({sha256, ""});
    auto last = first;
    for (; last != uploads_.end() && last->first.first == sha256; ++last) {
      if (last->second.busy) {
        return Error{Code::kConflict, "a piece of " + sha256 + " is being written", "",
                     "try again in a moment"};
      }
      folders.push_back(last->second.folder);
    }
    uploads_.erase(first, last);
    uploaders_.erase(sha256);
    manifests_.erase(sha256);
    files_.erase(sha256);
  }
  if (Status s = commit({RemovedFile{sha256}}); !s.ok()) return s;
  // What cannot be removed costs space until the next start.
  for (const std::string& folder : folders) (void)FileReceiver::discard(folder);
  (void)remove_tree(uploaders_of(sha256));
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

Status FileStore::check_tokenizer(const std::string& dataset, const std::string& sha256,
                                  const ObjectUser& who) const {
  if (sha256.empty()) return {};
  const std::string where = "dataset " + dataset + ": its tokenizer " + sha256;
  const auto file = find(sha256);
  if (!file || !may_read(who, sha256)) {
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

Status FileStore::check_files(const std::string& name, const data::Manifest& manifest,
                              const ObjectUser& who) const {
  const auto check = [&](const data::Shard& shard, const std::string& what,
                         const std::string& sha256, std::int64_t bytes) -> Status {
    const auto file = find(sha256);
    const std::string where = "dataset " + name + ", shard " + shard.name + ": " + what + " ";
    if (!file || !may_read(who, sha256)) {
      return Error{Code::kNotFound, where + sha256 + " is not here", "manifest", "upload it first"};
    }
    if (file->record.size.n == bytes) return {};
    return Error{Code::kValidation,
                 where + "has " + std::to_string(file->record.size.n) + " bytes, must have " +
                     std::to_string(bytes),
                 "manifest", "`shoal dataset add` makes a manifest that fits"};
  };
  if (Status s = check_tokenizer(name, manifest.tokenizer, who); !s.ok()) return s;
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
                                             const ObjectUser& who) {
  if (!is_dataset_name(name)) {
    return Error{Code::kValidation,
                 "must be at most 63 lower-case letters, digits, '.', '_' and '-', got " +
                     shoal::quoted(name),
                 "name", "begin with a letter or a digit"};
  }
  if (!may_read(who, hash)) return unknown_file(hash);
  const auto list = manifest(hash);
  if (!list) return list.error();
  if (Status s = check_files(name, **list, who); !s.ok()) return s.error();
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
  const DatasetRecord record{name, hash, who.name, options_.clock()};
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
