#include "agent/host/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string_view>

namespace shoal::agent {
namespace {

// Version 1 writes the largest multiple of a page for "no limit".
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// -1: not a number that limits anything, such as "max", or no such file.
std::int64_t number_in(const std::string& file) {
  const std::string line = first_line(file);
  std::int64_t value = -1;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == line.data() + line.size();
  return whole && value >= 0 && value < kNoLimit ? value : -1;
}

// The sum of these lines of a file of "key value" lines, in its unit.
std::int64_t sum_of(const std::string& file, std::initializer_list<std::string_view> keys) {
  std::ifstream in(file);
  std::int64_t sum = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t value = 0;
    if (!(words >> key >> value) || value < 0) continue;
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) sum += value;
  }
  return sum;
}

// What the files of one version are called.
struct Version {
  const char *kind, *controller;  // of its mount and of its line in /proc/self/cgroup
  const char *limit, *soft, *used;
  std::initializer_list<std::string_view> file_pages;
};
const Version kVersions[] = {
    {"cgroup2",
     "",
     "/memory.max",
     "/memory.high",
     "/memory.current",
     {"inactive_file", "active_file"}},
    {"cgroup",
     "memory",
     "/memory.limit_in_bytes",
     nullptr,
     "/memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"}},
};

// Where the groups of a version are seen from here, and which group that folder is.
struct Mount {
  std::string folder, group;
};

bool has_word(std::string_view list, std::string_view word) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

// A line of mountinfo (proc(5)): "31 23 0:28 GROUP FOLDER OPTIONS … - KIND SOURCE SUPER-OPTIONS".
std::optional<Mount> mount_of(const Version& version, const std::string& root) {
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream front(line), back(line.substr(dash + 3));
    std::string skipped, kind, source, options;
    Mount mount;
    front >> skipped >> skipped >> skipped >> mount.group >> mount.folder;
    back >> kind >> source >> options;
    const bool controls = *version.controller == '\0' || has_word(options, version.controller);
    if (kind == version.kind && controls) return mount;
  }
  return std::nullopt;
}

// The group of this process, as a line "4:cpu,memory:/GROUP" or "0::/GROUP" says.
std::optional<std::string> own_group(const Version& version, const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_v2 = *version.controller == '\0';
    if (is_v2 ? controllers.empty() : has_word(controllers, version.controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// `group` below the mounted one; empty: the mounted one itself, or one that is not to be seen here.
std::string below(const std::string& group, const std::string& mounted) {
  if (mounted == "/") return group == "/" ? "" : group;
  return group.starts_with(mounted + "/") ? group.substr(mounted.size()) : "";
}

void add_level(const std::string& folder, const Version& version,
               std::vector<MemoryLevel>& levels) {
  std::int64_t limit = number_in(folder + version.limit);
  const std::int64_t soft = version.soft == nullptr ? -1 : number_in(folder + version.soft);
  if (limit < 0 || (soft >= 0 && soft < limit)) limit = soft;
  if (limit < 0) return;
  const std::int64_t used = std::max<std::int64_t>(0, number_in(folder + version.used));
  const std::int64_t files = sum_of(folder + "/memory.stat", version.file_pages);
  levels.push_back({folder, Bytes(limit), Bytes(std::max<std::int64_t>(0, used - files))});
}

void add_groups(const Version& version, const std::string& root, std::vector<MemoryLevel>& levels) {
  const auto mount = mount_of(version, root);
  const auto own = own_group(version, root);
  if (!mount || !own) return;
  for (std::string group = below(*own, mount->group);; group.resize(group.rfind('/'))) {
    add_level(root + mount->folder + group, version, levels);
    if (group.empty() || group.rfind('/') == std::string::npos) return;
  }
}

}  // namespace

std::vector<MemoryLevel> memory_levels(const std::string& root) {
  std::vector<MemoryLevel> levels;
  const std::string meminfo = root + "/proc/meminfo";
  const std::int64_t total = sum_of(meminfo, {"MemTotal:"}) * 1024;
  const std::int64_t available = sum_of(meminfo, {"MemAvailable:"}) * 1024;
  if (total > 0) levels.push_back({"the host", Bytes(total), Bytes(total - available)});
  for (const Version& version : kVersions) add_groups(version, root, levels);
  return levels;
}

Bytes room_for(Bytes ours, const std::vector<MemoryLevel>& levels) {
  std::optional<Bytes> least;
  for (const MemoryLevel& level : levels) {
    const Bytes others = level.used - std::min(ours, level.used);
    const Bytes room = level.limit > others ? level.limit - others : Bytes();
    if (!least || room < *least) least = room;
  }
  return least.value_or(Bytes());
}

Bytes whole_memory(const std::vector<MemoryLevel>& levels) {
  Bytes least;
  for (const MemoryLevel& level : levels) {
    if (least == Bytes() || level.limit < least) least = level.limit;
  }
  return least;
}

std::int64_t killed_for_memory(const std::string& root) {
  return sum_of(root + "/proc/vmstat", {"oom_kill"});
}

}  // namespace shoal::agent
