#include "messages/line_probe.h"

#include <algorithm>
#include <cstddef>

#include "base/prng.h"

namespace shoal {

std::string line_payload(std::uint64_t seed, std::int64_t bytes) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::string payload(static_cast<std::size_t>(std::clamp<std::int64_t>(bytes, 0, kLinePayloadMax)),
                      '\0');
  Prng random(seed);
  for (std::size_t at = 0; at < payload.size(); at += kWord) {
    const std::uint64_t word = random.next();
    const std::size_t count = std::min(kWord, payload.size() - at);
    for (std::size_t i = 0; i < count; ++i) {
      payload[at + i] = static_cast<char>(word >> (8 * i) & 0xff);
    }
  }
  return payload;
}

}  // namespace shoal
