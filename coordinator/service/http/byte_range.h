// The header Range of a request for a file. Pure text.
#pragma once

#include <cstdint>
#include <string_view>

namespace shoal::coordinator::rest {

struct AskedRange {
  enum Kind { kWhole, kPart, kUnsatisfiable };
  Kind kind = kWhole;
  std::int64_t first = 0, length = 0;  // kPart: inside the file, one byte at least
};

// One range of RFC 9110 ("bytes=0-99", "bytes=100-", "bytes=-5") of a file of `size` bytes.
// Anything else, and several ranges at once, mean the whole file, as the standard permits.
AskedRange read_range(std::string_view text, std::int64_t size);

}  // namespace shoal::coordinator::rest
