#include "agent/host/confinement.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "threads/landlock.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

// Rights by the version of Landlock that has them (man landlock). Versions 4 and 5, TCP and
// ioctl, are not used. The headers of Debian 12 end with version 2.
constexpr std::uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kChange = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                  LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                  LANDLOCK_ACCESS_FS_MAKE_REG;
constexpr std::uint64_t kSpecial =
    LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO;
constexpr std::uint64_t kNever = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;
constexpr std::uint64_t kRefer = 1ULL << 13, kTruncate = 1ULL << 14;  // from 2, from 3
constexpr std::uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                                   LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr int kVersionRefer = 2, kVersionTruncate = 3, kVersionScope = 6;

struct RulesetAttributes {  // as of version 6; older kernels get less of it
  std::uint64_t files = 0, network = 0, scoped = 0;
};
constexpr std::uint64_t kScopes = 1 | 2;  // abstract Unix sockets, signals

std::uint64_t handled(int version) {
  return kRead | kChange | kSpecial | kNever | (version >= kVersionRefer ? kRefer : 0) |
         (version >= kVersionTruncate ? kTruncate : 0);
}

int create_ruleset(int version) {
  const RulesetAttributes attributes{handled(version), 0, version >= kVersionScope ? kScopes : 0};
  const std::size_t size = version >= kVersionScope ? sizeof attributes : sizeof attributes.files;
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0));
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto [end, _] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

// Adds rules to one ruleset, with a way around what is hidden.
class Rules {
 public:
  Rules(int ruleset, int version, std::vector<fs::path> hidden)
      : ruleset_(ruleset), handled_(handled(version)), hidden_(std::move(hidden)) {}

  void allow(const std::string& given, std::uint64_t rights) {
    std::error_code missing;
    const fs::path path = fs::canonical(given, missing);
    if (!missing) allow_beneath(path, rights & handled_);
  }
  // Also where it lies in what is hidden.
  void allow_named(const std::string& given, std::uint64_t rights) {
    std::error_code missing;
    const fs::path path = fs::canonical(given, missing);
    if (!missing) add(path, rights & handled_);
  }
  const Status& status() const { return status_; }

 private:
  void allow_beneath(const fs::path& path, std::uint64_t rights) {
    if (std::ranges::any_of(hidden_, [&](const auto& h) { return lies_in(path, h); })) return;
    if (std::ranges::none_of(hidden_, [&](const auto& h) { return lies_in(h, path); })) {
      return add(path, rights);
    }
    std::error_code unreadable;
    for (fs::directory_iterator it(path, unreadable), end; !unreadable && it != end;
         it.increment(unreadable)) {
      if (!it->is_symlink()) allow_beneath(it->path(), rights);
    }
  }

  void add(const fs::path& path, std::uint64_t rights) {
    const int file = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    if (file < 0) return;  // gone, or out of reach anyway
    struct stat info {};
    if (::fstat(file, &info) == 0) {
      const std::uint64_t fit = S_ISDIR(info.st_mode) ? rights : rights & kOfFiles;
      const landlock_path_beneath_attr rule{fit, file};
      const bool added =
          ::syscall(SYS_landlock_add_rule, ruleset_, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
      if (!added && status_.ok()) {
        status_ = Error{Code::kUnavailable, "cannot confine to it: " + std::string(strerror(errno)),
                        path.string(), ""};
      }
    }
    ::close(file);
  }

  const int ruleset_;
  const std::uint64_t handled_;
  const std::vector<fs::path> hidden_;
  Status status_;
};

std::vector<fs::path> canonical_all(const std::vector<std::string>& paths) {
  std::vector<fs::path> all;
  for (const std::string& path : paths) {
    std::error_code missing;
    const fs::path real = fs::canonical(path, missing);
    if (!missing) all.push_back(real);
  }
  return all;
}

std::vector<std::string> gpu_devices() {
  std::vector<std::string> devices = {"/dev/dri", "/dev/kfd"};
  std::error_code unreadable;
  for (fs::directory_iterator it("/dev", unreadable), end; !unreadable && it != end;
       it.increment(unreadable)) {
    if (it->path().filename().string().starts_with("nvidia")) devices.push_back(it->path());
  }
  return devices;
}

// The folders in which users keep private files.
std::vector<std::string> secrets_of_home() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  std::vector<std::string> secrets;
  for (const char* name : {".ssh", ".gnupg", ".aws", ".netrc", ".docker", ".kube", ".config",
                           ".local/share/shoal", ".bash_history", ".git-credentials"}) {
    secrets.push_back(std::string(home) + "/" + name);
  }
  return secrets;
}

