// int4 and e3m0: blocks of four-bit values (formats.h), two to a byte, the earlier one in the low
// half; after an odd number of values the last high half is 0. A scale in bf16 lies in front of the
// block. The two formats differ in their magnitudes and in how a value chooses one; decoding is a
// look-up in eight products for both.
#include "outer_opt/core/codec/codec_traits.h"
#include "outer_opt/core/codec/kernel_math.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kScaleBytes = 2;

struct Int4 : formats::Int4 {
  static constexpr float kMagnitudes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  static constexpr double kUnit = 1;
  static constexpr int kSquares[8] = {0, 1, 4, 9, 16, 25, 36, 49};  // of kUnit
#if defined(__x86_64__)
  SHOAL_AVX2 static __m256i codes(__m256 x) {
    const __m256 low = _mm256_max_ps(x, _mm256_set1_ps(-7.0f));
    const __m256i q = _mm256_cvtps_epi32(_mm256_min_ps(low, _mm256_set1_ps(7.0f)));
    const __m256i negative = _mm256_srli_epi32(q, 31);
    return _mm256_or_si256(_mm256_abs_epi32(q), _mm256_slli_epi32(negative, 3));
  }
#endif
};

struct E3m0 : formats::E3m0 {
  static constexpr float kMagnitudes[8] = {0,       0x1p-6f, 0x1p-5f, 0x1p-4f,
                                           0x1p-3f, 0x1p-2f, 0x1p-1f, 1};
  static constexpr double kUnit = 0x1p-6;
  static constexpr int kSquares[8] = {0, 1, 4, 16, 64, 256, 1024, 4096};  // of kUnit
#if defined(__x86_64__)
  SHOAL_AVX2 static __m256i codes(__m256 x) {
    const __m256i all = _mm256_castps_si256(x), zero = _mm256_setzero_si256();
    const __m256i bits = _mm256_and_si256(all, broadcast(kMagnitude));
    const __m256i up = _mm256_add_epi32(bits, broadcast(0x00400000u));
    const __m256i above = _mm256_sub_epi32(_mm256_srli_epi32(up, 23), broadcast(kBase));
    const __m256i least =
        _mm256_srli_epi32(_mm256_cmpgt_epi32(bits, broadcast(kHalfOfSmallest - 1)), 31);
    const __m256i code = _mm256_min_epi32(_mm256_max_epi32(above, least), broadcast(7));
    const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(all, 31), 3);
    return _mm256_or_si256(code, _mm256_andnot_si256(_mm256_cmpeq_epi32(code, zero), sign));
  }
#endif
};

template <typename Format>
using Scale = formats::NibbleScale<Format>;

void store_scale(std::uint32_t bits, std::byte* out) {
  const auto high = static_cast<std::uint16_t>(bits >> 16);
  std::memcpy(out, &high, sizeof high);
}

std::uint32_t load_scale(const std::byte* in) {
  return static_cast<std::uint32_t>(load_as<std::uint16_t>(in)) << 16;
}

std::size_t bytes_of(std::size_t n) { return (n + 1) / 2; }

// Writes scale and, for a scale that allows no values, the zeros; true when values are to follow.
bool begin_block(std::uint32_t scale, std::size_t n, std::byte* out) {
  store_scale(scale, out);
  const bool values = Scale<Int4>::holds_values(scale);
  if (!values) std::memset(out + kScaleBytes, 0, bytes_of(n));
  return values;
}

template <typename Format>
void encode_reference(const float* in, std::size_t n, std::byte* out) {
  const std::uint32_t bits = Scale<Format>::of(max_bits(in, n));
  if (!begin_block(bits, n, out)) return;
  const float scale = float_of(bits);
  for (std::size_t i = 0; i < n; i += 2) {
    const unsigned low = Format::code(in[i] / scale);
    const unsigned high = i + 1 < n ? Format::code(in[i + 1] / scale) : 0u;
    out[kScaleBytes + i / 2] = static_cast<std::byte>(low | high << 4);
  }
}

unsigned code_at(const std::byte* in, std::size_t i) {
  const unsigned byte = std::to_integer<unsigned>(in[kScaleBytes + i / 2]);
  return i % 2 == 0 ? byte & 15u : byte >> 4;
}

template <typename Format>
bool decode_reference(const std::byte* in, std::size_t n, float* out) {
  const std::uint32_t bits = load_scale(in);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = formats::nibble_value<Format>(code_at(in, i), float_of(bits));
  }
  return Scale<Format>::good(bits);
}

template <typename Format>
bool accumulate_reference(const std::byte* in, std::size_t n, float factor, float* sum,
                          double* squares) {
  const std::uint32_t bits = load_scale(in);
  std::int64_t units = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned code = code_at(in, i);
    const float scaled = factor * formats::nibble_value<Format>(code, float_of(bits));
    sum[i] = sum[i] + scaled;
    units += Format::kSquares[code & 7u];
  }
  add_block_squares(squares, units, Format::kUnit * static_cast<double>(float_of(bits)));
  return Scale<Format>::good(bits);
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
  const std::uint32_t bits = Scale<Format>::of(max_bits_avx2(in, n));
  if (!begin_block(bits, n, out)) return;
  const __m256 s = _mm256_set1_ps(float_of(bits));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes the packs' lanes
  const __m256i pairs = _mm256_set1_epi16(0x1001);                  // low + 16 * high
  for (std::size_t i = 0; i < n; i += 32) {
    const __m256i ab =
        _mm256_packs_epi32(codes_8<Format>(in + i, s), codes_8<Format>(in + i + 8, s));
    const __m256i cd =
        _mm256_packs_epi32(codes_8<Format>(in + i + 16, s), codes_8<Format>(in + i + 24, s));
    const __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
    const __m256i words = _mm256_maddubs_epi16(codes, pairs);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + kScaleBytes + i / 2),
                     _mm256_castsi256_si128(bytes));
  }
}

