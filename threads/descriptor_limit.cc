#include "threads/descriptor_limit.h"

#include <algorithm>

#include <sys/resource.h>

namespace shoal {
namespace {

// A hard limit of "infinity" is bounded by the kernel's fs.nr_open, 1,048,576 by default.
constexpr rlim_t kMost = 1 << 20;

}  // namespace

std::size_t raise_descriptor_limit() {
  rlimit now{};
  if (::getrlimit(RLIMIT_NOFILE, &now) != 0) return 0;
  const rlimit raised{std::max(now.rlim_cur, std::min(now.rlim_max, kMost)), now.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) now = raised;
  return static_cast<std::size_t>(now.rlim_cur);
}

}  // namespace shoal
