// int8 and e5m2: blocks of values of one byte (formats.h) after a scale in fp32. The two formats
// differ in how a value is rounded to its code, in what a code is worth, and in how squares are
// summed: those of whole codes as integers, those of floats as doubles.
#include "outer_opt/core/codec/codec_traits.h"
#include "outer_opt/core/codec/kernel_math.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kScaleBytes = 4;

struct Int8 : formats::Int8 {
  static constexpr bool kWhole = true;  // codes are whole numbers of scales
#if defined(__x86_64__)
  SHOAL_AVX2 static __m256i codes(__m256 x) {
    const __m256 low = _mm256_max_ps(x, _mm256_set1_ps(-127.0f));
    return _mm256_cvtps_epi32(_mm256_min_ps(low, _mm256_set1_ps(127.0f)));
  }
  SHOAL_AVX2 static __m256 values(__m128i codes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
  }
  SHOAL_AVX2 static __m128i bad_codes(__m128i) { return _mm_setzero_si128(); }
#endif
};

struct E5m2 : formats::E5m2 {
  static constexpr bool kWhole = false;
#if defined(__x86_64__)
  SHOAL_AVX2 static __m256i codes(__m256 x) {
    const __m256i all = _mm256_castps_si256(x);
    const __m256i magnitude =
        _mm256_min_epi32(_mm256_and_si256(all, broadcast(kMagnitude)), broadcast(kLargestBits));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(magnitude, 21), broadcast(1));
    const __m256i up = _mm256_add_epi32(odd, broadcast(0xfffffu - kBias));
    const __m256i normal = _mm256_srli_epi32(_mm256_add_epi32(magnitude, up), 21);
    const __m256 shifted = _mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_set1_ps(128.0f));
    const __m256i subnormal =
        _mm256_sub_epi32(_mm256_castps_si256(shifted), broadcast(bits_of(128.0f)));
    const __m256i is_small = _mm256_cmpgt_epi32(broadcast(kSmallestNormal), magnitude);
    const __m256i code = _mm256_blendv_epi8(normal, subnormal, is_small);
    // As a negative byte where there is a sign, because packing saturates signed numbers.
    const __m256i sign = _mm256_slli_epi32(_mm256_srai_epi32(all, 31), 7);
    const __m256i zero = _mm256_cmpeq_epi32(code, _mm256_setzero_si256());
    return _mm256_or_si256(code, _mm256_andnot_si256(zero, sign));
  }
  SHOAL_AVX2 static __m256 values(__m128i codes) {
    return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(codes), 8));
  }
  SHOAL_AVX2 static __m128i bad_codes(__m128i codes) {
    const __m128i exponent = _mm_set1_epi8(kInf);
    return _mm_cmpeq_epi8(_mm_and_si128(codes, exponent), exponent);
  }
#endif
};

template <typename Format>
using Scale = formats::ByteScale<Format>;

template <typename Format>
typename Format::Code code_at(const std::byte* in, std::size_t i) {
  return static_cast<typename Format::Code>(in[kScaleBytes + i]);
}

template <typename Format>
void encode_reference(const float* in, std::size_t n, std::byte* out) {
  const float scale = Scale<Format>::of(max_bits(in, n));
  std::memcpy(out, &scale, sizeof scale);
  out += kScaleBytes;
  if (!Scale<Format>::holds_values(scale)) {
    std::memset(out, 0, n);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(Format::code(in[i] / scale));
}

template <typename Format>
bool decode_reference(const std::byte* in, std::size_t n, float* out) {
  const float scale = load_as<float>(in);
  bool good = Scale<Format>::good(scale);
  for (std::size_t i = 0; i < n; ++i) {
    const auto code = code_at<Format>(in, i);
    good &= Format::good_code(code);
    out[i] = Format::value(code, scale);
  }
  return good;
}

template <typename Format>
bool accumulate_reference(const std::byte* in, std::size_t n, float factor, float* sum,
                          double* squares) {
  const float scale = load_as<float>(in);
  bool good = Scale<Format>::good(scale);
  std::int64_t units = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto code = code_at<Format>(in, i);
    const float value = Format::value(code, scale);
    good &= Format::good_code(code);
    const float scaled = factor * value;
    sum[i] = sum[i] + scaled;
    if constexpr (Format::kWhole) {
      units += code * code;
    } else {
      add_square(squares, i, value);
    }
  }
  if constexpr (Format::kWhole) add_block_squares(squares, units, scale);
  return good;
}

