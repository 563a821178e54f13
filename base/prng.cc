#include "base/prng.h"

#include <cmath>

#include "base/check.h"

namespace shoal {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;
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
double Prng::exponential(double mean) { return -mean * std::log1p(-unit()); }

double Prng::normal() {
  const double radius = std::sqrt(-2.0 * std::log1p(-unit()));
  return radius * std::cos(kTwoPi * unit());
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
