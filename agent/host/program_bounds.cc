#include "agent/host/program_bounds.h"

#include <algorithm>
#include <filesystem>

#include <unistd.h>

#include "agent/host/host_memory.h"
#include "base/number_text.h"

namespace shoal::agent {
namespace {

std::string text_of(Bytes bytes) { return size_text(static_cast<double>(bytes.count())); }

// The size of the file system of `folder`, or of the nearest folder above it that exists.
Bytes file_system_of(std::filesystem::path folder) {
  std::error_code error;
  folder = std::filesystem::absolute(folder, error);
  for (;; folder = folder.parent_path()) {
    const auto space = std::filesystem::space(folder, error);
    if (!error) return Bytes(static_cast<std::int64_t>(space.capacity));
    if (!folder.has_relative_path()) return ProgramBounds().disk;
  }
}

Bytes share_of(Bytes whole, std::size_t programs) {
  const auto each = static_cast<std::int64_t>(std::max<std::size_t>(1, programs));
  return Bytes(whole.count() / 10 * 9 / each);
}

}  // namespace

ProgramBounds usual_bounds(const std::string& folder, std::size_t programs) {
  Bytes memory = whole_memory(memory_levels());
  if (memory == Bytes()) memory = Bytes(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  ProgramBounds bounds;
  bounds.memory = share_of(memory, programs);
  bounds.disk = share_of(file_system_of(folder), programs);
  return bounds;
}

std::string over_memory(Bytes used, const ProgramBounds& bounds) {
  if (used <= bounds.memory) return {};
  return "it takes " + text_of(used) + " of memory, and " + kMemoryFlag + " of its agent allows " +
         text_of(bounds.memory);
}

std::string over_processes(std::int64_t count, const ProgramBounds& bounds) {
  if (count <= bounds.processes) return {};
  return "it has " + std::to_string(count) + " processes and threads, and " + kProcessesFlag +
         " of its agent allows " + std::to_string(bounds.processes);
}

std::string over_disk(Bytes used, const ProgramBounds& bounds) {
  if (used <= bounds.disk) return {};
  return "its files take " + text_of(used) + " of the disk, and " + kDiskFlag +
         " of its agent allows " + text_of(bounds.disk);
}

}  // namespace shoal::agent
