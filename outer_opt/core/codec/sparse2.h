// sparse2: the 64 largest of every 4,096 values, each as a sign and one of two magnitudes, 0.164
// bit per value. What was not sent is kept by its owner (error feedback) and sent later. After
// SparseLoCo (arXiv 2508.15706): chunks of 4,096, 2-bit codebook, decay 0.95, a mean per index over
// the members that sent it, an outer step with lr 1 and without momentum. Different from there:
// indices cost 8 bits instead of 12, and every chunk has a codebook of its own.
//
// A chunk of n values, of which k = min(64, n) are kept, is encoded as
//   4 bytes            two magnitudes in bf16, the smaller one first
//   ceil(6 k / 8)      the lower six bits of every index, ascending, least significant bit first
//   16 bytes           their upper six bits in unary (Elias-Fano): bit (upper + i) is set for the
//                      i-th index
//   ceil(2 k / 8)      two bits each: 1 the larger magnitude, 2 negative
// 84 bytes for a whole chunk. The codebook is that of Lloyd for two magnitudes: their bucket means.
//
// The same bytes and bits on every machine. Pure; ErrorFeedback has a state, the functions have
// none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "outer_opt/core/codec/sparse2_chunk.h"

namespace shoal::outer_opt {

inline constexpr std::size_t kSparseChunk = sparse2::kChunk, kSparseKept = sparse2::kKept;

// Exact; runs start at multiples of kSparseChunk.
std::size_t sparse2_size(std::size_t values);

// What is not finite is sent as such and refused by the decoder.
void sparse2_encode(std::span<const float> in, std::span<std::byte> out);

// out[i] = what was sent of i, 0 where nothing was. kDataLoss: a wrong size, magnitudes that are
// not finite or not in order, indices that are not ascending or beyond the chunk.
Status sparse2_decode(std::span<const std::byte> in, std::span<float> out);

// Whether sparse2_decode() would accept it.
Status sparse2_check(std::span<const std::byte> in, std::size_t values);
// The same, and the sum of the squares of what it would give, in double, in order.
Status sparse2_squares(std::span<const std::byte> in, std::size_t values, double& squares);

// One member's part of a mean; the weight is that of its mean, the factor what its values are
// multiplied with (weight * clip factor).
struct SparseTerm {
  std::span<const std::byte> encoded;
  float weight = 0, factor = 0;
};

// average[i] = sum of factor * value / sum of weight over the terms that sent i with a value other
// than 0, in their order, in fp32; 0 where nobody did. Errors as sparse2_decode().
Status sparse2_mean(std::span<const SparseTerm> terms, std::span<float> average);

// What a replica still owes: its own, like the moments of its AdamW; a replica that starts from a
// source or a checkpoint owes nothing. The residual changes only when a round is committed that its
// encoding counted in. An aborted round, or one that left it out, changes nothing.
class ErrorFeedback {
 public:
  // `decay` is sync.feedback: 0 forgets what was not sent.
  ErrorFeedback(std::size_t values, double decay)
      : decay_(static_cast<float>(decay)), residual_(values, 0.0f) {}

  // Encodes decay * residual + pseudo_gradient, which has the length of the residual.
  std::vector<std::byte> encode(std::span<const float> pseudo_gradient) const;

  // residual = decay * residual + pseudo_gradient - what `encoded` says was sent; the two are
  // argument and result of encode(). kDataLoss leaves the residual as it was.
  Status commit(std::span<const float> pseudo_gradient, std::span<const std::byte> encoded);

  std::span<const float> residual() const { return residual_; }

 private:
  void add(std::span<const float> pseudo_gradient, std::size_t first, std::span<float> sum) const;

  float decay_;
  std::vector<float> residual_;
};

}  // namespace shoal::outer_opt
