#include "coordinator/store/backup.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <fcntl.h>
#include <unistd.h>

#include "base/ids.h"
#include "base/sha256.h"
#include "coordinator/core/records/checkpoint_record.h"
#include "coordinator/store/json_fields.h"
#include "coordinator/store/migrator.h"
#include "coordinator/store/sqlite.h"

namespace shoal::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr int kCopiesMax = 3;  // checkpoints are superseded while they are copied
constexpr const char* kDatabase = "/state.db";
constexpr const char* kCheckpoints = "/checkpoints";
constexpr const char* kStorePointer = ".store";  // beside ckpt_N (checkpoint_bucket.h)
constexpr const char* kAuthority = "/ca.pem";
// As coordinator/service/machines/record_key_file.h has it.
constexpr const char* kRecordKeys = "/record_keys.json";
constexpr const char* kFiles = "/files";      // as coordinator/service/files/file_store.h
constexpr const char* kContent = "/content";  // the only entry of a file's folder

using Checkpoints = std::map<CheckpointId, std::vector<FileEntry>>;

Error cannot(const std::string& what, const std::error_code& failure, const std::string& field) {
  return {Code::kPermissionDenied, what + ": " + failure.message(), field,
          "check the permissions and the free space of that folder"};
}

Status sync_path(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  if (fd >= 0) ::close(fd);
  if (synced) return {};
  return Error{Code::kUnavailable, path + " cannot be written to disk", "--to", "check the disk"};
}

Status make_new_folder(const std::string& to) {
  std::error_code failure;
  if (fs::exists(to, failure) && !fs::is_empty(to, failure)) {
    return Error{Code::kConflict, to + " is not empty", "--to", "name a new folder"};
  }
  fs::create_directories(to, failure);
  if (!failure) fs::permissions(to, fs::perms::owner_all, failure);
  return failure ? Status(cannot(to, failure, "--to")) : Status();
}

Result<std::unique_ptr<Database>> open_database(const std::string& folder,
                                                const std::string& field) {
  std::error_code ignored;
  if (!fs::exists(folder + kDatabase, ignored)) {
    return Error{Code::kNotFound, "there is no state.db in " + folder, field,
                 "name the folder of a coordinator, or of a backup"};
  }
  return Database::open(folder + kDatabase, OpenMode::kReadOnly, Durability::kFull);
}

// The checkpoints that this database names as stored.
Result<Checkpoints> stored_checkpoints(Database& database) {
  auto rows = database.prepare("SELECT id, parts FROM checkpoints WHERE state = 'stored'");
  if (!rows) return rows.error();
  Checkpoints stored;
  for (;;) {
    const auto row = rows->step();
    if (!row) return row.error();
    if (!*row) return stored;
    std::vector<CheckpointPart> parts;
    if (Status read = from_json(rows->text(1), parts); !read.ok()) return read.error();
    std::vector<FileEntry>& files =
        stored[CheckpointId(static_cast<std::uint64_t>(rows->integer(0)))];
    for (const CheckpointPart& part : parts) {
      files.insert(files.end(), part.files.begin(), part.files.end());
    }
  }
}

// Uploaded files that are complete, as this database says; of an older schema none.
Result<std::vector<FileEntry>> uploaded_files(Database& database) {
  const auto known = database.integer(
      "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'files'");
  if (!known) return known.error();
  std::vector<FileEntry> files;
  if (*known == 0) return files;
  auto rows = database.prepare("SELECT sha256, size FROM files WHERE complete = 1 ORDER BY sha256");
  if (!rows) return rows.error();
  for (;;) {
    const auto row = rows->step();
    if (!row) return row.error();
    if (!*row) return files;
    const std::string sha256(rows->text(0));
    files.push_back({sha256 + kContent, Bytes(rows->integer(1)), sha256});
  }
}

// What a database names.
struct Named {
  Checkpoints checkpoints;
  std::vector<FileEntry> files;
};