// The eight magnitudes of a block.
template <typename Format>
SHOAL_AVX2 __m256 table_of(std::uint32_t scale) {
  return _mm256_mul_ps(_mm256_loadu_ps(Format::kMagnitudes), _mm256_set1_ps(float_of(scale)));
}

// Sixteen codes of eight bytes, one to a byte.
SHOAL_AVX2 __m128i codes_16(const std::byte* in) {
  const __m128i bytes = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in)));
  return _mm_and_si128(_mm_or_si128(bytes, _mm_slli_epi16(bytes, 4)), _mm_set1_epi8(0x0f));
}

SHOAL_AVX2 __m256 values_8(__m128i codes, __m256 table) {
  const __m256i code = _mm256_cvtepu8_epi32(codes);
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi32(code, 28), broadcast(0x80000000u));
  return _mm256_xor_ps(_mm256_permutevar8x32_ps(table, code), _mm256_castsi256_ps(sign));
}

template <typename Format>
SHOAL_AVX2 bool decode_avx2(const std::byte* in, std::size_t n, float* out) {
  if (n % 16 != 0) return decode_reference<Format>(in, n, out);
  const std::uint32_t scale = load_scale(in);
  const __m256 table = table_of<Format>(scale);
  for (std::size_t i = 0; i < n; i += 16) {
    const __m128i codes = codes_16(in + kScaleBytes + i / 2);
    _mm256_storeu_ps(out + i, values_8(codes, table));
    _mm256_storeu_ps(out + i + 8, values_8(_mm_srli_si128(codes, 8), table));
  }
  return Scale<Format>::good(scale);
}

// Byte `byte` of the squares of all codes; the sign of a code changes none.
template <typename Format>
SHOAL_AVX2 __m128i squares_of_codes(int byte) {
  alignas(16) std::uint8_t table[16];
  for (int i = 0; i < 16; ++i) {
    table[i] = static_cast<std::uint8_t>(Format::kSquares[i & 7] >> (8 * byte));
  }
  return _mm_load_si128(reinterpret_cast<const __m128i*>(table));
}

// The squares of the values of a block, in units.
template <typename Format>
class BlockSquares {
 public:
  SHOAL_AVX2 void add(__m128i codes) {
    const __m128i zero = _mm_setzero_si128();
    low_ = _mm_add_epi64(low_, _mm_sad_epu8(_mm_shuffle_epi8(low_bytes_, codes), zero));
    if constexpr (kTwoBytes) {
      high_ = _mm_add_epi64(high_, _mm_sad_epu8(_mm_shuffle_epi8(high_bytes_, codes), zero));
    }
  }
  SHOAL_AVX2 std::int64_t units() const { return total(low_) + (total(high_) << 8); }

 private:
  static constexpr bool kTwoBytes = Format::kSquares[7] > 255;
  SHOAL_AVX2 static std::int64_t total(__m128i x) {
    return _mm_cvtsi128_si64(_mm_add_epi64(x, _mm_unpackhi_epi64(x, x)));
  }

  __m128i low_bytes_ = squares_of_codes<Format>(0), high_bytes_ = squares_of_codes<Format>(1);
  __m128i low_ = _mm_setzero_si128(), high_ = _mm_setzero_si128();
};

template <typename Format>
SHOAL_AVX2 bool accumulate_avx2(const std::byte* in, std::size_t n, float factor, float* sum,
                                double* squares) {
  if (n % 16 != 0) return accumulate_reference<Format>(in, n, factor, sum, squares);
  const std::uint32_t scale = load_scale(in);
  const __m256 table = table_of<Format>(scale), f = _mm256_set1_ps(factor);
  BlockSquares<Format> block;
  for (std::size_t i = 0; i < n; i += 16) {
    const __m128i codes = codes_16(in + kScaleBytes + i / 2);
    block.add(codes);
    add_scaled_8(sum + i, f, values_8(codes, table));
    add_scaled_8(sum + i + 8, f, values_8(_mm_srli_si128(codes, 8), table));
  }
  add_block_squares(squares, block.units(), Format::kUnit * static_cast<double>(float_of(scale)));
  return Scale<Format>::good(scale);
}

template <typename Format>
constexpr CodecKernels kAvx2{encode_avx2<Format>, decode_avx2<Format>, accumulate_avx2<Format>};

#else

template <typename Format>
constexpr CodecKernels kAvx2 = kReference<Format>;

#endif  // __x86_64__

}  // namespace

constexpr CodecKernels kInt4Reference = kReference<Int4>, kInt4Avx2 = kAvx2<Int4>;
constexpr CodecKernels kE3m0Reference = kReference<E3m0>, kE3m0Avx2 = kAvx2<E3m0>;

}  // namespace shoal::outer_opt
