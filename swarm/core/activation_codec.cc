// A payload is decoded in runs of whole units (a value, or a block of int8); a unit that the cut
// between two pieces goes through is put together first.
#include "swarm/core/activation_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define SHOAL_AVX2 __attribute__((target("avx2")))
#endif

namespace shoal::swarm {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu;
// The smallest magnitude that rounds to bf16's infinity; NaN and infinity are above it.
constexpr std::uint32_t kBf16Overflow = 0x7f7f8000u;
constexpr std::uint32_t kBf16Infinity = 0x7f80u;

bool bf16_encode_reference(const float* in, std::size_t n, std::byte* out) {
  std::uint32_t max = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    max = std::max(max, bits & kMagnitude);
    const auto half = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
    std::memcpy(out + 2 * i, &half, sizeof half);
  }
  return max < kBf16Overflow;
}

bool bf16_decode_reference(const std::byte* in, std::size_t n, float* out) {
  bool good = true;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t half;
    std::memcpy(&half, in + 2 * i, sizeof half);
    good &= (half & kBf16Infinity) != kBf16Infinity;
    out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  }
  return good;
}

#if defined(__x86_64__)

SHOAL_AVX2 bool all_below(__m256i max, std::uint32_t limit) {
  const __m256i above = _mm256_cmpgt_epi32(max, _mm256_set1_epi32(static_cast<int>(limit - 1)));
  return _mm256_testz_si256(above, above) != 0;
}

SHOAL_AVX2 __m256i bf16_round_8(const float* in, __m256i& max) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(kMagnitude)));
  max = _mm256_max_epi32(max, magnitude);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
}

SHOAL_AVX2 bool bf16_encode_avx2(const float* in, std::size_t n, std::byte* out) {
  __m256i max = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i low = bf16_round_8(in + i, max), high = bf16_round_8(in + i + 8, max);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 2 * i), packed);
  }
  return bf16_encode_reference(in + i, n - i, out + 2 * i) && all_below(max, kBf16Overflow);
}

SHOAL_AVX2 bool bf16_decode_avx2(const std::byte* in, std::size_t n, float* out) {
  __m256i max = _mm256_setzero_si256();
  const __m256i magnitude = _mm256_set1_epi32(static_cast<int>(kMagnitude));
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    max = _mm256_max_epi32(max, _mm256_and_si256(bits, magnitude));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bits);
  }
  return bf16_decode_reference(in + 2 * i, n - i, out + i) && all_below(max, kBf16Infinity << 16);
}

constexpr Bf16Kernels kBf16Avx2{bf16_encode_avx2, bf16_decode_avx2};

#endif  // __x86_64__

// The sum carries into the sign bit exactly when the magnitude is that of infinity or above.
bool all_finite(std::span<const float> values) {
  std::uint32_t carries = 0;
  for (const float value : values) {
    carries |= (std::bit_cast<std::uint32_t>(value) & kMagnitude) + 0x00800000u;
  }
  return (carries & ~kMagnitude) == 0;
}

// What can be decoded on its own.
struct Unit {
  std::size_t bytes, values;
};
constexpr std::size_t kUnitBytesMax = outer_opt::traits_of(CodecKind::kInt8).block_bytes();

Unit unit_of(ActivationCodec codec) {
  const outer_opt::CodecTraits& traits = outer_opt::traits_of(format_of(codec));
  if (traits.block > 0) return {traits.block_bytes(), traits.block};
  return {traits.bits / 8, 1};
}

const outer_opt::Codec& shared_codec(ActivationCodec codec) {
  return outer_opt::codec(format_of(codec));
}

// In an int8 encoding a value that is not finite shows in the scale of its block.
bool scales_finite(std::span<const std::byte> encoded) {
  for (std::size_t at = 0; at < encoded.size(); at += kUnitBytesMax) {
    float scale;
    std::memcpy(&scale, &encoded[at], sizeof scale);
    if (!all_finite({&scale, 1})) return false;
  }
  return true;
}