Result<Named> named_by(Database& database) {
  auto checkpoints = stored_checkpoints(database);
  if (!checkpoints) return checkpoints.error();
  auto files = uploaded_files(database);
  if (!files) return files.error();
  return Named{std::move(*checkpoints), std::move(*files)};
}

// Marks the copy as a backup, so that a coordinator that starts on it knows that the cluster has
// moved on since. A database that this version has not migrated yet cannot be marked.
Status mark(const std::string& path) {
  auto copy = Database::open(path, OpenMode::kReadWrite, Durability::kFull);
  if (!copy) return copy.error();
  const auto can = (*copy)->integer(
      "SELECT count(*) FROM pragma_table_info('counters') WHERE name = 'backup_at_ns'");
  if (!can) return can.error();
  const char* say = "UPDATE counters SET backup_at_ns = unixepoch() * 1000000000;";
  if (*can > 0) {
    if (Status said = (*copy)->exec(say); !said.ok()) return said;
  }
  return (*copy)->exec("PRAGMA journal_mode = DELETE");
}

Result<Named> copy_database(const std::string& data_dir, const std::string& to) {
  std::error_code ignored;
  fs::remove(to + kDatabase, ignored);
  auto source = open_database(data_dir, "--data-dir");
  if (!source) return source.error();
  if (Status copied = (*source)->copy_to(to + kDatabase); !copied.ok()) return copied.error();
  if (Status marked = mark(to + kDatabase); !marked.ok()) return marked.error();
  if (Status synced = sync_path(to + kDatabase); !synced.ok()) return synced.error();
  auto copy = open_database(to, "--to");
  if (!copy) return copy.error();
  return named_by(**copy);
}

// False: the checkpoint is not there any more.
Result<bool> copy_checkpoint(const std::string& from, const std::string& to, BackupReport& report) {
  std::error_code failure;
  if (fs::exists(to, failure)) return true;  // by the copy before
  fs::remove_all(to + ".partial", failure);
  fs::copy(from, to + ".partial", fs::copy_options::recursive, failure);
  if (failure && !fs::exists(from)) return false;
  if (failure) return cannot(from, failure, "--to");
  for (const auto& file : fs::recursive_directory_iterator(to + ".partial", failure)) {
    if (!file.is_regular_file()) continue;
    if (Status synced = sync_path(file.path()); !synced.ok()) return synced.error();
    report.bytes += Bytes(static_cast<std::int64_t>(file.file_size()));
  }
  fs::rename(to + ".partial", to, failure);
  if (failure) return cannot(to, failure, "--to");
  ++report.checkpoints;
  return true;
}

// Returns those that are not there (any more).
Result<std::vector<std::string>> copy_checkpoints(const std::string& data_dir,
                                                  const std::string& to, const Checkpoints& stored,
                                                  BackupReport& report) {
  std::error_code failure;
  fs::create_directories(to + kCheckpoints, failure);
  if (failure) return cannot(to + kCheckpoints, failure, "--to");
  std::vector<std::string> missing;
  report.in_store = 0;
  for (const auto& [id, files] : stored) {
    const std::string name = std::string(kCheckpoints) + "/" + to_string(id);
    // A checkpoint in an object store has only its place here; the store keeps its files.
    if (fs::exists(data_dir + name + kStorePointer, failure)) {
      fs::copy_file(data_dir + name + kStorePointer, to + name + kStorePointer,
                    fs::copy_options::overwrite_existing, failure);
      if (failure) return cannot(to + name + kStorePointer, failure, "--to");
      ++report.in_store;
      continue;
    }
    auto copied = copy_checkpoint(data_dir + name, to + name, report);
    if (!copied) return copied.error();
    if (!*copied) missing.push_back(to_string(id));
  }
  return missing;
}

