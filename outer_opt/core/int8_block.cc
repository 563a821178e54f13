// The scalar reference and the AVX2 versions of the codec's inner loops. Every product and every
// sum is rounded on its own (no FMA is enabled for these functions), and no loop reorders a sum, so
// both versions and all vector widths agree to the bit.
#include "outer_opt/core/int8_block.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#define SHOAL_AVX2 __attribute__((target("avx2")))
#endif

namespace shoal::outer_opt {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu;
constexpr std::uint32_t kInfinity = 0x7f800000u;

float load(const std::byte* in) {
  float value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

bool finite(float value) { return (std::bit_cast<std::uint32_t>(value) & kMagnitude) < kInfinity; }

// The largest scale that 127 steps do not carry to infinity.
constexpr float kScaleMax = std::bit_cast<float>(
    std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max() / 127.0f) - 1);

// false also for negative scales, which no encoder writes, and for NaN.
bool good_scale(float scale) { return !std::signbit(scale) && scale <= kScaleMax; }

float scale_of(std::uint32_t max_bits) {
  const float max = std::bit_cast<float>(max_bits);
  if (max_bits >= kInfinity) return max;
  const float scale = max / 127.0f;
  return scale < FLT_MIN ? 0.0f : std::min(scale, kScaleMax);
}

// Writes the values; the default rounding mode is to nearest, ties to even.
void quantise(const float* in, std::size_t n, float scale, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const float x = in[i] / scale;
    const float clamped = x > 127.0f ? 127.0f : (x >= -127.0f ? x : -127.0f);
    out[i] = static_cast<std::byte>(static_cast<std::int8_t>(std::lrintf(clamped)));
  }
}

void encode_reference(const float* in, std::size_t n, std::byte* out) {
  std::uint32_t max_bits = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(in[i]) & kMagnitude;
    if (bits > max_bits) max_bits = bits;
  }
  const float scale = scale_of(max_bits);
  std::memcpy(out, &scale, sizeof scale);
  if (scale == 0.0f || !finite(scale)) {
    std::memset(out + 4, 0, n);
  } else {
    quantise(in, n, scale, out + 4);
  }
}

bool decode_reference(const std::byte* in, std::size_t n, float* out) {
  const float scale = load(in);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(static_cast<std::int8_t>(in[4 + i])) * scale;
  }
  return good_scale(scale);
}

bool accumulate_reference(const std::byte* in, std::size_t n, float factor, float* sum) {
  const float scale = load(in);
  for (std::size_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(static_cast<std::int8_t>(in[4 + i])) * scale;
    const float scaled = factor * value;
    sum[i] = sum[i] + scaled;
  }
  return good_scale(scale);
}

bool fp32_copy_reference(const std::byte* in, std::size_t n, float* out) {
  bool good = true;
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = load(in + 4 * i);
    good &= finite(out[i]);
  }
  return good;
}

bool fp32_accumulate_reference(const std::byte* in, std::size_t n, float factor, float* sum) {
  bool good = true;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = load(in + 4 * i);
    good &= finite(value);
    const float scaled = factor * value;
    sum[i] = sum[i] + scaled;
  }
  return good;
}

#if defined(__x86_64__)

SHOAL_AVX2 std::uint32_t max_bits_avx2(const float* in, std::size_t n) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(kMagnitude));
  __m256i max = _mm256_setzero_si256();
  for (std::size_t i = 0; i < n; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    max = _mm256_max_epi32(max, _mm256_and_si256(bits, mask));
  }
  __m128i half = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
}

SHOAL_AVX2 __m256i quantise_8(const float* in, __m256 scale) {
  const __m256 x = _mm256_div_ps(_mm256_loadu_ps(in), scale);
  const __m256 low = _mm256_max_ps(x, _mm256_set1_ps(-127.0f));
  return _mm256_cvtps_epi32(_mm256_min_ps(low, _mm256_set1_ps(127.0f)));
}

