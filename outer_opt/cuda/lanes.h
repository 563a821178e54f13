// What the lanes of a warp do with one block of int8, int4 or e3m0, and what the threads of a
// thread block do with one chunk of sparse2. The bodies of the CUDA kernels (kernels.cu), as
// templates over the group of threads that runs them: on a GPU a warp or a thread block, in
// lanes_test.cc lanes that take turns on the host, which is how the bytes are compared with the
// CPU's on machines without a GPU.
//
// A group has
//   unsigned rank();                             this thread
//   std::uint32_t max(std::uint32_t value);      warps: over all threads; everybody calls it
//   static constexpr unsigned kThreads;          thread blocks, as all that follows: how many
//   void sync();                                 a barrier that orders memory shared by the group
//   std::uint32_t sum(std::uint32_t value);      over all threads; everybody calls it
//   double sum(double value);                    likewise, in any order
//   std::uint32_t add(std::uint32_t* shared, std::uint32_t value);  atomically; what was there
// A warp has 32 threads. Blocks start at multiples of 2 bytes in the encoding (int8: of 4). Values
// are read and written four at a time where they lie at multiples of 16 bytes, else, and on the
// host, one at a time: the part of a vector that a member owns may begin anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outer_opt/core/codec/formats.h"

namespace shoal::outer_opt::cuda {

// One rounding per operation, whatever flags the compiler was given.
SHOAL_HD inline float add_scaled(float sum, float factor, float value) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(sum, __fmul_rn(factor, value));
#else
  const float scaled = factor * value;
  return sum + scaled;
#endif
}

inline constexpr unsigned kQuad = 4;  // values that a lane takes in one piece
inline constexpr unsigned kLanes = 32;

struct alignas(16) Quad {
  float x[kQuad];
};

// Whether quads can be read and written in one piece there.
SHOAL_HD inline bool holds_quads(const float* values) {
#ifdef __CUDA_ARCH__
  return reinterpret_cast<std::uintptr_t>(values) % sizeof(Quad) == 0;
#else
  static_cast<void>(values);
  return false;
#endif
}

// in[at .. at + 4) of n values; zeros beyond.
SHOAL_HD inline Quad load_quad(const float* in, unsigned at, unsigned n) {
  if (at + kQuad <= n && holds_quads(in)) return *reinterpret_cast<const Quad*>(in + at);
  Quad quad{};
  for (unsigned j = 0; j < kQuad; ++j) {
    if (at + j < n) quad.x[j] = in[at + j];
  }
  return quad;
}

SHOAL_HD inline std::uint32_t largest(const Quad& quad) {
  std::uint32_t max = 0;
  for (const float x : quad.x) {
    const std::uint32_t bits = bits_of(x) & kMagnitude;
    if (bits > max) max = bits;
  }
  return max;
}

// Where decoded values go: over what is there, or added to it.
struct Overwrite {
  SHOAL_HD float operator()(float, float value) const { return value; }
};
struct Accumulate {
  float factor;
  SHOAL_HD float operator()(float sum, float value) const { return add_scaled(sum, factor, value); }
};

template <typename Put>
SHOAL_HD void put_quad(const Quad& values, unsigned at, unsigned n, Put put, float* out) {
  if (at + kQuad <= n && holds_quads(out)) {
    Quad& target = *reinterpret_cast<Quad*>(out + at);
    Quad kept = target;
    for (unsigned j = 0; j < kQuad; ++j) kept.x[j] = put(kept.x[j], values.x[j]);
    target = kept;
    return;
  }
  for (unsigned j = 0; j < kQuad; ++j) {
    if (at + j < n) out[at + j] = put(out[at + j], values.x[j]);
  }
}

// ---- int8: 256 values, two quads to a lane

struct Int8Block {
  static constexpr unsigned kValues = 256, kScaleBytes = 4, kRow = kLanes * kQuad;
  SHOAL_HD static constexpr std::size_t bytes(std::size_t n) { return kScaleBytes + n; }

