// What the CPU kernels of the codecs share: loads, and the largest magnitude of a block.
// To be included by the *_kernels.cc only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "outer_opt/core/codec/formats.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define SHOAL_AVX2 __attribute__((target("avx2,f16c")))
#endif

namespace shoal::outer_opt {

template <typename T>
T load_as(const std::byte* in) {
  T value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

inline std::uint32_t max_bits(const float* in, std::size_t n) {
  std::uint32_t max = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = bits_of(in[i]) & kMagnitude;
    if (bits > max) max = bits;
  }
  return max;
}

inline void add_square(double* squares, std::size_t i, float value) {
  const double v = value;
  const double square = v * v;
  squares[i % 8] = squares[i % 8] + square;
}

// The values of a block are whole multiples of `unit`, whose squares sum to `units` of unit^2.
inline void add_block_squares(double* squares, std::int64_t units, double unit) {
  const double sum = static_cast<double>(units) * (unit * unit);
  squares[0] = squares[0] + sum;
}

#if defined(__x86_64__)

// The eight lanes of a SquareSum while a kernel runs.
struct Squares8 {
  __m256d low, high;
};
SHOAL_AVX2 inline Squares8 load_squares(const double* squares) {
  return {_mm256_loadu_pd(squares), _mm256_loadu_pd(squares + 4)};
}
SHOAL_AVX2 inline void store_squares(const Squares8& from, double* squares) {
  _mm256_storeu_pd(squares, from.low);
  _mm256_storeu_pd(squares + 4, from.high);
}
SHOAL_AVX2 inline void add_squares_8(Squares8& squares, __m256 value) {
  const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(value));
  const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(value, 1));
  squares.low = _mm256_add_pd(squares.low, _mm256_mul_pd(low, low));
  squares.high = _mm256_add_pd(squares.high, _mm256_mul_pd(high, high));
}

SHOAL_AVX2 inline __m256i broadcast(std::uint32_t bits) {
  return _mm256_set1_epi32(static_cast<int>(bits));
}

// n is a multiple of 8.
SHOAL_AVX2 inline std::uint32_t max_bits_avx2(const float* in, std::size_t n) {
  const __m256i mask = broadcast(kMagnitude);
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

// sum[0..8) += factor * value, one multiplication and one addition.
SHOAL_AVX2 inline void add_scaled_8(float* sum, __m256 factor, __m256 value) {
  const __m256 scaled = _mm256_mul_ps(factor, value);
  _mm256_storeu_ps(sum, _mm256_add_ps(_mm256_loadu_ps(sum), scaled));
}

#endif  // __x86_64__

}  // namespace shoal::outer_opt
