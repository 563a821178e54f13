// See idle_memory.h. MADV_FREE (Linux 4.5): a page that is written again stays; one that is not may
// be taken, and reads as zeros then.
#include "threads/idle_memory.h"

#include <cstdint>
#include <fstream>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace shoal {

// Whole pages only, because the first and the last page also hold other data.
void forget_bytes(std::span<std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = (first + page - 1) / page * page;
  const std::uintptr_t end = (first + bytes.size()) / page * page;
  // A kernel without it keeps the pages, which is correct, too.
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_FREE);
}

void forget_values(std::span<float> values) { forget_bytes(std::as_writable_bytes(values)); }

std::size_t idle_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string word; rollup >> word;) {
    std::size_t kib = 0;
    if (word == "LazyFree:" && rollup >> kib) return kib << 10;
  }
  return 0;
}

}  // namespace shoal
