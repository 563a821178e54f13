#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace shoal::detail {

void check_failed(const char* file, int line, const char* condition, std::string_view detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%.*s\n", file, line, condition,
               detail.empty() ? "" : ": ", static_cast<int>(detail.size()), detail.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace shoal::detail
