// int8: the scalar reference and the AVX2 version of one block, which is the scale in fp32 and then
// one byte per value.
#include "outer_opt/core/codec/codec_kernels.h"
#include "outer_opt/core/codec/kernel_math.h"

namespace shoal::outer_opt {
namespace {

using formats::Int8;

void quantize(const float* in, std::size_t n, float scale, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(Int8::code(in[i] / scale));
}

float value_at(const std::byte* in, std::size_t i, float scale) {
  return Int8::value(static_cast<std::int8_t>(in[4 + i]), scale);
}

void encode_reference(const float* in, std::size_t n, std::byte* out) {
  const float scale = Int8::scale_of(max_bits(in, n));
  std::memcpy(out, &scale, sizeof scale);
  if (Int8::holds_values(scale)) {
    quantize(in, n, scale, out + 4);
  } else {
    std::memset(out + 4, 0, n);
  }
}

bool decode_reference(const std::byte* in, std::size_t n, float* out) {
  const float scale = load_as<float>(in);
  for (std::size_t i = 0; i < n; ++i) out[i] = value_at(in, i, scale);
  return Int8::good_scale(scale);
}

bool accumulate_reference(const std::byte* in, std::size_t n, float factor, float* sum,
                          double* squares) {
  const float scale = load_as<float>(in);
  std::int64_t units = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float scaled = factor * value_at(in, i, scale);
    sum[i] = sum[i] + scaled;
    const int code = static_cast<std::int8_t>(in[4 + i]);
    units += code * code;
  }
  add_block_squares(squares, units, scale);
  return Int8::good_scale(scale);
}

#if defined(__x86_64__)

SHOAL_AVX2 __m256i quantize_8(const float* in, __m256 scale) {
  const __m256 x = _mm256_div_ps(_mm256_loadu_ps(in), scale);
  const __m256 low = _mm256_max_ps(x, _mm256_set1_ps(-127.0f));
  return _mm256_cvtps_epi32(_mm256_min_ps(low, _mm256_set1_ps(127.0f)));
}

SHOAL_AVX2 void encode_avx2(const float* in, std::size_t n, std::byte* out) {
  if (n % 32 != 0) return encode_reference(in, n, out);
  const float scale = Int8::scale_of(max_bits_avx2(in, n));
  std::memcpy(out, &scale, sizeof scale);
  out += 4;
  if (!Int8::holds_values(scale)) {
    std::memset(out, 0, n);
    return;
  }
  const __m256 s = _mm256_set1_ps(scale);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes the packs' lanes
  for (std::size_t i = 0; i < n; i += 32) {
    const __m256i ab = _mm256_packs_epi32(quantize_8(in + i, s), quantize_8(in + i + 8, s));
    const __m256i cd = _mm256_packs_epi32(quantize_8(in + i + 16, s), quantize_8(in + i + 24, s));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bytes);
  }
}

SHOAL_AVX2 __m256 dequantize_8(const std::byte* in, __m256 scale) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), scale);
}

SHOAL_AVX2 bool decode_avx2(const std::byte* in, std::size_t n, float* out) {
  if (n % 8 != 0) return decode_reference(in, n, out);
  const float scale = load_as<float>(in);
  const __m256 s = _mm256_set1_ps(scale);
  for (std::size_t i = 0; i < n; i += 8) _mm256_storeu_ps(out + i, dequantize_8(in + 4 + i, s));
  return Int8::good_scale(scale);
}

// Adds the squares of a block: 2^22 at most.
SHOAL_AVX2 int sum_of_4(__m128i x) {
  const __m128i pairs = _mm_add_epi32(x, _mm_unpackhi_epi64(x, x));
  return _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 1)));
}

SHOAL_AVX2 bool accumulate_avx2(const std::byte* in, std::size_t n, float factor, float* sum,
                                double* squares) {
  if (n % 8 != 0) return accumulate_reference(in, n, factor, sum, squares);
  const float scale = load_as<float>(in);
  const __m256 s = _mm256_set1_ps(scale), f = _mm256_set1_ps(factor);
  __m128i units = _mm_setzero_si128();
  for (std::size_t i = 0; i < n; i += 8) {
    add_scaled_8(sum + i, f, dequantize_8(in + 4 + i, s));
    const __m128i codes =
        _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + 4 + i)));
    units = _mm_add_epi32(units, _mm_madd_epi16(codes, codes));
  }
  add_block_squares(squares, sum_of_4(units), scale);
  return Int8::good_scale(scale);
}

constexpr CodecKernels kAvx2{encode_avx2, decode_avx2, accumulate_avx2};

#endif  // __x86_64__

}  // namespace

constexpr CodecKernels kInt8Reference{encode_reference, decode_reference, accumulate_reference};
#if defined(__x86_64__)
constexpr CodecKernels kInt8Avx2 = kAvx2;
#else
constexpr CodecKernels kInt8Avx2 = kInt8Reference;
#endif

}  // namespace shoal::outer_opt
