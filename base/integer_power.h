// A power by products. Replicas need the same bits on every machine, and libraries differ in the
// last bit of pow().
#pragma once

#include <cstdint>

namespace shoal {

// exponent >= 0.
constexpr double integer_power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

}  // namespace shoal