  template <typename Group>
  SHOAL_HD static void encode(Group& warp, const float* in, unsigned n, std::byte* out) {
    const unsigned at = kQuad * warp.rank();
    const Quad low = load_quad(in, at, n), high = load_quad(in, at + kRow, n);
    const std::uint32_t a = largest(low), b = largest(high);
    const float scale = formats::Int8::scale_of(warp.max(a > b ? a : b));
    if (warp.rank() == 0) *reinterpret_cast<std::uint32_t*>(out) = bits_of(scale);
    store_codes(low, scale, at, n, out + kScaleBytes);
    store_codes(high, scale, at + kRow, n, out + kScaleBytes);
  }

  // false: the scale is not one that an encoder writes.
  template <typename Group, typename Put>
  SHOAL_HD static bool decode(Group& warp, const std::byte* in, unsigned n, Put put, float* out) {
    const float scale = float_of(*reinterpret_cast<const std::uint32_t*>(in));
    const unsigned at = kQuad * warp.rank();
    put_quad(load_codes(in + kScaleBytes, scale, at, n), at, n, put, out);
    put_quad(load_codes(in + kScaleBytes, scale, at + kRow, n), at + kRow, n, put, out);
    return formats::Int8::good_scale(scale);
  }

 private:
  SHOAL_HD static void store_codes(const Quad& quad, float scale, unsigned at, unsigned n,
                                   std::byte* out) {
    std::uint32_t word = 0;
    if (formats::Int8::holds_values(scale)) {
      for (unsigned j = 0; j < kQuad; ++j) {
        const auto code = static_cast<std::uint8_t>(formats::Int8::code(quad.x[j] / scale));
        word |= std::uint32_t{code} << 8 * j;
      }
    }
    if (at + kQuad <= n) {
      *reinterpret_cast<std::uint32_t*>(out + at) = word;
      return;
    }
    for (unsigned j = 0; j < kQuad; ++j) {
      if (at + j < n) out[at + j] = static_cast<std::byte>(word >> 8 * j & 0xffu);
    }
  }

  SHOAL_HD static Quad load_codes(const std::byte* in, float scale, unsigned at, unsigned n) {
    std::uint32_t word = 0;
    if (at + kQuad <= n) {
      word = *reinterpret_cast<const std::uint32_t*>(in + at);
    } else {
      for (unsigned j = 0; j < kQuad; ++j) {
        if (at + j < n) word |= static_cast<std::uint32_t>(in[at + j]) << 8 * j;
      }
    }
    Quad quad{};
    for (unsigned j = 0; j < kQuad; ++j) {
      quad.x[j] = formats::Int8::value(static_cast<std::int8_t>(word >> 8 * j & 0xffu), scale);
    }
    return quad;
  }
};

// ---- int4 and e3m0: 128 values, one quad to a lane

template <typename Format>
struct NibbleBlock {
  using Scale = formats::NibbleScale<Format>;
  static constexpr unsigned kValues = 128, kScaleBytes = 2;
  SHOAL_HD static constexpr std::size_t bytes(std::size_t n) { return kScaleBytes + (n + 1) / 2; }

  template <typename Group>
  SHOAL_HD static void encode(Group& warp, const float* in, unsigned n, std::byte* out) {
    const unsigned at = kQuad * warp.rank();
    const Quad quad = load_quad(in, at, n);
    const std::uint32_t bits = Scale::of(warp.max(largest(quad)));
    if (warp.rank() == 0) {
      *reinterpret_cast<std::uint16_t*>(out) = static_cast<std::uint16_t>(bits >> 16);
    }
    store_codes(quad, bits, at, n, out + kScaleBytes);
  }

  template <typename Group, typename Put>
  SHOAL_HD static bool decode(Group& warp, const std::byte* in, unsigned n, Put put, float* out) {
    const std::uint32_t bits = std::uint32_t{*reinterpret_cast<const std::uint16_t*>(in)} << 16;
    const unsigned at = kQuad * warp.rank();
    const std::uint32_t codes = load_codes(in + kScaleBytes, at, n);
    Quad quad{};
    for (unsigned j = 0; j < kQuad; ++j) {
      quad.x[j] = formats::nibble_value<Format>(codes >> 4 * j & 15u, float_of(bits));
    }
    put_quad(quad, at, n, put, out);
    return Scale::good(bits);
  }

