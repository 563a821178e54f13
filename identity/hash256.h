// SHA-256 values: fingerprints of certificates and keys, and what is kept of a secret. They are
// written as 64 lower-case hex digits, as `openssl x509 -fingerprint -sha256` does, except for its
// colons. Files on their way between hosts have base/sha256.h.
//
// Threads: all functions may be called by any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::identity {

inline constexpr std::size_t kHashDigits = 64;

struct Hash256 {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const Hash256&) const = default;  // not for secrets: same_hash()
};

Hash256 sha256(std::string_view bytes);
std::string to_hex(const Hash256& hash);
// Exactly 64 lower-case hex digits, or nothing.
std::optional<Hash256> parse_hash(std::string_view hex);
// Takes the same time wherever the two differ.
bool same_hash(const Hash256& a, const Hash256& b);

}  // namespace shoal::identity
