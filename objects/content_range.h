// The header Content-Range of an answer: which part of a file it has. Pure text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal::objects {

// "bytes 5-9/10"
struct ContentRange {
  std::int64_t first = 0, last = 0, whole = 0;  // 0 <= first <= last < whole
};
// None: it has another form. An unknown size ("bytes 5-9/*") is of no use to us.
std::optional<ContentRange> read_content_range(std::string_view text);

}  // namespace shoal::objects