template <typename Format>
constexpr CodecKernels kReference{encode_reference<Format>, decode_reference<Format>,
                                  accumulate_reference<Format>};

#if defined(__x86_64__)

template <typename Format>
SHOAL_AVX2 __m256i codes_8(const float* in, __m256 scale) {
  return Format::codes(_mm256_div_ps(_mm256_loadu_ps(in), scale));
}

template <typename Format>
SHOAL_AVX2 void encode_avx2(const float* in, std::size_t n, std::byte* out) {
  if (n % 32 != 0) return encode_reference<Format>(in, n, out);
  const float scale = Scale<Format>::of(max_bits_avx2(in, n));
  std::memcpy(out, &scale, sizeof scale);
  out += kScaleBytes;
  if (!Scale<Format>::holds_values(scale)) {
    std::memset(out, 0, n);
    return;
  }
  const __m256 s = _mm256_set1_ps(scale);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes the packs' lanes
  for (std::size_t i = 0; i < n; i += 32) {
    const __m256i ab =
        _mm256_packs_epi32(codes_8<Format>(in + i, s), codes_8<Format>(in + i + 8, s));
    const __m256i cd =
        _mm256_packs_epi32(codes_8<Format>(in + i + 16, s), codes_8<Format>(in + i + 24, s));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bytes);
  }
}

SHOAL_AVX2 __m128i load_8(const std::byte* in) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + kScaleBytes));
}

SHOAL_AVX2 bool none(__m128i mask) { return _mm_testz_si128(mask, mask) != 0; }

template <typename Format>
SHOAL_AVX2 bool decode_avx2(const std::byte* in, std::size_t n, float* out) {
  if (n % 8 != 0) return decode_reference<Format>(in, n, out);
  const float scale = load_as<float>(in);
  const __m256 s = _mm256_set1_ps(scale);
  __m128i bad = _mm_setzero_si128();
  for (std::size_t i = 0; i < n; i += 8) {
    const __m128i codes = load_8(in + i);
    bad = _mm_or_si128(bad, Format::bad_codes(codes));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(Format::values(codes), s));
  }
  return Scale<Format>::good(scale) && none(bad);
}

// The squares of eight codes, in four sums: 2^22 at most in a block.
SHOAL_AVX2 __m128i add_units(__m128i units, __m128i codes) {
  const __m128i words = _mm_cvtepi8_epi16(codes);
  return _mm_add_epi32(units, _mm_madd_epi16(words, words));
}
SHOAL_AVX2 int sum_of_4(__m128i x) {
  const __m128i pairs = _mm_add_epi32(x, _mm_unpackhi_epi64(x, x));
  return _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 1)));
}

template <typename Format>
SHOAL_AVX2 bool accumulate_avx2(const std::byte* in, std::size_t n, float factor, float* sum,
                                double* squares) {
  if (n % 8 != 0) return accumulate_reference<Format>(in, n, factor, sum, squares);
  const float scale = load_as<float>(in);
  const __m256 s = _mm256_set1_ps(scale), f = _mm256_set1_ps(factor);
  __m128i bad = _mm_setzero_si128(), units = _mm_setzero_si128();
  Squares8 lanes = load_squares(squares);
  for (std::size_t i = 0; i < n; i += 8) {
    const __m128i codes = load_8(in + i);
    const __m256 values = _mm256_mul_ps(Format::values(codes), s);
    bad = _mm_or_si128(bad, Format::bad_codes(codes));
    add_scaled_8(sum + i, f, values);
    if constexpr (Format::kWhole) {
      units = add_units(units, codes);
    } else {
      add_squares_8(lanes, values);
    }
  }
  if constexpr (Format::kWhole) {
    add_block_squares(squares, sum_of_4(units), scale);
  } else {
    store_squares(lanes, squares);
  }
  return Scale<Format>::good(scale) && none(bad);
}

template <typename Format>
constexpr CodecKernels kAvx2{encode_avx2<Format>, decode_avx2<Format>, accumulate_avx2<Format>};

#else

template <typename Format>
constexpr CodecKernels kAvx2 = kReference<Format>;

#endif  // __x86_64__

}  // namespace

constexpr CodecKernels kInt8Reference = kReference<Int8>, kInt8Avx2 = kAvx2<Int8>;
constexpr CodecKernels kE5m2Reference = kReference<E5m2>, kE5m2Avx2 = kAvx2<E5m2>;

}  // namespace shoal::outer_opt
