#include "base/prng.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace shoal {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;
constexpr double kLog2 = 0.69314718055994530941723212145818;
constexpr double kSqrtHalf = 0.70710678118654752440084436210485;

// The C library's logarithm and cosine differ between libraries by a bit. These two are made of
// operations that IEEE 754 rounds (+ - * /), in one order, and are as exact as a double allows but
// for some units of the last place.

// For a normal x > 0: x = m * 2^e with m near 1, log m = 2 artanh(s) with s = (m - 1) / (m + 1).
double logarithm(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1022;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3fe0000000000000ull);
  if (m < kSqrtHalf) m *= 2, --exponent;
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return static_cast<double>(exponent) * kLog2 + 2 * s * sum;
}

// The series of cos x and sin x for |x| <= pi/4.
double small_cosine(double x) {
  double sum = 1;
  for (int k = 18; k >= 2; k -= 2) sum = 1 - sum * (x * x) / (k * (k - 1));
  return sum;
}
double small_sine(double x) {
  double sum = 1;
  for (int k = 19; k >= 3; k -= 2) sum = 1 - sum * (x * x) / (k * (k - 1));
  return x * sum;
}

// cos(2 pi turns), 0 <= turns < 1. The eighth of a turn next to it is taken off exactly.
double cosine_of_turns(double turns) {
  const int eighth = static_cast<int>(turns * 8);
  const int quarter = (eighth + 1) / 2;  // the nearest
  const double x = kTwoPi * (turns - quarter * 0.25);
  switch (quarter % 4) {
    case 0:
      return small_cosine(x);
    case 1:
      return -small_sine(x);
    case 2:
      return -small_cosine(x);
    default:
      return small_sine(x);
  }
}

std::uint64_t rotate_left(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

}  // namespace

std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::uint64_t mix_seed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t state = a;
  const std::uint64_t first = split_mix(state);
  state = first ^ b;
  return split_mix(state);
}

Prng::Prng(std::uint64_t seed) {
  for (auto& word : state_) word = split_mix(seed);
}

std::uint64_t Prng::next() {
  const std::uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

std::uint64_t Prng::below(std::uint64_t bound) {
  SHOAL_CHECK(bound > 0);
  const std::uint64_t reject = -bound % bound;  // 2^64 mod bound: drop the uneven tail
  for (;;) {
    const std::uint64_t x = next();
    if (x >= reject) return x % bound;
  }
}

std::int64_t Prng::range(std::int64_t lo, std::int64_t hi) {
  SHOAL_CHECK(lo <= hi);
  const auto width = static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo) + 1;
  const std::uint64_t offset = width == 0 ? next() : below(width);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(lo) + offset);
}

double Prng::unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
bool Prng::chance(double probability) { return unit() < probability; }
// 1 - unit() is exact, and never 0.
double Prng::exponential(double mean) { return -mean * logarithm(1 - unit()); }

double Prng::normal() {
  const double radius = std::sqrt(-2.0 * logarithm(1 - unit()));
  return radius * cosine_of_turns(unit());
}

Permutation::Permutation(std::uint64_t size, std::uint64_t seed) : size_(size), half_bits_(1) {
  SHOAL_CHECK(size > 0);
  while (half_bits_ < 32 && (1ull << (2 * half_bits_)) < size) ++half_bits_;
  for (auto& key : keys_) key = split_mix(seed);
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  SHOAL_CHECK(index < size_);
  const std::uint64_t mask = half_bits_ == 32 ? 0xffffffffull : (1ull << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (const auto key : keys_) {
      const std::uint64_t next = left ^ (mix_seed(key, right) & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace shoal
