// Amounts that must not be mixed up. Arithmetic stays inside one unit; count() leaves it.
#pragma once

#include <compare>
#include <cstdint>

namespace shoal {

template <typename Tag>
struct Quantity {
  std::int64_t n = 0;
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t value) : n(value) {}
  auto operator<=>(const Quantity&) const = default;
  constexpr std::int64_t count() const { return n; }
  constexpr Quantity& operator+=(Quantity other) { return n += other.n, *this; }
  constexpr Quantity& operator-=(Quantity other) { return n -= other.n, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.n + b.n); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.n - b.n); }
  friend constexpr Quantity operator*(Quantity a, std::int64_t k) { return Quantity(a.n * k); }
};

using Bytes = Quantity<struct BytesTag>;
using Tokens = Quantity<struct TokensTag>;
using Steps = Quantity<struct StepsTag>;          // inner (AdamW) steps
using Sequences = Quantity<struct SequencesTag>;  // training sequences of `context` tokens

constexpr Bytes mebibytes(std::int64_t n) { return Bytes(n << 20); }

}  // namespace shoal
