#include "base/span_text.h"

#include <charconv>

namespace shoal {

std::optional<std::int64_t> parse_span(std::string_view text) {
  constexpr std::int64_t kDay = 86'400, kMost = 3650 * kDay;
  if (text.empty()) return std::nullopt;
  std::int64_t unit = 0, count = 0;
  switch (text.back()) {
    case 's':
      unit = 1;
      break;
    case 'm':
      unit = 60;
      break;
    case 'h':
      unit = 3600;
      break;
    case 'd':
      unit = kDay;
      break;
    default:
      return std::nullopt;
  }
  const char* last = text.data() + text.size() - 1;
  const auto [end, failure] = std::from_chars(text.data(), last, count);
  const bool whole = failure == std::errc() && end == last;
  if (!whole || count <= 0 || count > kMost / unit) return std::nullopt;
  return count * unit;
}

}  // namespace shoal
