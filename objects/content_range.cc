#include "objects/content_range.h"

#include <charconv>

namespace shoal::objects {
namespace {

std::optional<std::int64_t> read_number(std::string_view text) {
  std::int64_t number = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || number < 0) return {};
  return number;
}

}  // namespace

std::optional<ContentRange> read_content_range(std::string_view text) {
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (!text.starts_with("bytes ") || dash == text.npos || slash == text.npos || slash < dash)
    return {};
  const auto first = read_number(text.substr(6, dash - 6));
  const auto last = read_number(text.substr(dash + 1, slash - dash - 1));
  const auto whole = read_number(text.substr(slash + 1));
  if (!first || !last || !whole || *last < *first || *whole <= *last) return {};
  return ContentRange{*first, *last, *whole};
}

}  // namespace shoal::objects