bool decode_run(ActivationCodec codec, std::span<const std::byte> in, std::span<float> out) {
  if (codec == ActivationCodec::kBf16)
    return bf16_kernels().decode(in.data(), out.size(), out.data());
  return shared_codec(codec).decode(in, out).ok();
}

class Decoder {
 public:
  Decoder(ActivationCodec codec, std::span<float> out)
      : codec_(codec), unit_(unit_of(codec)), out_(out) {}

  void take(std::span<const std::byte> piece) {
    if (held_ > 0) piece = complete(piece);
    const std::size_t units = std::min(piece.size() / unit_.bytes, out_.size() / unit_.values);
    emit(piece.first(units * unit_.bytes), units * unit_.values);
    const auto rest = piece.subspan(units * unit_.bytes);
    if (!rest.empty()) std::memcpy(&unit_bytes_[held_], rest.data(), rest.size());
    held_ += rest.size();
    flush_when_whole();
  }
  bool good() const { return good_ && out_.empty(); }

 private:
  // The last unit may be short: as many values as are left.
  std::size_t wanted() const {
    return out_.size() >= unit_.values ? unit_.bytes : encoded_size(codec_, out_.size());
  }
  std::span<const std::byte> complete(std::span<const std::byte> piece) {
    const std::size_t n = std::min(piece.size(), wanted() - held_);
    std::memcpy(&unit_bytes_[held_], piece.data(), n);
    held_ += n;
    flush_when_whole();
    return piece.subspan(n);
  }
  void flush_when_whole() {
    if (held_ == 0 || held_ < wanted()) return;
    emit(std::span(unit_bytes_).first(held_), std::min(unit_.values, out_.size()));
    held_ = 0;
  }
  void emit(std::span<const std::byte> bytes, std::size_t values) {
    if (values == 0) return;
    good_ &= decode_run(codec_, bytes, out_.first(values));
    out_ = out_.subspan(values);
  }

  const ActivationCodec codec_;
  const Unit unit_;
  std::span<float> out_;
  std::array<std::byte, kUnitBytesMax> unit_bytes_;
  std::size_t held_ = 0;
  bool good_ = true;
};

}  // namespace

constexpr Bf16Kernels kBf16Reference{bf16_encode_reference, bf16_decode_reference};

const Bf16Kernels& bf16_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return kBf16Avx2;
#endif
  return kBf16Reference;
}

CodecKind format_of(ActivationCodec codec) {
  switch (codec) {
    case ActivationCodec::kFp32:
      return CodecKind::kFp32;
    case ActivationCodec::kBf16:
      return CodecKind::kBf16;
    case ActivationCodec::kInt8:
      return CodecKind::kInt8;
  }
  SHOAL_CHECK(false, "unknown codec");
  return CodecKind::kFp32;
}

std::size_t encoded_size(ActivationCodec codec, std::size_t values) {
  return shared_codec(codec).encoded_size(values);
}

bool encode(ActivationCodec codec, std::span<const float> in, std::span<std::byte> out) {
  SHOAL_CHECK(out.size() == encoded_size(codec, in.size()));
  if (codec == ActivationCodec::kBf16) {
    return bf16_kernels().encode(in.data(), in.size(), out.data());
  }
  shared_codec(codec).encode(in, out);
  return codec == ActivationCodec::kInt8 ? scales_finite(out) : all_finite(in);
}

Status decode(ActivationCodec codec, Pieces in, std::span<float> out) {
  std::size_t size = 0;
  for (const auto& piece : in) size += piece.size();
  if (const std::size_t expected = encoded_size(codec, out.size()); size != expected) {
    return Error{Code::kDataLoss, "a tensor of " + std::to_string(expected) +
                                      " bytes was expected, got " + std::to_string(size)};
  }
  Decoder decoder(codec, out);
  for (const auto& piece : in) decoder.take(piece);
  if (!decoder.good()) return Error{Code::kDataLoss, "a tensor holds a value that is not finite"};
  return {};
}

}  // namespace shoal::swarm
