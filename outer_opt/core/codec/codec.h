// How a run of fp32 values travels. A codec encodes independent blocks, so a frame can be decoded
// without its neighbors. Every value must be finite: callers send a zero vector with weight 0
// otherwise.
//
//   fp32   the values as they are, little-endian
//   fp16   IEEE half, to the nearest; beyond 65504 the largest one
//   bf16   the upper half of fp32, to the nearest; beyond its range the largest one
//   int8   blocks of kInt8Block values: one fp32 scale s = max|x| / 127 per block, then int8 q =
//          round-to-nearest-even(x / s); decoded as q * s. An all-zero block has s = 0.
//   int4   blocks of kNibbleBlock values: a bf16 scale s = max|x| / 7, rounded up, then four bits
//          per value: sign and |q| = 0 .. 7, two values to a byte, the first one in the low
//          half
//   e3m0   as int4, with s = max|x| and the magnitudes 0, s/64, s/32, ... s/2, s: a float of one
//          sign, three exponent and no mantissa bits (Streaming DiLoCo, arXiv 2501.18512)
//
// sparse2 is no such codec: it has a state of its own and is averaged per index (sparse2.h).
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

namespace shoal::outer_opt {

// Every codec encodes runs of so many values on their own: encodings of such runs, put one after
// the other, are the encoding of the whole.
inline constexpr std::int64_t kCodecRun = 256;
inline constexpr std::int64_t kInt8Block = 256, kNibbleBlock = 128;  // values that share a scale

inline constexpr std::array kDenseCodecs{CodecKind::kFp32, CodecKind::kFp16, CodecKind::kBf16,
                                         CodecKind::kInt8, CodecKind::kInt4, CodecKind::kE3m0};

// The squares of decoded values, summed in double in a fixed order, the lanes at the end. Floating
// formats: value i in lane i modulo 8; a product of two fp32 values is exact. Formats with a scale:
// the squares of the codes of a block as a whole number, times that of the scale, in lane 0, which
// spares the rounding of each value (2^-24 of it).
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
