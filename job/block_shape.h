// What decides how long a device takes for the parts of a builtin model: the widths of one block,
// of the embedding and of the head, the precision and the microbatch. The number of blocks, the
// weights and the data do not matter, so jobs that differ in these share a measurement.
#pragma once

#include <cstdint>

#include "base/digest.h"
#include "base/fields.h"
#include "job/job_spec.h"

namespace shoal {

struct BlockShape {
  ModelFamily family = ModelFamily::kLlama;
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  std::int64_t context = 0, vocab = 0;
  bool qkv_bias = false;
  Precision precision = Precision::kFp32;
  std::int64_t microbatch = 0;  // sequences
  Recompute recompute = Recompute::kKeep;
  bool operator==(const BlockShape&) const = default;
};
constexpr auto fields_of(Of<BlockShape>) {
  using T = BlockShape;
  return fields<&T::family, &T::hidden, &T::heads, &T::kv_heads, &T::head_dim, &T::ffn, &T::context,
                &T::vocab, &T::qkv_bias, &T::precision, &T::microbatch, &T::recompute>();
}

// Fills the derived fields of `spec`, which must be valid.
BlockShape block_shape(const JobSpec& spec);
Digest digest_of(const BlockShape& shape);

// A job of this shape whose model has one block. Nothing is said of data, rounds or checkpoints.
JobSpec one_block_job(const BlockShape& shape);

}  // namespace shoal
