// Integers as little-endian bytes, one after the other, so that neither alignment nor padding nor
// the machine matters. Pure; the caller has made sure that the bytes are there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal {

// Writes sizeof(T) bytes and moves `at` behind them.
template <typename T>
void put_little_endian(std::byte*& at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    *at++ = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

// Reads sizeof(T) bytes and moves `at` behind them.
template <typename T>
T take_little_endian(const std::byte*& at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= std::to_integer<std::uint64_t>(*at++) << (8 * i);
  return static_cast<T>(value);
}

}  // namespace shoal