void drop_capabilities() {
  for (unsigned long each = 0; ::prctl(PR_CAPBSET_DROP, each, 0, 0, 0) == 0; ++each) {
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  ::syscall(SYS_capset, &header, none);
}

void limit(__rlimit_resource_t resource, rlim_t most) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return;
  const rlimit then{std::min(now.rlim_cur, most), std::min(now.rlim_max, most)};
  ::setrlimit(resource, &then);
}

}  // namespace

Confinement system_confinement() {
  Confinement system;
  system.readable = {"/usr",  "/lib",  "/lib32", "/lib64", "/libx32",
                     "/bin",  "/sbin", "/etc",   "/opt",   "/run/systemd/resolve",
                     "/proc", "/sys"};
  system.writable = {"/dev/null",   "/dev/zero",    "/dev/full",
                     "/dev/random", "/dev/urandom", "/dev/shm"};
  for (std::string& device : gpu_devices()) system.writable.push_back(std::move(device));
  system.hidden = {"/etc/shoal",   "/etc/shadow",   "/etc/shadow-",
                   "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private",
                   "/etc/ssh",     "/etc/sudoers",  "/var/lib/shoal"};
  for (std::string& secret : secrets_of_home()) system.hidden.push_back(std::move(secret));
  return system;
}

Status can_confine() {
  if (landlock_version() >= 1) return {};
  return Error{Code::kIncompatible,
               "this kernel cannot keep uploaded programs from the files of the agent: it has no "
               "Landlock",
               "--allow-code-from", "use Linux 5.13 or later with `landlock` in the list of lsm="};
}

Result<ConfinementRules> ConfinementRules::make(const Confinement& confinement) {
  if (Status possible = can_confine(); !possible.ok()) return possible.error();
  const int version = landlock_version();
  ConfinementRules made(create_ruleset(version), confinement.processes_max);
  if (made.ruleset_ < 0) {
    return Error{Code::kUnavailable, "cannot confine a program: " + std::string(strerror(errno)),
                 "", ""};
  }
  Rules rules(made.ruleset_, version, canonical_all(confinement.hidden));
  for (const std::string& path : confinement.readable) rules.allow(path, kRead);
  constexpr std::uint64_t kWrite = kRead | kChange | kRefer | kTruncate;
  for (const std::string& path : confinement.exceptions) rules.allow_named(path, kRead);
  for (const std::string& path : confinement.writable) rules.allow_named(path, kWrite);
  for (const std::string& path : confinement.own) rules.allow_named(path, kWrite | kSpecial);
  if (!rules.status().ok()) return rules.status().error();
  return made;
}

ConfinementRules::ConfinementRules(ConfinementRules&& other) noexcept
    : ruleset_(std::exchange(other.ruleset_, -1)), processes_max_(other.processes_max_) {}

ConfinementRules& ConfinementRules::operator=(ConfinementRules&& other) noexcept {
  std::swap(ruleset_, other.ruleset_);
  std::swap(processes_max_, other.processes_max_);
  return *this;
}

ConfinementRules::~ConfinementRules() {
  if (ruleset_ >= 0) ::close(ruleset_);
}

int ConfinementRules::enter() const {
  if (ruleset_ < 0) return 0;
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NPROC, static_cast<rlim_t>(processes_max_));
  drop_capabilities();
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return ::syscall(SYS_landlock_restrict_self, ruleset_, 0) == 0 ? 0 : errno;
}

}  // namespace shoal::agent
