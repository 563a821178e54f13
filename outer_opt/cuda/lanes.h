// What the bodies of the CUDA kernels (kernels.cu) share: blocks.h (formats with blocks), streams.h
// (what is done value by value) and sparse_lanes.h (sparse2). They are templates over the group of
// threads that runs them: on a GPU a warp or a thread block, in lanes_test.cc lanes that take turns
// on the host, which is how the bytes are compared with the CPU's on machines without a GPU.
//
// A group has
//   unsigned rank();                             this thread
//   std::uint32_t max(std::uint32_t value);      warps: over all threads; everybody calls it
//   std::uint32_t from(std::uint32_t value, unsigned rank);  warps: that of this thread; likewise
// and thread blocks what sparse_lanes.h asks for. A warp has 32 threads.
//
// Everything is loaded first and then worked on, several blocks at a time, so that many bytes are
// under way. Values are taken four at a time where they lie at multiples of 16 bytes. The part of a
// vector that a member owns may begin anywhere; then, and in the block at the end that is not full,
// neighboring lanes take neighboring values, as few at a time as the encoding allows.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "outer_opt/core/codec/formats.h"

#ifdef __CUDA_ARCH__
#define SHOAL_UNROLL _Pragma("unroll")
#else
#define SHOAL_UNROLL
#endif

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
SHOAL_HD inline float fused(float a, float b, float c) {  // a * b + c in one rounding
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

inline constexpr unsigned kQuad = 4;  // values that a lane takes in one piece
inline constexpr unsigned kLanes = 32;

// Values that are read or written in one piece.
template <typename T, unsigned kWidth>
struct alignas(kWidth * sizeof(T)) Pack {
  T x[kWidth];
};

// Whether packs can be read and written there.
template <unsigned kWidth, typename T>
SHOAL_HD bool holds_packs(const T* values) {
  return reinterpret_cast<std::uintptr_t>(values) % sizeof(Pack<T, kWidth>) == 0;
}
template <unsigned kWidth, typename T>
SHOAL_HD Pack<T, kWidth> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(from);
}
template <unsigned kWidth, typename T>
SHOAL_HD void store_pack(const Pack<T, kWidth>& pack, T* to) {
  *reinterpret_cast<Pack<T, kWidth>*>(to) = pack;
}

// Where decoded values go: over what is there, or added to it.
struct Overwrite {
  static constexpr bool kReads = false;
  SHOAL_HD float operator()(float, float value) const { return value; }
};
struct Accumulate {
  static constexpr bool kReads = true;
  float factor;
  SHOAL_HD float operator()(float sum, float value) const { return add_scaled(sum, factor, value); }
};

// Quotients by one divisor, a positive normal number, each as IEEE 754 rounds it, or too small for
// any code where it or its dividend is below 2^-100; not for infinities and NaN. A division takes
// two instructions of the slow unit per value, this takes none: the divisor is brought to [2, 4) by
// a power of two, which changes no quotient, and inverted once.
//
// The first step leaves less than one unit in the last place, and then Markstein's theorem holds
// (Computation of elementary functions on the IBM RISC System/6000 processor, 1990, theorem 8):
// with a correctly rounded inverse the second step rounds correctly. For a divisor of 8 bits, as
// bf16 has, one step is enough: the quotient of 24 bits by 8 is never in the middle between two
// numbers of 24, and never nearer to it than 2^-9 of the last place, where the step is off by
// 2^-23.
template <unsigned kSteps>
class Quotients {
 public:
  SHOAL_HD static float inverse_of(float divisor) { return 1.0f / (divisor * power_for(divisor)); }

  SHOAL_HD explicit Quotients(float divisor) : Quotients(divisor, inverse_of(divisor)) {}
  SHOAL_HD Quotients(float divisor, float inverse)
      : down_(power_for(divisor)), divisor_(divisor * down_), inverse_(inverse) {}

  SHOAL_HD float operator()(float x) const {
    const float scaled = x * down_;
    float quotient = scaled * inverse_;
    for (unsigned step = 0; step < kSteps; ++step) {
      quotient = fused(fused(-quotient, divisor_, scaled), inverse_, quotient);
    }
    return quotient;
  }

 private:
  SHOAL_HD static float power_for(float divisor) {
    constexpr std::uint32_t kExponent = 0x7f800000u;  // what 2^e and 2^(1-e) come to together, too
    return float_of(kExponent - (bits_of(divisor) & kExponent));
  }

  float down_, divisor_, inverse_;
};

// What a lane holds of a block: packs in rows, each of which goes over all lanes.
template <unsigned kValues, unsigned kWidth>
struct LaneValues {
  static constexpr unsigned kRows = kValues / (kLanes * kWidth);
  static constexpr bool kWide = kWidth == kQuad;  // whole blocks only, where packs can be read
  Pack<float, kWidth> row[kRows];

  SHOAL_HD static unsigned first(unsigned rank, unsigned r) { return (r * kLanes + rank) * kWidth; }
};

// Loads n values; zeros beyond.
template <unsigned kValues, unsigned kWidth>
SHOAL_HD LaneValues<kValues, kWidth> load_values(unsigned rank, const float* in, unsigned n) {
  LaneValues<kValues, kWidth> values;
  SHOAL_UNROLL
  for (unsigned r = 0; r < values.kRows; ++r) {
    const unsigned at = values.first(rank, r);
    if constexpr (values.kWide) {
      values.row[r] = load_pack<kWidth>(in + at);
    } else {
      for (unsigned j = 0; j < kWidth; ++j) values.row[r].x[j] = at + j < n ? in[at + j] : 0.0f;
    }
  }
  return values;
}

template <unsigned kValues, unsigned kWidth>
SHOAL_HD std::uint32_t largest(const LaneValues<kValues, kWidth>& values) {
  std::uint32_t max = 0;
  for (const auto& row : values.row) {
    for (const float x : row.x) {
      const std::uint32_t bits = bits_of(x) & kMagnitude;
      if (bits > max) max = bits;
    }
  }
  return max;
}

// What is there now, if it matters.
template <unsigned kValues, unsigned kWidth, typename Put>
SHOAL_HD LaneValues<kValues, kWidth> load_target(unsigned rank, Put, const float* out, unsigned n) {
  if constexpr (Put::kReads) return load_values<kValues, kWidth>(rank, out, n);
  return {};
}

template <unsigned kValues, unsigned kWidth, typename Put>
SHOAL_HD void put_values(unsigned rank, const LaneValues<kValues, kWidth>& values,
                         LaneValues<kValues, kWidth> target, Put put, float* out, unsigned n) {
  SHOAL_UNROLL
  for (unsigned r = 0; r < values.kRows; ++r) {
    const unsigned at = values.first(rank, r);
    auto& row = target.row[r];
    for (unsigned j = 0; j < kWidth; ++j) row.x[j] = put(row.x[j], values.row[r].x[j]);
    if constexpr (values.kWide) {
      store_pack(row, out + at);
    } else {
      for (unsigned j = 0; j < kWidth; ++j) {
        if (at + j < n) out[at + j] = row.x[j];
      }
    }
  }
}

}  // namespace shoal::outer_opt::cuda
