// What happens to vectors value by value: the formats without blocks, differences, the outer step.
// Each operation says what it loads of some values and how it finishes them; walk() takes a vector
// through it, a tile at a time: the threads of a block load all of a tile, then work on it, so that
// many bytes are under way. Where all vectors of an operation lie at multiples of their packs a
// thread takes four values in one piece, elsewhere single ones; neighboring threads take
// neighboring ones either way, and what is left at the end is done by single values.
//
// Like lanes.h for the device and, in lanes_test.cc, for the host. An operation has
//   bool wide() const;                         whether its vectors can be read in packs
//   template <unsigned kWidth> In;             what it loads of kWidth values
//   load<kWidth>(first) const;
//   finish<kWidth>(first, in);                 every value once, in any order
#pragma once

#include "outer_opt/cuda/lanes.h"

namespace shoal::outer_opt::cuda {

// Which thread of a block, which block of the grid.
struct ThreadPlace {
  unsigned thread, threads;
  std::size_t block, blocks;
};

// `kPacks` packs of a thread are loaded before the first one is worked on.
template <unsigned kWidth, unsigned kPacks, typename Each>
SHOAL_HD void walk_packs(const ThreadPlace& place, std::size_t n, Each& each) {
  const std::size_t row = std::size_t{place.threads} * kWidth, tile = row * kPacks;
  for (std::size_t first = place.block * tile; first < n; first += place.blocks * tile) {
    if (n - first < tile) {
      for (std::size_t i = first + place.thread; i < n; i += place.threads) {
        each.template finish<1>(i, each.template load<1>(i));
      }
      return;
    }
    const std::size_t mine = first + std::size_t{place.thread} * kWidth;
    typename Each::template In<kWidth> in[kPacks];
    SHOAL_UNROLL
    for (unsigned k = 0; k < kPacks; ++k) in[k] = each.template load<kWidth>(mine + k * row);
    SHOAL_UNROLL
    for (unsigned k = 0; k < kPacks; ++k) each.template finish<kWidth>(mine + k * row, in[k]);
  }
}

// kAhead quads, or as many values one by one.
template <unsigned kAhead, typename Each>
SHOAL_HD void walk(const ThreadPlace& place, std::size_t n, Each& each) {
  if (each.wide()) {
    walk_packs<kQuad, kAhead>(place, n, each);
  } else {
    walk_packs<1, kAhead * kQuad>(place, n, each);
  }
}

// out = f(in) or f(first, second).
template <unsigned kIn, typename F>
struct Map {
  const float* from[kIn];
  float* out;
  F f;

  template <unsigned kWidth>
  struct In {
    Pack<float, kWidth> of[kIn];
  };

  SHOAL_HD bool wide() const {
    bool all = holds_packs<kQuad>(out);
    for (const float* one : from) all = all && holds_packs<kQuad>(one);
    return all;
  }
  template <unsigned kWidth>
  SHOAL_HD In<kWidth> load(std::size_t first) const {
    In<kWidth> in;
    for (unsigned k = 0; k < kIn; ++k) in.of[k] = load_pack<kWidth>(from[k] + first);
    return in;
  }
  template <unsigned kWidth>
  SHOAL_HD void finish(std::size_t first, const In<kWidth>& in) const {
    Pack<float, kWidth> result;
    for (unsigned j = 0; j < kWidth; ++j) {
      if constexpr (kIn == 1) {
        result.x[j] = f(in.of[0].x[j]);
      } else {
        result.x[j] = f(in.of[0].x[j], in.of[1].x[j]);
      }
    }
    store_pack(result, out + first);
  }
};

struct Minus {
  SHOAL_HD float operator()(float a, float b) const { return a - b; }
};
struct Times {
  float factor;
  SHOAL_HD float operator()(float value) const { return value * factor; }
};
// What a replica makes of its local parameters (outer_opt/core/step/fragments.h, adopt()).
struct Adopt {
  float kept, taken;
  SHOAL_HD float operator()(float local, float anchor) const {
    return kept == 0 ? anchor : add_scaled(taken * anchor, kept, local);
  }
};

// ---- formats without blocks

template <typename Format>
struct FlatEncoding {
  using Stored = typename Format::Stored;
  const float* from;
  Stored* out;

