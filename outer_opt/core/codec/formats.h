// The number formats of the codecs (codec.h), one value at a time: what the bits are, for the CPU
// (*_kernels.cc) and for CUDA (outer_opt/cuda) alike. Everything is built of comparisons, integer
// arithmetic and single fp32 operations that IEEE 754 rounds in one way, so both give the same bits
// as long as nothing is contracted and denormals are kept (cmake/Toolchain.cmake).
//
// fp16 and bf16 round to nearest, ties to even; a finite value beyond their range becomes the
// largest one, never an infinity. Blocks are scaled by their largest magnitude, which is found on
// the bit patterns, so that a NaN or an infinity ends up in the scale and is refused by the code
// that decodes. Scales whose smallest step would not be a normal number count as 0: denormals are
// treated differently by processes that flush them.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define SHOAL_HD __host__ __device__
#else
#define SHOAL_HD
#endif

namespace shoal::outer_opt {

inline constexpr std::uint32_t kMagnitude = 0x7fffffffu;
inline constexpr std::uint32_t kInfinity = 0x7f800000u;
inline constexpr std::uint32_t kSign = 0x80000000u;

SHOAL_HD constexpr std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
SHOAL_HD constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
SHOAL_HD constexpr bool finite(float value) { return (bits_of(value) & kMagnitude) < kInfinity; }

// To the nearest integer, ties to even: the default rounding mode.
SHOAL_HD inline int nearest_integer(float value) {
#ifdef __CUDA_ARCH__
  return __float2int_rn(value);
#else
  return static_cast<int>(std::lrintf(value));
#endif
}

// NaN becomes -limit.
SHOAL_HD constexpr float clamped(float value, float limit) {
  return value > limit ? limit : (value >= -limit ? value : -limit);
}

namespace formats {

struct Fp32 {
  using Stored = std::uint32_t;
  SHOAL_HD static Stored pack(float value) { return bits_of(value); }
  SHOAL_HD static float unpack(Stored bits) { return float_of(bits); }
};

struct Fp16 {
  using Stored = std::uint16_t;
  static constexpr std::uint32_t kLargest = 0x477fe000u;         // 65504
  static constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  static constexpr std::uint32_t kBias = 0x38000000u;            // (127 - 15) << 23
  static constexpr std::uint32_t kInf = 0x7c00u;

  SHOAL_HD static Stored pack(float value) {
    const std::uint32_t sign = (bits_of(value) & kSign) >> 16;
    return static_cast<Stored>(sign | pack_magnitude(bits_of(value) & kMagnitude));
  }
  SHOAL_HD static std::uint32_t pack_magnitude(std::uint32_t bits) {
    if (bits > kInfinity) return kInf | 0x200u | ((bits >> 13) & 0x3ffu);  // NaN, made quiet
    if (bits == kInfinity) return kInf;
    return pack_finite(bits < kLargest ? bits : kLargest);
  }
  SHOAL_HD static std::uint32_t pack_finite(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    std::uint16_t half;  // PTX ISA, cvt: subnormal numbers are supported
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(float_of(bits)));
    return half;
#else
    // Below the normal numbers the sum with 0.5 has a last place of 2^-24, as fp16 has there.
    if (bits < kSmallestNormal) return bits_of(float_of(bits) + 0.5f) - bits_of(0.5f);
    return (bits + 0xfffu + ((bits >> 13) & 1u) - kBias) >> 13;
#endif
  }
  SHOAL_HD static float unpack(Stored half) {
    const std::uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= kInf) return float_of(sign | kInfinity | ((rest & 0x3ffu) << 13));
    if (rest >= 0x400u) return float_of(sign | ((rest << 13) + kBias));
    return float_of(sign | bits_of(static_cast<float>(rest) * 0x1p-24f));
  }
};

struct Bf16 {
  using Stored = std::uint16_t;
  static constexpr std::uint32_t kLargest = 0x7f7fffffu;
  static constexpr std::uint32_t kQuiet = 0x00400000u;

  SHOAL_HD static Stored pack(float value) {
    const std::uint32_t sign = bits_of(value) & kSign;
    std::uint32_t bits = bits_of(value) & kMagnitude;
    if (bits > kInfinity) {
      bits |= kQuiet;
    } else if (bits < kInfinity) {
      bits += 0x7fffu + ((bits >> 16) & 1u);
      if (bits > kLargest) bits = kLargest;
    }
    return static_cast<Stored>((sign | bits) >> 16);
  }
  SHOAL_HD static float unpack(Stored half) {
    return float_of(static_cast<std::uint32_t>(half) << 16);
  }
};

// Formats of one byte. `Code` is the byte; a zero has no sign.
struct Int8 {
  using Code = std::int8_t;
  static constexpr float kLargest = 127;
  static constexpr float kSmallestScale = FLT_MIN;

  SHOAL_HD static Code code(float x) {  // x in units of the scale
    return static_cast<Code>(nearest_integer(clamped(x, kLargest)));
  }
  SHOAL_HD static constexpr bool good_code(Code) { return true; }
  SHOAL_HD static float value(Code code, float scale) { return static_cast<float>(code) * scale; }
};

