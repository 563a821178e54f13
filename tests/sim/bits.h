// One flipped bit, as a bad memory cell, wire or disk makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shoal::sim {

// Flips one bit; `pick` chooses value and bit. The highest bit of the exponent stays, because any
// check finds that change.
inline void flip_bit(std::span<float> values, std::uint64_t pick) {
  if (values.empty()) return;
  float& value = values[static_cast<std::size_t>(pick % values.size())];
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits ^= 1u << (pick / values.size() % 30);
  std::memcpy(&value, &bits, sizeof bits);
}

inline void flip_bit(std::span<std::byte> bytes, std::uint64_t pick) {
  if (bytes.empty()) return;
  bytes[static_cast<std::size_t>(pick % bytes.size())] ^=
      static_cast<std::byte>(1u << (pick / bytes.size() % 8));
}

}  // namespace shoal::sim
