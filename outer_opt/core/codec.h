// How a run of fp32 values travels. A codec encodes independent blocks, so a frame can be decoded
// without its neighbours. Every value must be finite: callers send a zero vector with weight 0
// otherwise.
//
//   fp32   the values as they are, little-endian
//   int8   blocks of kInt8Block values: one fp32 scale s = max|x| / 127 per block, then int8 q =
//          round-to-nearest-even(x / s); decoded as q * s. An all-zero block has s = 0.
//
// encode() and decode() give the same bytes and bits on every machine: fixed order, no contraction,
// no fast-math. Pure and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/job_spec.h"
#include "base/result.h"

namespace shoal::outer_opt {

inline constexpr std::int64_t kInt8Block = 256;

class Codec {
 public:
  virtual ~Codec() = default;
  virtual CodecKind kind() const = 0;
  // Exact size of the encoding of `values` values.
  virtual std::size_t encoded_size(std::size_t values) const = 0;
  // `out` has encoded_size(in.size()) bytes.
  virtual void encode(std::span<const float> in, std::span<std::byte> out) const = 0;
  // Refuses a wrong size and non-finite scales or values (kDataLoss); `out` is then unspecified.
  virtual Status decode(std::span<const std::byte> in, std::span<float> out) const = 0;
  // sum[i] += factor * decoded[i], one multiplication and one addition per value, rounded
  // separately.
  virtual Status accumulate(std::span<const std::byte> in, float factor,
                            std::span<float> sum) const = 0;
};

const Codec& codec(CodecKind kind);  // immutable, lives for ever

}  // namespace shoal::outer_opt
