// fp32, fp16 and bf16: formats that hold one value after the other (formats.h). Here is how eight
// are read and written; the loops are the same for all. Every product and every sum is rounded on
// its own (no FMA is enabled for these functions).
#include <type_traits>

#include "outer_opt/core/codec/codec_traits.h"
#include "outer_opt/core/codec/kernel_math.h"

namespace shoal::outer_opt {
namespace {

struct Fp32 : formats::Fp32 {
#if defined(__x86_64__)
  SHOAL_AVX2 static void store_8(__m256i bits, std::byte* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bits);
  }
  SHOAL_AVX2 static __m256 load_8(const std::byte* in) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(in));
  }
#endif
};

struct Fp16 : formats::Fp16 {
#if defined(__x86_64__)
  SHOAL_AVX2 static void store_8(__m256i bits, std::byte* out) {
    const __m256i magnitude = _mm256_and_si256(bits, broadcast(kMagnitude));
    const __m256i finite = _mm256_cmpgt_epi32(broadcast(kInfinity), magnitude);
    const __m256i held = _mm256_min_epi32(magnitude, broadcast(kLargest));
    const __m256i sign = _mm256_and_si256(bits, broadcast(kSign));
    const __m256i safe = _mm256_or_si256(sign, _mm256_blendv_epi8(magnitude, held, finite));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     _mm256_cvtps_ph(_mm256_castsi256_ps(safe), _MM_FROUND_TO_NEAREST_INT));
  }
  SHOAL_AVX2 static __m256 load_8(const std::byte* in) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
  }
#endif
};

struct Bf16 : formats::Bf16 {
#if defined(__x86_64__)
  SHOAL_AVX2 static void store_8(__m256i all, std::byte* out) {
    const __m256i bits = _mm256_and_si256(all, broadcast(kMagnitude));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), broadcast(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, broadcast(0x7fffu)));
    const __m256i held = _mm256_min_epi32(rounded, broadcast(kLargest));
    const __m256i nan = _mm256_cmpgt_epi32(bits, broadcast(kInfinity));
    const __m256i kept = _mm256_or_si256(bits, _mm256_and_si256(nan, broadcast(kQuiet)));
    const __m256i finite = _mm256_cmpgt_epi32(broadcast(kInfinity), bits);
    const __m256i sign = _mm256_and_si256(all, broadcast(kSign));
    const __m256i result = _mm256_or_si256(sign, _mm256_blendv_epi8(kept, held, finite));
    const __m256i high = _mm256_srli_epi32(result, 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(packed));
  }
  SHOAL_AVX2 static __m256 load_8(const std::byte* in) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
#endif
};

template <typename Format>
constexpr std::size_t kSize = sizeof(typename Format::Stored);

template <typename Format>
void encode_reference(const float* in, std::size_t n, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const typename Format::Stored value = Format::pack(in[i]);
    std::memcpy(out + kSize<Format> * i, &value, sizeof value);
  }
}

template <typename Format>
float load(const std::byte* in, std::size_t i) {
  return Format::unpack(load_as<typename Format::Stored>(in + kSize<Format> * i));
}

template <typename Format>
bool decode_reference(const std::byte* in, std::size_t n, float* out) {
  bool good = true;
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = load<Format>(in, i);
    good &= finite(out[i]);
  }
  return good;
}

template <typename Format>
bool accumulate_reference(const std::byte* in, std::size_t n, float factor, float* sum,
                          double* squares) {
  bool good = true;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = load<Format>(in, i);
    good &= finite(value);
    const float scaled = factor * value;
    sum[i] = sum[i] + scaled;
    add_square(squares, i, value);
  }
  return good;
}

template <typename Format>
constexpr CodecKernels kReference{encode_reference<Format>, decode_reference<Format>,
                                  accumulate_reference<Format>};

#if defined(__x86_64__)

// The largest magnitude seen per lane; lanes at infinity or above were not finite.
SHOAL_AVX2 __m256i max_magnitude(__m256i max, __m256 values) {
  return _mm256_max_epi32(max,
                          _mm256_and_si256(_mm256_castps_si256(values), broadcast(kMagnitude)));
}

SHOAL_AVX2 bool all_finite(__m256i max) {
  const __m256i bad = _mm256_cmpgt_epi32(max, broadcast(kInfinity - 1));
  return _mm256_testz_si256(bad, _mm256_set1_epi32(-1)) != 0;
}

template <typename Format>
SHOAL_AVX2 void encode_avx2(const float* in, std::size_t n, std::byte* out) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    Format::store_8(bits, out + kSize<Format> * i);
  }
  encode_reference<Format>(in + i, n - i, out + kSize<Format> * i);
}

template <typename Format>
SHOAL_AVX2 bool decode_avx2(const std::byte* in, std::size_t n, float* out) {
  __m256i max = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 values = Format::load_8(in + kSize<Format> * i);
    max = max_magnitude(max, values);
    _mm256_storeu_ps(out + i, values);
  }
  return decode_reference<Format>(in + kSize<Format> * i, n - i, out + i) && all_finite(max);
}

template <typename Format>
SHOAL_AVX2 bool accumulate_avx2(const std::byte* in, std::size_t n, float factor, float* sum,
                                double* squares) {
  const __m256 f = _mm256_set1_ps(factor);
  __m256i max = _mm256_setzero_si256();
  Squares8 lanes = load_squares(squares);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 values = Format::load_8(in + kSize<Format> * i);
    max = max_magnitude(max, values);
    add_squares_8(lanes, values);
    add_scaled_8(sum + i, f, values);
  }
  store_squares(lanes, squares);
  const std::byte* rest = in + kSize<Format> * i;
  return accumulate_reference<Format>(rest, n - i, factor, sum + i, squares) && all_finite(max);
}

template <typename Format>
constexpr CodecKernels kAvx2{encode_avx2<Format>, decode_avx2<Format>, accumulate_avx2<Format>};

#else

template <typename Format>
constexpr CodecKernels kAvx2 = kReference<Format>;

#endif  // __x86_64__

}  // namespace

constexpr CodecKernels kFp32Reference = kReference<Fp32>, kFp32Avx2 = kAvx2<Fp32>;
constexpr CodecKernels kFp16Reference = kReference<Fp16>, kFp16Avx2 = kAvx2<Fp16>;
constexpr CodecKernels kBf16Reference = kReference<Bf16>, kBf16Avx2 = kAvx2<Bf16>;

}  // namespace shoal::outer_opt
