#include "base/ids.h"

#include <limits>

namespace shoal {

std::optional<std::uint64_t> parse_prefixed(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  if (text.empty() || text.front() == '0') return std::nullopt;
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();  // SQLite's integer
  std::uint64_t n = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (n > (static_cast<std::uint64_t>(kMax) - digit) / 10) return std::nullopt;
    n = n * 10 + digit;
  }
  return n;
}

}  // namespace shoal
