// The codecs, one row each. Layout, bounds, wire numbers, kernels and the dispatch on devices
// follow from the row, so a codec is added by its row, its format (formats.h) and its kernels; its
// name in job files is in job/job_spec_enums.h.
//
//   fp32   the values as they are, little-endian
//   fp16   IEEE half, to the nearest; beyond 65504 the largest one
//   bf16   the upper half of fp32, to the nearest; beyond its range the largest one
//   int8   blocks of 256 values: one fp32 scale s = max|x| / 127 per block, then int8 q =
//          round-to-nearest-even(x / s); decoded as q * s. An all-zero block has s = 0.
//   int4   blocks of 128 values: a bf16 scale s = max|x| / 7, rounded up, then four bits per value:
//          sign and |q| = 0 .. 7, two values to a byte, the first one in the low half
//   e3m0   as int4, with s = max|x| and the magnitudes 0, s/64, s/32, ... s/2, s: a float of one
//          sign, three exponent and no mantissa bits (Streaming DiLoCo, arXiv 2501.18512)
//   e5m2   as int8, with s = max|x| / 57344 and a float of one sign, five exponent and two mantissa
//          bits per value, the upper half of fp16 (FP8 Formats for Deep Learning, arXiv
//          2209.05433): round-to-nearest-even(x / s). Without a scale, values below 2^-17 would
//          become zeros. The codes of infinity and NaN are refused.
//
// sparse2 has a state of its own and is averaged per index (sparse2.h): it has a row, but no Codec.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "job/job_spec_enums.h"
#include "outer_opt/core/codec/codec_kernels.h"

// ROW(X, ...): CodecKind::kX, the format formats::X and the kernels kXReference and kXAvx2, then
// the members of CodecTraits. norm_bound.h derives the growths; those of int4 and e3m0 are the
// square roots of 2.21 and 1.80. A scale that is rounded up to bf16 grows by at most 2^-7.
#define SHOAL_DENSE_CODECS(ROW)                                                                   \
  ROW(Fp32, .wire = 0, .bits = 32, .planes = 4)                                                   \
  ROW(Fp16, .wire = 2, .bits = 16, .planes = 2, .error_bound = 0x1p-11,                           \
      .norm_growth = 1 + 0x1p-11, .tiny_error = 0x1p-25)                                          \
  ROW(Bf16, .wire = 3, .bits = 16, .planes = 2, .error_bound = 0x1p-8, .norm_growth = 1 + 0x1p-8) \
  ROW(Int8, .wire = 1, .block = 256, .scale_bytes = 4, .bits = 8, .planes = 1,                    \
      .error_bound = 0.5 / 127, .norm_growth = 1 + 16 * 0.5 / 127)                                \
  ROW(Int4, .wire = 4, .block = 128, .scale_bytes = 2, .bits = 4, .planes = 1,                    \
      .error_bound = (1 + 0x1p-7) * 0.5 / 7, .norm_growth = 1.4866068747318506)                   \
  ROW(E3m0, .wire = 5, .block = 128, .scale_bytes = 2, .bits = 4, .planes = 1,                    \
      .error_bound = (1 + 0x1p-7) * 0.25, .norm_growth = 1.3416407864998738)                      \
  ROW(E5m2, .wire = 7, .block = 256, .scale_bytes = 4, .bits = 8, .planes = 1,                    \
      .error_bound = 0.5 / 7, .norm_growth = 10.0 / 9)

namespace shoal::outer_opt {

struct CodecTraits {
  CodecKind kind;
  // The codec's number in frames (frame.h) and in the state that joiners fetch, which is that of
  // its enumerator. It never changes.
  std::uint8_t wire;
  // Values that share a scale, which precedes them; 0: the format has no blocks.
  std::size_t block = 0, scale_bytes = 0;
  std::size_t bits = 0;  // of a value
  // Byte planes into which entropy coding splits a value (entropy.h). 1: codes of one byte or less
  // are coded whole; 0: not coded.
  std::size_t planes = 0;
  // The largest error of a value, relative to the largest magnitude of its block, or to the value
  // itself where there are no blocks, for values in the range of the format.
  double error_bound = 0;
  // How many times as long a vector can become, and the largest error of a value below the normal
  // numbers of its format where this does not cover it.
  double norm_growth = 1, tiny_error = 0;
  const CodecKernels *reference = nullptr, *avx2 = nullptr;

  constexpr std::size_t block_bytes() const { return scale_bytes + block * bits / 8; }
  constexpr bool is_dense() const { return reference != nullptr; }
  // Rounding a sum at every hop of a ring would lose too much of it.
  constexpr bool is_coarse() const { return error_bound > 0x1p-6; }
};

#define SHOAL_DECLARE_KERNELS(name, ...) \
  extern const CodecKernels k##name##Reference, k##name##Avx2;
SHOAL_DENSE_CODECS(SHOAL_DECLARE_KERNELS)
#undef SHOAL_DECLARE_KERNELS

// In the order in which tests and benchmarks go over them.
#define SHOAL_TRAITS(name, ...)                 \
  CodecTraits{.kind = CodecKind::k##name,       \
              __VA_ARGS__,                      \
              .reference = &k##name##Reference, \
              .avx2 = &k##name##Avx2},
inline constexpr std::array kCodecs{SHOAL_DENSE_CODECS(SHOAL_TRAITS)
                                        CodecTraits{.kind = CodecKind::kSparse2, .wire = 6}};
#undef SHOAL_TRAITS

#define SHOAL_KIND(name, ...) CodecKind::k##name,
inline constexpr std::array kDenseCodecs{SHOAL_DENSE_CODECS(SHOAL_KIND)};
#undef SHOAL_KIND

constexpr const CodecTraits& traits_of(CodecKind kind) {
  for (const CodecTraits& traits : kCodecs) {
    if (traits.kind == kind) return traits;
  }
  SHOAL_CHECK(false, "no such codec");
  return kCodecs.back();
}

// The codec of a number on the wire; none if no codec has it.
constexpr std::optional<CodecKind> codec_of_wire(std::uint32_t number) {
  for (const CodecTraits& traits : kCodecs) {
    if (traits.wire == number) return traits.kind;
  }
  return std::nullopt;
}

static_assert(kCodecs.size() == enumerator_count<CodecKind>(), "a codec has no row");
static_assert(
    [] {
      for (const auto& [kind, name] : kEnumerators<CodecKind>) {
        if (traits_of(kind).wire != static_cast<std::size_t>(kind)) return false;
      }
      return true;
    }(),
    "a wire number is not that of its enumerator");

// Every codec encodes runs of so many values on their own: encodings of such runs, put one after
// the other, are the encoding of the whole.
inline constexpr std::int64_t kCodecRun = 256;
static_assert(
    [] {
      for (const CodecTraits& traits : kCodecs) {
        if (traits.block > 0 && kCodecRun % traits.block != 0) return false;
      }
      return true;
    }(),
    "a run is not a whole number of blocks");

}  // namespace shoal::outer_opt