  template <unsigned kWidth>
  using In = Pack<float, kWidth>;

  SHOAL_HD bool wide() const { return holds_packs<kQuad>(from) && holds_packs<kQuad>(out); }
  template <unsigned kWidth>
  SHOAL_HD In<kWidth> load(std::size_t first) const {
    return load_pack<kWidth>(from + first);
  }
  template <unsigned kWidth>
  SHOAL_HD void finish(std::size_t first, const In<kWidth>& in) const {
    Pack<Stored, kWidth> packed;
    for (unsigned j = 0; j < kWidth; ++j) packed.x[j] = Format::pack(in.x[j]);
    store_pack(packed, out + first);
  }
};

template <typename Format, typename Put>
struct FlatDecoding {
  using Stored = typename Format::Stored;
  const Stored* from;
  float* out;
  Put put;
  bool good = true;  // false: a value is not finite

  template <unsigned kWidth>
  struct In {
    Pack<Stored, kWidth> stored;
    Pack<float, kWidth> target;
  };

  SHOAL_HD bool wide() const { return holds_packs<kQuad>(from) && holds_packs<kQuad>(out); }
  template <unsigned kWidth>
  SHOAL_HD In<kWidth> load(std::size_t first) const {
    In<kWidth> in{load_pack<kWidth>(from + first), {}};
    if constexpr (Put::kReads) in.target = load_pack<kWidth>(out + first);
    return in;
  }
  template <unsigned kWidth>
  SHOAL_HD void finish(std::size_t first, const In<kWidth>& in) {
    Pack<float, kWidth> result;
    for (unsigned j = 0; j < kWidth; ++j) {
      const float value = Format::unpack(in.stored.x[j]);
      good = good && finite(value);
      result.x[j] = put(in.target.x[j], value);
    }
    store_pack(result, out + first);
  }
};

// ---- the outer step (outer_opt/core/step/nesterov.h)

struct OuterStep {
  float lr, factor;  // of the momentum
  const float* average;
  float *momentum, *anchor;

  template <unsigned kWidth>
  struct In {
    Pack<float, kWidth> average, momentum, anchor;
  };

  SHOAL_HD bool wide() const {
    return holds_packs<kQuad>(average) && holds_packs<kQuad>(momentum) &&
           holds_packs<kQuad>(anchor);
  }
  template <unsigned kWidth>
  SHOAL_HD In<kWidth> load(std::size_t first) const {
    return {load_pack<kWidth>(average + first), load_pack<kWidth>(momentum + first),
            load_pack<kWidth>(anchor + first)};
  }
  template <unsigned kWidth>
  SHOAL_HD void finish(std::size_t first, const In<kWidth>& in) const {
    Pack<float, kWidth> m, theta;
    for (unsigned j = 0; j < kWidth; ++j) {
      const float d = in.average.x[j];
      m.x[j] = add_scaled(d, factor, in.momentum.x[j]);  // commutes: factor * m + d
      theta.x[j] = add_scaled(in.anchor.x[j], -lr, add_scaled(d, factor, m.x[j]));
    }
    store_pack(m, momentum + first);
    store_pack(theta, anchor + first);
  }
};

// ---- what a report says of a vector (partial_statistics.h), as far as one thread sees it

struct Measuring {
  const float* from;
  double squares = 0;
  std::uint32_t largest = 0, nonfinite = 0;

  template <unsigned kWidth>
  using In = Pack<float, kWidth>;

  SHOAL_HD bool wide() const { return holds_packs<kQuad>(from); }
  template <unsigned kWidth>
  SHOAL_HD In<kWidth> load(std::size_t first) const {
    return load_pack<kWidth>(from + first);
  }
  template <unsigned kWidth>
  SHOAL_HD void finish(std::size_t, const In<kWidth>& in) {
    for (unsigned j = 0; j < kWidth; ++j) {
      const bool usable = finite(in.x[j]);
      nonfinite += usable ? 0u : 1u;
      const std::uint32_t bits = usable ? bits_of(in.x[j]) & kMagnitude : 0u;
      largest = bits > largest ? bits : largest;
      const double value = static_cast<double>(float_of(bits));
      squares += value * value;
    }
  }
};

}  // namespace shoal::outer_opt::cuda
