// What the blocks of formats of one byte (int8, e5m2) and of four bits (int4, e3m0) differ in on a
// device: scales, and codes of several values in one word, with the bits of
// outer_opt/core/codec/formats.h. blocks.h deals them to lanes.
#pragma once

#include <type_traits>

#include "outer_opt/cuda/lanes.h"

namespace shoal::outer_opt::cuda {

// The codes of values in units of the scale.
template <unsigned kWidth>
SHOAL_HD std::uint32_t byte_codes(formats::Int8, const Pack<float, kWidth>& units) {
  std::uint32_t word = 0;
  for (unsigned j = 0; j < kWidth; ++j) {
    // The sum has a last place of 1, so its lower bits are the nearest integer.
    word |= (bits_of(units.x[j] + 0x1.8p23f) & 0xffu) << 8 * j;
  }
  return word;
}
template <unsigned kWidth>
SHOAL_HD std::uint32_t byte_codes(formats::E5m2, const Pack<float, kWidth>& units) {
  std::uint32_t word = 0;
  for (unsigned j = 0; j < kWidth; ++j) {
    word |= std::uint32_t{formats::E5m2::code(units.x[j])} << 8 * j;
  }
  return word;
}

// A format gives the size of a block, its scale, and the codes; `Word<kWidth>` holds those of a
// row.
//   kNarrow       the fewest values that a lane can take
//   ScaleWord     the scale in the encoding; shifted by kScaleShift it is one in fp32
//   good_code()   false for the codes of infinity and NaN
template <typename Format>
struct ByteFormat {
  static constexpr unsigned kValues = 256, kNarrow = 1, kCodeBits = 8, kScaleShift = 0;
  using InUnits = Quotients<2>;
  using Scale = formats::ByteScale<Format>;
  using Code = typename Format::Code;
  using ScaleWord = std::uint32_t;
  template <unsigned kWidth>
  using Word = std::conditional_t<kWidth == 4, std::uint32_t, std::uint8_t>;

  SHOAL_HD static std::uint32_t scale_of(std::uint32_t max_bits) {
    return bits_of(Scale::of(max_bits));
  }
  SHOAL_HD static bool holds_values(std::uint32_t scale) {
    return Scale::holds_values(float_of(scale));
  }
  SHOAL_HD static bool good_scale(std::uint32_t scale) { return Scale::good(float_of(scale)); }
  template <unsigned kWidth>
  SHOAL_HD static std::uint32_t codes(const Pack<float, kWidth>& units) {
    return byte_codes(Format{}, units);
  }
  SHOAL_HD static bool good_code(std::uint32_t code) {
    return Format::good_code(static_cast<Code>(code));
  }
  SHOAL_HD static float value(std::uint32_t code, std::uint32_t scale) {
    return Format::value(static_cast<Code>(code), float_of(scale));
  }
};

// The signs of values as the upper bits of nibbles, and some bits of theirs below.
template <unsigned kWidth>
SHOAL_HD std::uint32_t signs_of(const Pack<float, kWidth>& values) {
  std::uint32_t signs = 0;
  for (unsigned j = kWidth; j-- > 0;) {
#ifdef __CUDA_ARCH__
    signs = __funnelshift_l(bits_of(values.x[j]), signs, 4);
#else
    signs = signs << 4 | bits_of(values.x[j]) >> 28;
#endif
  }
  return signs;
}

// The codes of magnitudes in units of the scale.
template <unsigned kWidth>
SHOAL_HD std::uint32_t magnitude_codes(formats::Int4, const Pack<float, kWidth>& units) {
  constexpr float kWhole = 0x1p23f;  // beyond it all numbers are whole
  float all = 0;
  for (unsigned j = kWidth; j-- > 0;) {
    all = fused(all, 16.0f, (fabsf(units.x[j]) + kWhole) - kWhole);
  }
  return bits_of(all + kWhole) & 0xffffu;
}
// From 1.5 times a power of two on the product with 4/3 has the next exponent: that of the float
// before 1.5 rounds down.
template <unsigned kWidth>
SHOAL_HD std::uint32_t magnitude_codes(formats::E3m0, const Pack<float, kWidth>& units) {
  constexpr std::uint32_t kZero = formats::E3m0::kBase;
  std::uint32_t all = 0, zeros = 0;
  for (unsigned j = 0; j < kWidth; ++j) {
    const float magnitude = fabsf(units.x[j]);
    const std::uint32_t exponent = bits_of(fmaxf(magnitude, 0x1p-6f) * (4.0f / 3.0f)) >> 23;
    all += (magnitude < 0x1p-7f ? kZero : exponent) << 4 * j;
    zeros += kZero << 4 * j;
  }
  return all - zeros;
}

template <typename Format>
struct NibbleFormat {
  static constexpr unsigned kValues = 128, kNarrow = 2, kCodeBits = 4, kScaleShift = 16;
  using InUnits = Quotients<1>;
  using Scale = formats::NibbleScale<Format>;
  using ScaleWord = std::uint16_t;
  template <unsigned kWidth>
  using Word = std::conditional_t<kWidth == 4, std::uint16_t, std::uint8_t>;

  SHOAL_HD static std::uint32_t scale_of(std::uint32_t max_bits) { return Scale::of(max_bits); }
  SHOAL_HD static bool holds_values(std::uint32_t scale) { return Scale::holds_values(scale); }
  SHOAL_HD static bool good_scale(std::uint32_t scale) { return Scale::good(scale); }
  template <unsigned kWidth>
  SHOAL_HD static std::uint32_t codes(const Pack<float, kWidth>& units) {
    const std::uint32_t codes = magnitude_codes(Format{}, units);
    const std::uint32_t some = codes + 0x7777u;  // the upper bit is set where there is a magnitude
    return codes | (signs_of(units) & some & 0x8888u);
  }
  SHOAL_HD static bool good_code(std::uint32_t) { return true; }
  SHOAL_HD static float value(std::uint32_t code, std::uint32_t scale) {
    return formats::nibble_value<Format>(code, float_of(scale));
  }
};

}  // namespace shoal::outer_opt::cuda
