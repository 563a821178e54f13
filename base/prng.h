// Seeded randomness with our own distributions: the standard library's differ between vendors, and
// logarithms between C libraries. All numbers are the same bits wherever double is IEEE 754
// binary64 and operations are not fused (-ffp-contract=off): initial parameters are drawn from
// here. Generator: xoshiro256** (Blackman and Vigna 2018), seeded by SplitMix64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/fields.h"

namespace shoal {

// One step of SplitMix64; also a good mixer for deriving seeds.
std::uint64_t split_mix(std::uint64_t& state);
std::uint64_t mix_seed(std::uint64_t a, std::uint64_t b);

class Prng {
 public:
  explicit Prng(std::uint64_t seed);

  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound);              // uniform in [0, bound); bound > 0
  std::int64_t range(std::int64_t lo, std::int64_t hi);  // uniform in [lo, hi], inclusive
  double unit();                                         // uniform in [0, 1)
  bool chance(double probability);
  double exponential(double mean);
  double normal();  // mean 0, deviation 1 (Box–Muller)

  template <typename Container>
  void shuffle(Container& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<Prng>) {
    using T = Prng;
    return fields<&T::state_>();
  }

  std::array<std::uint64_t, 4> state_;
};

// A seeded bijection on [0, size): a Feistel network with cycle walking. Order without a table.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed);
  std::uint64_t operator()(std::uint64_t index) const;  // index < size

 private:
  std::uint64_t size_;
  int half_bits_;
  std::array<std::uint64_t, 4> keys_;
};

}  // namespace shoal