// The upper half of fp16: the exponent has its bias, 15, and the mantissa two bits. Values are
// rounded once, from fp32.
struct E5m2 {
  using Code = std::uint8_t;
  static constexpr float kLargest = 57344;
  static constexpr float kSmallestScale = FLT_MIN * 0x1p16f;
  static constexpr std::uint32_t kLargestBits = bits_of(kLargest);
  static constexpr std::uint32_t kBias = Fp16::kBias;
  static constexpr std::uint32_t kSmallestNormal = Fp16::kSmallestNormal;
  static constexpr std::uint32_t kInf = 0x7c;  // and above it NaN

  SHOAL_HD static Code code(float x) {  // x in units of the scale
    const std::uint32_t magnitude = bits_of(x) & kMagnitude;
    const std::uint32_t code = pack_magnitude(magnitude < kLargestBits ? magnitude : kLargestBits);
    return static_cast<Code>(code | (code != 0 ? bits_of(x) >> 24 & 0x80u : 0u));
  }
  SHOAL_HD static std::uint32_t pack_magnitude(std::uint32_t bits) {
    // Below the normal numbers the sum with 128 has a last place of 2^-16, as e5m2 has there.
    if (bits < kSmallestNormal) return bits_of(float_of(bits) + 128.0f) - bits_of(128.0f);
    return (bits + 0xfffffu + ((bits >> 21) & 1u) - kBias) >> 21;
  }
  SHOAL_HD static constexpr bool good_code(Code code) { return (code & kInf) != kInf; }
  SHOAL_HD static float value(Code code, float scale) {
    return Fp16::unpack(static_cast<Fp16::Stored>(code << 8)) * scale;
  }
};

// The scale of a format of one byte, in fp32.
template <typename Format>
struct ByteScale {
  // The largest scale that does not carry the largest magnitude to infinity.
  static constexpr float kMax = float_of(bits_of(FLT_MAX / Format::kLargest) - 1);

  // The scale of a block, from its largest magnitude; what is not finite stays so.
  SHOAL_HD static float of(std::uint32_t max_bits) {
    const float max = float_of(max_bits);
    if (max_bits >= kInfinity) return max;
    const float scale = max / Format::kLargest;
    if (scale < Format::kSmallestScale) return 0;
    return scale < kMax ? scale : kMax;
  }
  // false also for negative scales, which no encoder writes, and for NaN.
  SHOAL_HD static bool good(float scale) { return (bits_of(scale) & kSign) == 0 && scale <= kMax; }
  SHOAL_HD static bool holds_values(float scale) { return scale != 0 && finite(scale); }
};

// Four-bit formats: three bits choose a magnitude, the fourth is the sign; a zero has none.
struct Int4 {
  static constexpr float kLargest = 7;
  static constexpr float kSmallestScale = FLT_MIN;

  SHOAL_HD static unsigned code(float x) {
    const int q = nearest_integer(clamped(x, kLargest));
    return static_cast<unsigned>(q < 0 ? 8 - q : q);
  }
  SHOAL_HD static float magnitude(unsigned code) { return static_cast<float>(code); }
};

struct E3m0 {
  static constexpr float kLargest = 1;
  static constexpr float kSmallestScale = FLT_MIN * 64;
  // The exponent of 2^-7 as fp32 has it, which would be the code 0.
  static constexpr std::uint32_t kBase = 120;
  static constexpr std::uint32_t kHalfOfSmallest = kBase << 23;

  // To the nearest power of two: from 1.5 times one on, the next; halves of the smallest count up.
  SHOAL_HD static unsigned code(float x) {
    const std::uint32_t bits = bits_of(x) & kMagnitude;
    const std::uint32_t exponent = (bits + 0x00400000u) >> 23;
    std::uint32_t code = exponent > kBase ? exponent - kBase : 0u;
    if (code > 7) code = 7;
    if (bits >= kHalfOfSmallest && code == 0) code = 1;
    return code | (code != 0 ? (bits_of(x) >> 31) << 3 : 0);
  }
  SHOAL_HD static float magnitude(unsigned code) {
    return code == 0 ? 0.0f : float_of((kBase + code) << 23);
  }
};

// The scale of the four-bit formats, in bf16, kept as the fp32 bits whose lower half is 0, rounded
// up so that no value is beyond the largest magnitude.
template <typename Format>
struct NibbleScale {
  // The largest one whose largest magnitude is not infinite.
  static constexpr std::uint32_t kMax = bits_of(FLT_MAX / Format::kLargest) & 0xffff0000u;

  // The scale of a block, from its largest magnitude; what is not finite stays so.
  SHOAL_HD static std::uint32_t of(std::uint32_t max_bits) {
    if (max_bits > kInfinity) return kInfinity | 0x00400000u;
    if (max_bits == kInfinity) return kInfinity;
    const float scale = float_of(max_bits) / Format::kLargest;
    if (scale < Format::kSmallestScale) return 0;
    const std::uint32_t up = (bits_of(scale) + 0xffffu) & 0xffff0000u;
    return up < kMax ? up : kMax;
  }
  // false for negative ones, which no encoder writes, for infinity and NaN.
  SHOAL_HD static bool good(std::uint32_t bits) { return bits <= kMax; }
  SHOAL_HD static bool holds_values(std::uint32_t bits) { return bits != 0 && bits < kInfinity; }
};

template <typename Format>
SHOAL_HD float nibble_value(unsigned code, float scale) {
  const float magnitude = Format::magnitude(code & 7u) * scale;
  return code < 8 ? magnitude : -magnitude;
}

}  // namespace formats
}  // namespace shoal::outer_opt
