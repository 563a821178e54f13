// How activations and their gradients travel between stages. Every value must be finite, before and
// after encoding: both directions say so, because one value that is not spoils a whole stage.
//
//   fp32   the values as they are, little-endian
//   bf16   the upper half of each fp32, rounded to nearest, ties to even
//   int8   the block codec of outer_opt/core/codec/codec_traits.h: a scale and 256 values
//
// The same bytes and bits on every machine. Pure and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "job/job_spec.h"

namespace shoal::swarm {

// A payload as it lies in memory, in order; pieces may be cut anywhere.
using Pieces = std::span<const std::span<const std::byte>>;

// The codec of pseudo-gradients that has the same format. Here bf16 refuses values beyond its
// range, there it holds at the largest one.
CodecKind format_of(ActivationCodec codec);

std::size_t encoded_size(ActivationCodec codec, std::size_t values);

// `out` has encoded_size(in.size()) bytes. False when a value is not finite or does not stay so
// (bf16 above 3.39e38); `out` is then unspecified.
[[nodiscard]] bool encode(ActivationCodec codec, std::span<const float> in,
                          std::span<std::byte> out);

// Refuses (kDataLoss) a size other than encoded_size(out.size()) and values that are not finite;
// `out` is then unspecified.
Status decode(ActivationCodec codec, Pieces in, std::span<float> out);

// The inner loops of bf16: a scalar reference, and the fastest ones that this processor has. They
// return false when a value is not finite.
struct Bf16Kernels {
  bool (*encode)(const float* in, std::size_t n, std::byte* out);
  bool (*decode)(const std::byte* in, std::size_t n, float* out);
};
extern const Bf16Kernels kBf16Reference;
const Bf16Kernels& bf16_kernels();

}  // namespace shoal::swarm