SHOAL_AVX2 void encode_avx2(const float* in, std::size_t n, std::byte* out) {
  if (n % 32 != 0) return encode_reference(in, n, out);
  const float scale = scale_of(max_bits_avx2(in, n));
  std::memcpy(out, &scale, sizeof scale);
  out += 4;
  if (scale == 0.0f || !finite(scale)) {
    std::memset(out, 0, n);
    return;
  }
  const __m256 s = _mm256_set1_ps(scale);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes the packs' lanes
  for (std::size_t i = 0; i < n; i += 32) {
    const __m256i ab = _mm256_packs_epi32(quantise_8(in + i, s), quantise_8(in + i + 8, s));
    const __m256i cd = _mm256_packs_epi32(quantise_8(in + i + 16, s), quantise_8(in + i + 24, s));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bytes);
  }
}

SHOAL_AVX2 __m256 dequantise_8(const std::byte* in, __m256 scale) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), scale);
}

SHOAL_AVX2 bool decode_avx2(const std::byte* in, std::size_t n, float* out) {
  if (n % 8 != 0) return decode_reference(in, n, out);
  const float scale = load(in);
  const __m256 s = _mm256_set1_ps(scale);
  for (std::size_t i = 0; i < n; i += 8) _mm256_storeu_ps(out + i, dequantise_8(in + 4 + i, s));
  return good_scale(scale);
}

SHOAL_AVX2 bool accumulate_avx2(const std::byte* in, std::size_t n, float factor, float* sum) {
  if (n % 8 != 0) return accumulate_reference(in, n, factor, sum);
  const float scale = load(in);
  const __m256 s = _mm256_set1_ps(scale), f = _mm256_set1_ps(factor);
  for (std::size_t i = 0; i < n; i += 8) {
    const __m256 scaled = _mm256_mul_ps(f, dequantise_8(in + 4 + i, s));
    _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), scaled));
  }
  return good_scale(scale);
}

// Collects, per lane, the largest magnitude seen; lanes at infinity or above were not finite.
SHOAL_AVX2 bool all_finite(__m256i max) {
  const __m256i limit = _mm256_set1_epi32(static_cast<int>(kInfinity - 1));
  return _mm256_testz_si256(_mm256_cmpgt_epi32(max, limit), _mm256_set1_epi32(-1)) != 0;
}

SHOAL_AVX2 bool fp32_copy_avx2(const std::byte* in, std::size_t n, float* out) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(kMagnitude));
  __m256i max = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + 4 * i));
    max = _mm256_max_epi32(max, _mm256_and_si256(bits, mask));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bits);
  }
  return fp32_copy_reference(in + 4 * i, n - i, out + i) && all_finite(max);
}

SHOAL_AVX2 bool fp32_accumulate_avx2(const std::byte* in, std::size_t n, float factor, float* sum) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(kMagnitude));
  const __m256 f = _mm256_set1_ps(factor);
  __m256i max = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + 4 * i));
    max = _mm256_max_epi32(max, _mm256_and_si256(bits, mask));
    const __m256 scaled = _mm256_mul_ps(f, _mm256_castsi256_ps(bits));
    _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), scaled));
  }
  return fp32_accumulate_reference(in + 4 * i, n - i, factor, sum + i) && all_finite(max);
}

constexpr Int8Kernels kInt8Avx2{encode_avx2, decode_avx2, accumulate_avx2};
constexpr Fp32Kernels kFp32Avx2{fp32_copy_avx2, fp32_accumulate_avx2};

#endif  // __x86_64__

}  // namespace

constexpr Int8Kernels kInt8Reference{encode_reference, decode_reference, accumulate_reference};
constexpr Fp32Kernels kFp32Reference{fp32_copy_reference, fp32_accumulate_reference};

#if defined(__x86_64__)
const Int8Kernels& int8_kernels() {
  return __builtin_cpu_supports("avx2") ? kInt8Avx2 : kInt8Reference;
}
const Fp32Kernels& fp32_kernels() {
  return __builtin_cpu_supports("avx2") ? kFp32Avx2 : kFp32Reference;
}
#else
const Int8Kernels& int8_kernels() { return kInt8Reference; }
const Fp32Kernels& fp32_kernels() { return kFp32Reference; }
#endif

}  // namespace shoal::outer_opt
