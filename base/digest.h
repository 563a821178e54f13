// 128-bit digests (XXH3) of parameters, of core state and of traces. Stable across machines:
// integers are fed little-endian, floating-point numbers by their bits. Detects accidents, not
// forgery.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shoal {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Digest&) const = default;
  constexpr explicit operator bool() const { return (high | low) != 0; }
};

std::string to_hex(const Digest& digest);  // 32 lower-case hex characters
std::optional<Digest> parse_digest(std::string_view hex);

Digest digest_of(std::span<const std::byte> bytes);
Digest digest_of(std::span<const float> values);
std::uint64_t checksum_of(std::span<const std::byte> bytes);  // XXH3-64, for frames

// Feeds fields one after another. Strings are length-prefixed, so ("ab","c") differs from
// ("a","bc").
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  Digester& add(std::uint64_t value);
  Digester& add(std::int64_t value) { return add(static_cast<std::uint64_t>(value)); }
  Digester& add(std::uint32_t value) { return add(static_cast<std::uint64_t>(value)); }
  Digester& add(std::int32_t value) { return add(static_cast<std::int64_t>(value)); }
  Digester& add(bool value) { return add(static_cast<std::uint64_t>(value)); }
  Digester& add(double value);
  Digester& add(std::string_view text);
  Digester& add(const char* text) { return add(std::string_view(text)); }
  Digester& add(const Digest& digest) { return add(digest.high).add(digest.low); }
  Digester& add(std::span<const std::byte> bytes);

  Digest finish() const;  // may be called between adds

 private:
  struct State;
  State* state_;
};

}  // namespace shoal
