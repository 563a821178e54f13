// A slow line that trainers pretend to have, as people write it (`--emulate-link`). What it does to
// messages is in wire/link_emulation.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace shoal {

struct LinkOptions {
  double up_bytes_per_s = 0, down_bytes_per_s = 0;  // 0: no limit
  Duration rtt;                                     // half of it is added to what is sent
  Duration jitter;                                  // deviation of that delay
  std::uint64_t seed = 1;
  bool operator==(const LinkOptions&) const = default;
};

// "up=200mbit,down=200mbit,rtt=80ms,jitter=5ms": any of the four, in any order, each once. Rates in
// kbit, mbit or gbit per second, times in us, ms or s. Refuses (kValidation) with the name of the
// field.
Result<LinkOptions> parse_link(std::string_view text);

}  // namespace shoal
