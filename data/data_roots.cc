#include "data/data_roots.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "job/data_rules.h"

namespace shoal::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kField = "data.train";

Error refused(const std::string& what, const std::string& remedy) {
  return {Code::kNotFound, what, kField, remedy};
}

std::string normal(const std::string& folder) {
  std::string text = fs::path(folder).lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

// [NAME=]FOLDER. A folder may hold '=' when it begins with a slash.
Result<DataRoot> read_root(const std::string& text, const std::string& field) {
  const auto equals = text.starts_with('/') ? std::string::npos : text.find('=');
  DataRoot root;
  if (equals != std::string::npos) {
    root.name = text.substr(0, equals);
    if (!is_data_root_name(root.name)) {
      return Error{Code::kValidation, "'" + root.name + "' is not a valid name for a root", field,
                   "use lower-case letters, digits, '-' and '_', at most " +
                       std::to_string(kDataRootNameMax)};
    }
  }
  const std::string folder = equals == std::string::npos ? text : text.substr(equals + 1);
  if (!folder.starts_with('/') ||
      folder.find_first_of(std::string("\n\0", 2)) != std::string::npos) {
    return Error{Code::kValidation, "must be an absolute path of a folder, got '" + folder + "'",
                 field, "for example --data-root text=/srv/text"};
  }
  root.folder = normal(folder);
  return root;
}

Status check_new(const DataRoot& root, const std::vector<DataRoot>& before,
                 const std::string& field) {
  for (const DataRoot& other : before) {
    if (!root.name.empty() && root.name == other.name) {
      return Error{Code::kValidation, "the name '" + root.name + "' is given twice", field,
                   "give each root a name of its own"};
    }
    if (root.folder == other.folder) {
      return Error{Code::kValidation, root.folder + " is given twice", field, "leave one out"};
    }
  }
  return {};
}

// Whether `path` is `folder` or lies below it, by its text.
bool is_beneath(const std::string& path, const std::string& folder) {
  if (folder == "/") return path.starts_with('/');
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

std::string relative_to(const std::string& path, const std::string& folder) {
  std::string rest = path.substr(folder == "/" ? 1 : std::min(path.size(), folder.size() + 1));
  return rest.empty() ? "." : rest;
}

// The system call has no wrapper in glibc. A root of "/" is left by nothing, so that absolute links
// may be followed there.
int open_beneath(int folder, const std::string& path, bool whole_host) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;  // a pipe must not hold the trainer up
  how.resolve = RESOLVE_NO_MAGICLINKS | (whole_host ? RESOLVE_IN_ROOT : RESOLVE_BENEATH);
  for (int tries = 0; tries < 8; ++tries) {  // EAGAIN: something on the way was renamed meanwhile
    const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return -1;
}

}  // namespace

DataRoots DataRoots::whole_host() {
  return DataRoots(std::vector<DataRoot>{{.name = "", .folder = "/"}});
}

Result<DataRoots> DataRoots::parse(std::span<const std::string> texts, const std::string& field) {
  std::vector<DataRoot> roots;
  for (const std::string& text : texts) {
    auto root = read_root(text, field);
    if (!root) return root.error();
    if (Status s = check_new(*root, roots, field); !s) return s.error();
    std::error_code failure;
    if (!fs::is_directory(root->folder, failure)) {
      return Error{Code::kValidation, "there is no folder " + root->folder, field,
                   "create it, or name another one"};
    }
    roots.push_back(std::move(*root));
  }
  return DataRoots(std::move(roots));
}

std::string DataRoots::to_text() const {
  std::string text;
  for (const DataRoot& root : roots_) {
    if (!text.empty()) text += "\n";
    text += root.name.empty() ? root.folder : root.name + "=" + root.folder;
  }
  return text;
}

Result<DataRoots> DataRoots::from_text(const std::string& text, const std::string& field) {
  std::vector<DataRoot> roots;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    auto root = read_root(text.substr(at, end - at), field);
    if (!root) return root.error();
    roots.push_back(std::move(*root));
    at = end + 1;
  }
  return DataRoots(std::move(roots));
}

std::string DataRoots::known() const {
  if (roots_.empty()) return "none";
  std::string text;
  for (const DataRoot& root : roots_) {
    if (!text.empty()) text += ", ";
    text += root.name.empty() ? root.folder : root.name + " (" + root.folder + ")";
  }
  return text;
}

// The deepest root that holds an absolute path: a root within a root is the narrower one.
Result<DataRoots::Place> DataRoots::place_of(const std::string& data_path) const {
  const DataPath parts = parse_data_path(data_path);
  const std::string remedy = "the data roots of this host are: " + known() +
                             "; `shoal-agent --data-root [NAME=]FOLDER` adds one";
  if (!parts.root.empty()) {
    const auto named = std::find_if(roots_.begin(), roots_.end(),
                                    [&](const DataRoot& root) { return root.name == parts.root; });
    if (named == roots_.end()) {
      return refused("this host has no data root named " + std::string(parts.root), remedy);
    }
    if (parts.path.empty()) return refused(data_path + " names no file", "write ROOT:PATH");
    return Place{&*named, std::string(parts.path)};
  }
  if (!data_path.starts_with('/')) {
    return refused(data_path + " is a relative path", "write an absolute one, or ROOT:PATH");
  }
  const std::string path = normal(data_path);
  const DataRoot* deepest = nullptr;
  for (const DataRoot& root : roots_) {
    if (!is_beneath(path, root.folder)) continue;
    if (deepest == nullptr || root.folder.size() > deepest->folder.size()) deepest = &root;
  }
  if (deepest == nullptr) return refused(data_path + " lies beneath no data root", remedy);
  return Place{deepest, relative_to(path, deepest->folder)};
}

Result<int> DataRoots::open(const std::string& data_path) const {
  const auto place = place_of(data_path);
  if (!place) return place.error();
  const std::string& folder = place->root->folder;
  const int root = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    return refused("the data root " + folder + " cannot be opened: " + std::strerror(errno),
                   "create the folder, or name another one with --data-root");
  }
  const int fd = open_beneath(root, place->path, folder == "/");
  const int failure = errno;
  ::close(root);
  if (fd >= 0) return fd;
  if (failure == EXDEV || failure == ELOOP) {
    return refused(data_path + " leads out of its data root " + folder,
                   "put the file itself there, or name the folder it lies in with --data-root");
  }
  return refused(data_path + " cannot be opened: " + std::strerror(failure),
                 "put the file at this path on every agent's host");
}

}  // namespace shoal::data
