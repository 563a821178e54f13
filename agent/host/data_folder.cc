#include "agent/host/data_folder.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/core/io.h"
#include "agent/host/checkpoint_files.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "give another --data-dir";

Error failed(const std::string& what, const std::string& path, const std::string& why) {
  return {Code::kUnavailable, "cannot " + what + " " + path + ": " + why, "--data-dir", kRemedy};
}

std::string random_uid() {
  std::random_device device;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string uid;
  for (int i = 0; i < 4; ++i) {
    unsigned word = device();
    for (int j = 0; j < 8; ++j, word >>= 4) uid += kDigits[word & 15];
  }
  return uid;
}

bool is_uid(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Result<std::unique_ptr<DataFolder>> DataFolder::open(const std::string& path) {
  std::unique_ptr<DataFolder> folder(new DataFolder());
  std::error_code error;
  folder->path_ = fs::absolute(path, error).lexically_normal().string();
  if (folder->path_.size() > 1 && folder->path_.ends_with('/')) folder->path_.pop_back();
  const bool created = fs::create_directories(folder->path_, error);
  if (error) return failed("create", folder->path_, error.message());
  if (created) fs::permissions(folder->path_, fs::perms::owner_all, error);
  if (Status locked = folder->lock(); !locked.ok()) return locked.error();
  for (const char* transit : {kFetchedFolder, kWrittenFolder})
    fs::remove_all(folder->path_ + "/" + transit, error);
  for (const char* inside : {kFetchedFolder, kWrittenFolder, "logs"}) {
    fs::create_directories(folder->path_ + "/" + inside, error);
    if (error) return failed("write to", folder->path_, error.message());
  }
  if (Status read = folder->read_or_make_uid(); !read.ok()) return read.error();
  if (Status chosen = folder->choose_socket_path(); !chosen.ok()) return chosen.error();
  return folder;
}

DataFolder::~DataFolder() {
  std::error_code ignored;
  if (!socket_path_.empty()) fs::remove(socket_path_, ignored);
  if (!private_folder_.empty()) fs::remove(private_folder_, ignored);
  if (lock_fd_ >= 0) close(lock_fd_);
}

Status DataFolder::lock() {
  lock_fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_fd_ < 0) return failed("open", path_, std::strerror(errno));
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) return {};
  return Error{Code::kConflict, "another agent already runs on " + path_, "--data-dir",
               "stop it, or give this one its own --data-dir"};
}

Status DataFolder::read_or_make_uid() {
  const std::string file = path_ + "/agent_id";
  if (std::ifstream in(file); in) {
    std::getline(in, uid_);
    if (is_uid(uid_)) return {};
    return Error{Code::kDataLoss, file + " does not hold an agent's id (32 hex characters)",
                 "--data-dir", "remove the file to join as a new agent"};
  }
  uid_ = random_uid();
  return write_file_durably(file, uid_ + "\n");
}

Status DataFolder::choose_socket_path() {
  socket_path_ = path_ + "/trainer.sock";
  if (socket_path_.size() >= sizeof(sockaddr_un::sun_path)) {
    char folder[] = "/tmp/shoal-agent-XXXXXX";
    if (mkdtemp(folder) == nullptr)
      return failed("create a folder like", folder, std::strerror(errno));
    private_folder_ = folder;
    socket_path_ = private_folder_ + "/trainer.sock";
  }
  std::error_code ignored;
  fs::remove(socket_path_, ignored);  // of a daemon that was killed
  return {};
}

std::string DataFolder::journal_path() const { return path_ + "/logs/agent.log"; }

}  // namespace shoal::agent
