#include "agent/host/data_folder.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/core/io.h"
#include "agent/host/roster.h"
#include "base/text.h"
#include "transfer/file_receiver.h"
#include "transfer/files.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "give another --data-dir";

Error failed(const std::string& what, const std::string& path, const std::string& why) {
  return {Code::kUnavailable, "cannot " + what + " " + path + ": " + why, "--data-dir", kRemedy};
}

// The folder stays.
void remove_content(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    fs::remove_all(entry.path(), ignored);
  }
}

bool is_named(const fs::directory_entry& entry, std::string_view prefix) {
  std::error_code ignored;
  return entry.path().filename().string().starts_with(prefix) && !entry.is_symlink(ignored) &&
         entry.is_directory(ignored);
}

// Folders of replicas stay: a confined program that lives on may write into this very folder
// (confinement.h).
void remove_written(const fs::path& written) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(written, ignored)) {
    if (is_named(entry, "rep_")) {
      remove_content(entry.path());
    } else {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

}  // namespace

Result<std::unique_ptr<DataFolder>> DataFolder::open(const std::string& path) {
  std::unique_ptr<DataFolder> folder(new DataFolder());
  std::error_code error;
  folder->path_ = fs::absolute(path, error).lexically_normal().string();
  if (folder->path_.size() > 1 && folder->path_.ends_with('/')) folder->path_.pop_back();
  const bool created = fs::create_directories(folder->path_, error);
  if (error) return failed("create", folder->path_, error.message());
  if (::access(folder->path_.c_str(), W_OK) != 0)
    return failed("write to", folder->path_, std::strerror(errno));
  if (created) fs::permissions(folder->path_, fs::perms::owner_all, error);
  if (Status locked = folder->lock(); !locked.ok()) return locked.error();
  for (const char* inside : {kFetchedFolder, kWrittenFolder, "code", "logs"}) {
    fs::create_directories(folder->path_ + "/" + inside, error);
    if (error) return failed("write to", folder->path_, error.message());
  }
  remove_written(folder->path_ + "/" + kWrittenFolder);
  if (Status kept = folder->keep_fetched(); !kept.ok()) return kept.error();
  if (Status read = folder->read_or_make_uid(); !read.ok()) return read.error();
  if (Status chosen = folder->choose_socket_path(); !chosen.ok()) return chosen.error();
  return folder;
}

Status DataFolder::let_in(const ProgramUser& user) const {
  for (const std::string inside : {"", "code", "scratch", kFetchedFolder, kWrittenFolder}) {
    std::error_code error;
    const std::string way = inside.empty() ? path_ : path_ + "/" + inside;
    fs::create_directories(way, error);
    if (Status s = let_pass(way, user); !s.ok()) return s;
  }
  return private_folder_.empty() ? Status() : let_pass(private_folder_, user);
}

std::string DataFolder::fetched_folder(JobId job) const {
  return path_ + "/" + kFetchedFolder + "/" + to_string(job);
}

std::string DataFolder::written_folder(ReplicaId replica) const {
  return path_ + "/" + kWrittenFolder + "/" + to_string(replica);
}

void DataFolder::keep_folders_of(const std::vector<TrainerIdentity>& running,
                                 bool also_fetched) const {
  std::set<fs::path> kept;
  for (const TrainerIdentity& identity : running) {
    kept.insert(fetched_folder(identity.job));
    kept.insert(written_folder(identity.replica));
  }
  for (const char* all : {kWrittenFolder, kFetchedFolder}) {
    if (all == kFetchedFolder && !also_fetched) continue;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path_ + "/" + all, ignored)) {
      if (!kept.contains(entry.path())) fs::remove(entry.path(), ignored);  // if it is empty
    }
  }
}

// A later fetch finds these files in the form of a partial transfer.
Status DataFolder::keep_fetched() const {
  std::vector<std::string> whole;
  std::error_code error;
  for (const auto& job : fs::directory_iterator(path_ + "/" + kFetchedFolder, error)) {
    std::error_code ignored;
    if (!is_named(job, "job_")) {  // of a version that had all of them in one folder
      fs::remove_all(job.path(), ignored);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(job.path(), ignored)) {
      const bool part = entry.path().extension() == ".part";
      if (entry.is_directory(ignored) && !part) whole.push_back(entry.path().string());
    }
  }
  if (error) return failed("list", path_, error.message());
  for (const std::string& folder : whole) {
    if (Status s = FileReceiver::take_back(folder, folder + ".part"); !s.ok()) return s;
  }
  return {};
}

DataFolder::~DataFolder() {
  std::error_code ignored;
  if (!socket_path_.empty()) fs::remove(socket_path_, ignored);
  if (!private_folder_.empty()) fs::remove(private_folder_, ignored);
}

Status DataFolder::lock() {
  lock_ = std::make_unique<FileLock>(path_, O_RDONLY | O_DIRECTORY);
  if (lock_->held()) return {};
  if (!lock_->is_taken()) return failed("lock", path_, std::strerror(lock_->failure()));
  return Error{Code::kConflict, "another agent already runs on " + path_, "--data-dir",
               "stop it, or give this one its own --data-dir"};
}

Status DataFolder::read_or_make_uid() {
  const std::string file = path_ + "/agent_id";
  if (std::ifstream in(file); in) {
    std::getline(in, uid_);
    if (is_hex(uid_, 32)) return {};
    return Error{Code::kDataLoss, file + " does not hold an agent's id (32 hex characters)",
                 "--data-dir", "remove the file to join as a new agent"};
  }
  uid_ = random_hex();
  return write_file_durably(file, uid_ + "\n");
}

Status DataFolder::choose_socket_path() {
  socket_path_ = path_ + "/trainer.sock";
  if (socket_path_.size() >= sizeof(sockaddr_un::sun_path)) {
    if (Status made = make_private_folder(); !made.ok()) return made;
    socket_path_ = private_folder_ + "/trainer.sock";
  }
  std::error_code ignored;
  fs::remove(socket_path_, ignored);  // of a daemon that was killed
  return {};
}

// Makes the folder in which trainers look for the socket: the same one at each start. Refuses a
// folder that another user has made.
Status DataFolder::make_private_folder() {
  const std::string folder = "/tmp/shoal-agent-" + uid_;
  struct stat info {};
  const bool made = mkdir(folder.c_str(), 0700) == 0;
  const int why = made ? 0 : errno;
  if (!made && why != EEXIST) return failed("create", folder, std::strerror(why));
  const bool own = lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                   info.st_uid == geteuid() && (info.st_mode & 067) == 0;
  if (!own) return failed("use", folder, "it is not a folder of this user alone");
  private_folder_ = folder;
  return {};
}

std::string DataFolder::journal_path() const { return path_ + "/logs/agent.log"; }
std::string DataFolder::roster_path() const { return path_ + "/trainers"; }

std::string DataFolder::output_path(std::int32_t slot) const {
  return path_ + "/logs/trainer-" + std::to_string(slot) + ".log";
}

}  // namespace shoal::agent