// Returns those that are not there (any more). Their content never changes.
Result<std::vector<std::string>> copy_files(const std::string& data_dir, const std::string& to,
                                            const std::vector<FileEntry>& files,
                                            BackupReport& report) {
  std::vector<std::string> missing;
  for (const FileEntry& file : files) {
    const std::string from = data_dir + kFiles + "/" + file.path;
    const std::string copy = to + kFiles + "/" + file.path;
    ++report.files;
    report.bytes += file.size;
    std::error_code failure;
    if (fs::exists(copy, failure)) continue;  // by the copy before
    fs::create_directories(fs::path(copy).parent_path(), failure);
    if (failure) return cannot(copy, failure, "--to");
    const std::string partial = copy + ".partial";
    fs::copy_file(from, partial, fs::copy_options::overwrite_existing, failure);
    if (failure && !fs::exists(from)) {
      missing.push_back("the uploaded file " + file.sha256);
      continue;
    }
    if (failure) return cannot(from, failure, "--to");
    if (Status synced = sync_path(partial); !synced.ok()) return synced.error();
    fs::rename(partial, copy, failure);
    if (failure) return cannot(copy, failure, "--to");
  }
  return missing;
}

Status copy_secret(const std::string& from, const std::string& to) {
  std::error_code failure;
  fs::copy_file(from, to, failure);
  if (failure) return cannot(from, failure, "--data-dir");
  fs::permissions(to, fs::perms::owner_read | fs::perms::owner_write, failure);
  return failure ? Status(cannot(to, failure, "--to")) : sync_path(to);
}

// A folder that no coordinator with record keys has served yet has none.
Status copy_secrets(const std::string& data_dir, const std::string& to) {
  if (Status ca = copy_secret(data_dir + kAuthority, to + kAuthority); !ca.ok()) return ca;
  if (std::error_code unseen; !fs::exists(data_dir + kRecordKeys, unseen)) return {};
  return copy_secret(data_dir + kRecordKeys, to + kRecordKeys);
}

// ---- checking

Result<std::string> hash_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 sha;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    sha.add(std::as_bytes(std::span(buffer.data(), static_cast<std::size_t>(file.gcount()))));
  }
  if (file.bad()) return Error{Code::kDataLoss, path + " cannot be read", "", "check the disk"};
  return sha.finish();
}

void check_file(const std::string& folder, const FileEntry& file, BackupCheck& check) {
  const std::string path = folder + "/" + file.path;
  std::error_code failure;
  const auto size = fs::file_size(path, failure);
  if (failure)
    return check.problems.push_back(path + " is missing: copy it, or take another backup");
  if (static_cast<std::int64_t>(size) != file.size.count()) {
    return check.problems.push_back(path + " has " + std::to_string(size) + " bytes, not " +
                                    std::to_string(file.size.count()) + ": copy it again");
  }
  const auto hash = hash_of(path);
  if (!hash) return check.problems.push_back(to_string(hash.error()));
  if (*hash != file.sha256) {
    return check.problems.push_back(path + " is damaged (other SHA-256): copy it again");
  }
  check.content.bytes += file.size;
}

void check_leftovers(const std::string& folder, BackupCheck& check) {
  for (const char* name : {"/state.db-wal", "/state.db-shm"}) {
    std::error_code ignored;
    if (!fs::exists(folder + name, ignored)) continue;
    check.problems.push_back(folder + name + " belongs to another database: delete it");
  }
}

void check_rights(const std::string& path, BackupCheck& check) {
  std::error_code failure;
  const auto rights = fs::status(path, failure).permissions();
  const auto others = fs::perms::group_all | fs::perms::others_all;
  if (!failure && fs::exists(path, failure) && (rights & others) != fs::perms::none) {
    check.problems.push_back(path + " can be read by others: chmod 600");
  }
}

void check_secrets(const std::string& folder, BackupCheck& check) {
  std::error_code failure;
  if (!fs::exists(folder + kAuthority, failure)) {
    check.problems.push_back(folder + kAuthority +
                             " is missing: no agent would be believed; copy it");
  }
  check_rights(folder + kAuthority, check);
  check_rights(folder + kRecordKeys, check);
}

