#include "coordinator/service/http/process_stats.h"

#include <fstream>
#include <sstream>
#include <string>

#include <dirent.h>
#include <unistd.h>

#include "threads/file_content.h"

namespace shoal::coordinator::rest {
namespace {

std::int64_t count_open_fds() {
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  std::int64_t count = 0;
  while (const dirent* entry = ::readdir(folder))
    if (entry->d_name[0] != '.') ++count;
  ::closedir(folder);
  return count - 1;  // without the one of opendir
}

double boot_time_s() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  return 0;
}

}  // namespace

ProcessStats read_process_stats() {
  ProcessStats stats;
  const std::string text = file_content("/proc/self/stat").value_or("");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return stats;

  // proc(5): after the name come the fields 3, 4, …; we want 14, 15 (CPU), 22 (start) and 24
  // (pages).
  std::istringstream fields(text.substr(name_end + 1));
  const double ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::string field;
  for (int i = 3; i <= 24 && fields >> field; ++i) {
    if (i == 14 || i == 15) stats.cpu_s += std::stod(field) / ticks_per_s;
    if (i == 22) stats.start_time_s = boot_time_s() + std::stod(field) / ticks_per_s;
    if (i == 24) stats.resident_bytes = std::stoll(field) * ::sysconf(_SC_PAGESIZE);
  }
  stats.open_fds = count_open_fds();
  return stats;
}

}  // namespace shoal::coordinator::rest
