// How a run of fp32 values travels. A codec encodes independent blocks, so a frame can be decoded
// without its neighbors. Every value must be finite: callers send a zero vector with weight 0
// otherwise. codec_traits.h says what each codec makes of a value.
//
// encode() and decode() give the same bytes and bits on every machine: fixed order, no contraction,
// no fast-math. Pure and thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "job/job_spec.h"
#include "outer_opt/core/codec/codec_traits.h"

namespace shoal::outer_opt {

// The squares of decoded values, summed in double in a fixed order, the lanes at the end. Floating
// formats: value i in lane i modulo 8; a product of two fp32 values is exact. Codes that are whole
// numbers: the squares of those of a block, times that of the scale, in lane 0, which spares the
// rounding of each value (2^-24 of it).
struct SquareSum {
  double lanes[8] = {};
  double total() const {
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    return sum;
  }
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual CodecKind kind() const = 0;
  // Exact size of the encoding of `values` values.
  virtual std::size_t encoded_size(std::size_t values) const = 0;
  // The largest error of a value, relative to the largest magnitude of its block (fp16 and bf16: of
  // the value itself), for values in the range of the format.
  virtual double error_bound() const = 0;
  // `out` has encoded_size(in.size()) bytes.
  virtual void encode(std::span<const float> in, std::span<std::byte> out) const = 0;
  // Refuses a wrong size and non-finite scales or values (kDataLoss); `out` is then unspecified.
  virtual Status decode(std::span<const std::byte> in, std::span<float> out) const = 0;
  // sum[i] += factor * decoded[i], one multiplication and one addition per value, rounded
  // separately; decoded[i] * decoded[i] is added to `squares`.
  virtual Status accumulate(std::span<const std::byte> in, float factor, std::span<float> sum,
                            SquareSum& squares) const = 0;
  Status accumulate(std::span<const std::byte> in, float factor, std::span<float> sum) const {
    SquareSum unused;
    return accumulate(in, factor, sum, unused);
  }
};

const Codec& codec(CodecKind kind);  // one of kDenseCodecs; immutable, lives forever

}  // namespace shoal::outer_opt