Status check_database(Database& database, BackupCheck& check) {
  auto integrity = database.prepare("PRAGMA integrity_check");
  if (!integrity) return integrity.error();
  const auto row = integrity->step();
  if (!row) return row.error();
  if (!*row || integrity->text(0) != "ok") {
    check.problems.push_back("state.db is damaged: " + std::string(integrity->text(0)) +
                             "; take an older backup");
  }
  const auto version = database.integer("PRAGMA user_version");
  if (!version) return version.error();
  const int newest = embedded_migrations().back().version;
  if (*version > newest) {
    check.problems.push_back("state.db has schema version " + std::to_string(*version) +
                             ", this binary knows versions up to " + std::to_string(newest) +
                             ": use the newer Shoal");
  }
  return {};
}

Status list_jobs(Database& database, BackupCheck& check) {
  auto rows = database.prepare(
      "SELECT id, json_extract(spec, '$.name'), phase, committed_round, (SELECT max(c.id) FROM "
      "checkpoints c WHERE c.job = jobs.id AND c.state = 'stored') FROM jobs ORDER BY id");
  if (!rows) return rows.error();
  for (;;) {
    const auto row = rows->step();
    if (!row) return row.error();
    if (!*row) return {};
    const std::string newest =
        rows->is_null(4)
            ? "no checkpoint"
            : "newest checkpoint " +
                  to_string(CheckpointId(static_cast<std::uint64_t>(rows->integer(4))));
    check.jobs.push_back(to_string(JobId(static_cast<std::uint64_t>(rows->integer(0)))) + " " +
                         std::string(rows->text(1)) + " " + std::string(rows->text(2)) +
                         ", round " + std::to_string(rows->integer(3)) + ", " + newest);
  }
}

}  // namespace

Result<BackupReport> back_up_folder(const std::string& data_dir, const std::string& to) {
  if (Status made = make_new_folder(to); !made.ok()) return made.error();
  for (int copy = 1;; ++copy) {
    const auto stored = copy_database(data_dir, to);
    if (!stored) return stored.error();
    BackupReport report;
    auto missing = copy_checkpoints(data_dir, to, stored->checkpoints, report);
    if (!missing) return missing.error();
    const auto files = copy_files(data_dir, to, stored->files, report);
    if (!files) return files.error();
    missing->insert(missing->end(), files->begin(), files->end());
    if (!missing->empty() && copy < kCopiesMax) continue;  // it was removed meanwhile
    if (!missing->empty()) {
      return Error{Code::kDataLoss,
                   missing->front() + ", which state.db names as stored, is not in " + data_dir,
                   "--data-dir", "put it back, from an earlier backup"};
    }
    if (Status copied = copy_secrets(data_dir, to); !copied.ok()) return copied.error();
    if (Status synced = sync_path(to); !synced.ok()) return synced.error();
    return report;
  }
}

Result<BackupCheck> check_backup(const std::string& folder) {
  BackupCheck check;
  check_leftovers(folder, check);
  auto database = open_database(folder, "FOLDER");
  if (!database) return database.error();
  if (Status checked = check_database(**database, check); !checked.ok()) return checked.error();
  check_secrets(folder, check);
  const auto stored = named_by(**database);
  if (!stored) return stored.error();
  for (const FileEntry& file : stored->files) check_file(folder + kFiles, file, check);
  check.content.files = std::ssize(stored->files);
  for (const auto& [id, files] : stored->checkpoints) {
    const std::string path = folder + kCheckpoints + "/" + to_string(id);
    if (std::error_code unseen; fs::exists(path + kStorePointer, unseen)) {
      ++check.content.in_store;
      continue;
    }
    ++check.content.checkpoints;
    for (const FileEntry& file : files) {
      check_file(path, file, check);
    }
  }
  if (Status listed = list_jobs(**database, check); !listed.ok()) return listed.error();
  return check;
}

}  // namespace shoal::coordinator
