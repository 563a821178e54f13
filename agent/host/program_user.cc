// See program_user.h.
#include "agent/host/program_user.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transfer/files.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kField = "--program-user";

// One file or folder, not what a link leads to: `owner` -1 stays, `mode` is added.
Status change(const std::string& path, uid_t owner, gid_t group, mode_t mode) {
  const int file = ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return disk_error("open", path, errno);
  struct stat info {};
  bool done = ::fstat(file, &info) == 0;
  if (done && !S_ISLNK(info.st_mode)) {
    const std::string same = "/proc/self/fd/" + std::to_string(file);
    const bool runs = (info.st_mode & S_IXUSR) != 0 && (mode & S_IRGRP) != 0;
    const mode_t wanted = (info.st_mode & 07777) | mode | (runs ? S_IXGRP : 0);
    done = ::chown(same.c_str(), owner, group) == 0 && ::chmod(same.c_str(), wanted) == 0;
  }
  const int why = errno;
  ::close(file);
  return done ? Status() : disk_error("give rights to", path, why);
}

constexpr uid_t kSameOwner = static_cast<uid_t>(-1);

Status change_all(const std::string& tree, uid_t owner, gid_t group, mode_t mode) {
  if (Status s = change(tree, owner, group, mode); !s.ok()) return s;
  std::error_code failure;
  for (fs::recursive_directory_iterator it(tree, failure), end; !failure && it != end;
       it.increment(failure)) {
    if (Status s = change(it->path().string(), owner, group, mode); !s.ok()) return s;
  }
  return failure ? disk_error("list", tree, failure.value()) : Status();
}

constexpr unsigned kTryLimitS = 10;  // a file system that hangs

// An errno, or 0.
int try_to_enter(const std::string& folder, const ProgramUser& user) {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    ::alarm(kTryLimitS);
    if (const int failed = become(user); failed != 0) ::_exit(failed);
    ::_exit(::chdir(folder.c_str()) == 0 ? 0 : errno);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return errno;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : ETIMEDOUT;
}

}  // namespace

Result<ProgramUser> find_program_user(const std::string& name) {
  if (::geteuid() != 0) {
    return Error{Code::kValidation, "needs an agent that runs as root", kField,
                 "leave it out: programs run as the user of the agent"};
  }
  errno = 0;
  const passwd* found = ::getpwnam(name.c_str());
  if (found == nullptr) {
    return Error{Code::kValidation, "there is no user '" + name + "' on this host", kField,
                 "make one: useradd --system --no-create-home NAME"};
  }
  if (found->pw_uid == 0 || found->pw_gid == 0) {
    return Error{Code::kValidation, "must be without privileges, and '" + name + "' is root",
                 kField, "name a user of its own"};
  }
  return ProgramUser{name, found->pw_uid, found->pw_gid};
}

int become(const ProgramUser& user) {
  if (::setgroups(0, nullptr) != 0) return errno;
  if (::setresgid(user.gid, user.gid, user.gid) != 0) return errno;
  return ::setresuid(user.uid, user.uid, user.uid) == 0 ? 0 : errno;
}

Status check_reach(const std::string& folder, const ProgramUser& user) {
  if (try_to_enter(folder, user) == 0) return {};
  fs::path way;
  for (const fs::path& part : fs::path(folder)) {
    way /= part;
    const int why = try_to_enter(way.string(), user);
    if (why == 0) continue;
    return Error{Code::kValidation,
                 "the user '" + user.name + "' does not reach --data-dir: it cannot enter " +
                     way.string() + ": " + std::strerror(why),
                 kField, "run chmod o+x " + way.string() + ", or give a --data-dir elsewhere"};
  }
  return {};
}

Status let_pass(const std::string& folder, const ProgramUser& user) {
  return change(folder, kSameOwner, user.gid, S_IXGRP);
}

Status let_read(const std::string& tree, const ProgramUser& user) {
  return change_all(tree, kSameOwner, user.gid, S_IRGRP);
}

Status let_write(const std::string& path, const ProgramUser& user) {
  return change(path, kSameOwner, user.gid, S_IRGRP | S_IWGRP);
}

Status give(const std::string& tree, const ProgramUser& user) {
  return change_all(tree, user.uid, user.gid, 0);
}

}  // namespace shoal::agent
