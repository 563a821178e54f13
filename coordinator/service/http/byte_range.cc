#include "coordinator/service/http/byte_range.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace shoal::coordinator::rest {
namespace {

std::optional<std::int64_t> number(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return {};
  return value;
}

}  // namespace

AskedRange read_range(std::string_view text, std::int64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!text.starts_with(kUnit) || text.find(',') != std::string_view::npos) return {};
  text.remove_prefix(kUnit.size());
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view low_text = text.substr(0, dash), high_text = text.substr(dash + 1);
  const auto low = number(low_text), high = number(high_text);
  if ((!low_text.empty() && !low) || (!high_text.empty() && !high) || (!low && !high)) return {};
  if (low && high && *high < *low) return {};
  const std::int64_t first = low ? *low : std::max<std::int64_t>(0, size - *high);
  const std::int64_t last = low && high ? std::min(*high, size - 1) : size - 1;
  if (last < first) return {AskedRange::kUnsatisfiable, 0, 0};
  return {AskedRange::kPart, first, last - first + 1};
}

}  // namespace shoal::coordinator::rest