 private:
  SHOAL_HD static void store_codes(const Quad& quad, std::uint32_t scale, unsigned at, unsigned n,
                                   std::byte* out) {
    std::uint32_t codes = 0;
    if (Scale::holds_values(scale)) {
      for (unsigned j = 0; j < kQuad; ++j) {
        if (at + j < n) codes |= Format::code(quad.x[j] / float_of(scale)) << 4 * j;
      }
    }
    if (at + kQuad <= n) {
      *reinterpret_cast<std::uint16_t*>(out + at / 2) = static_cast<std::uint16_t>(codes);
      return;
    }
    for (unsigned j = 0; j < kQuad; j += 2) {
      if (at + j < n) out[(at + j) / 2] = static_cast<std::byte>(codes >> 4 * j & 0xffu);
    }
  }

  SHOAL_HD static std::uint32_t load_codes(const std::byte* in, unsigned at, unsigned n) {
    if (at + kQuad <= n) return *reinterpret_cast<const std::uint16_t*>(in + at / 2);
    std::uint32_t codes = 0;
    for (unsigned j = 0; j < kQuad; j += 2) {
      if (at + j < n) codes |= static_cast<std::uint32_t>(in[(at + j) / 2]) << 4 * j;
    }
    return codes;
  }
};

// ---- formats without blocks: one quad to a thread

template <typename Format>
struct FlatQuad {
  using Stored = typename Format::Stored;
  struct alignas(kQuad * sizeof(Stored)) StoredQuad {
    Stored x[kQuad];
  };

  SHOAL_HD static void encode(const float* in, std::size_t n, std::byte* out) {
    auto* stored = reinterpret_cast<Stored*>(out);
    if (n >= kQuad) {
      const Quad quad = load_quad(in, 0, kQuad);
      StoredQuad packed{};
      for (unsigned j = 0; j < kQuad; ++j) packed.x[j] = Format::pack(quad.x[j]);
      *reinterpret_cast<StoredQuad*>(stored) = packed;
      return;
    }
    for (std::size_t j = 0; j < n; ++j) stored[j] = Format::pack(in[j]);
  }

  // false: a value is not finite.
  template <typename Put>
  SHOAL_HD static bool decode(const std::byte* in, std::size_t n, Put put, float* out) {
    const auto* stored = reinterpret_cast<const Stored*>(in);
    const auto count = static_cast<unsigned>(n < kQuad ? n : kQuad);
    StoredQuad packed{};
    if (count == kQuad) {
      packed = *reinterpret_cast<const StoredQuad*>(stored);
    } else {
      for (unsigned j = 0; j < count; ++j) packed.x[j] = stored[j];
    }
    Quad quad{};
    bool good = true;
    for (unsigned j = 0; j < count; ++j) {
      quad.x[j] = Format::unpack(packed.x[j]);
      good = good && finite(quad.x[j]);
    }
    put_quad(quad, 0, count, put, out);
    return good;
  }
};

// ---- what happens to one value of whole vectors

// The outer step (outer_opt/core/step/nesterov.h).

struct OuterStep {
  float lr, momentum;

  SHOAL_HD void operator()(float average, float& moment, float& anchor) const {
    const float now = add_scaled(average, momentum, moment);  // commutes: momentum * m + d
    const float direction = add_scaled(average, momentum, now);
    moment = now;
    anchor = add_scaled(anchor, -lr, direction);
  }
};

// What a replica makes of its local parameters (outer_opt/core/step/fragments.h, adopt()).
struct Adopt {
  float kept, taken;

  SHOAL_HD float operator()(float local, float anchor) const {
    if (kept == 0) return anchor;
#ifdef __CUDA_ARCH__
    return __fadd_rn(__fmul_rn(kept, local), __fmul_rn(taken, anchor));
#else
    const float mine = kept * local, theirs = taken * anchor;
    return mine + theirs;
#endif
  }
};

}  // namespace shoal::outer_opt::cuda
