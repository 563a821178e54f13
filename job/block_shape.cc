#include "job/block_shape.h"

#include "base/field_digest.h"

namespace shoal {

BlockShape block_shape(const JobSpec& spec) {
  const JobSpec full = with_derived_fields(spec);
  const ModelSpec& m = full.model;
  return {.family = m.family,
          .hidden = m.hidden,
          .heads = m.heads,
          .kv_heads = m.kv_heads,
          .head_dim = m.head_dim,
          .ffn = m.ffn,
          .context = m.context,
          .vocab = m.vocab,
          .qkv_bias = m.qkv_bias,
          .precision = full.train.precision,
          .microbatch = full.train.microbatch,
          .recompute = full.swarm.recompute};
}

Digest digest_of(const BlockShape& shape) { return digest_of_fields(shape); }

JobSpec one_block_job(const BlockShape& shape) {
  JobSpec spec;
  spec.name = "block";
  ModelSpec& m = spec.model;
  m.family = shape.family;
  m.layers = 1;
  m.hidden = shape.hidden;
  m.heads = shape.heads;
  m.kv_heads = shape.kv_heads;
  m.head_dim = shape.head_dim;
  m.ffn = shape.ffn;
  m.context = shape.context;
  m.vocab = shape.vocab;
  m.qkv_bias = shape.qkv_bias;
  m.tie_embeddings = false;  // its parts are measured one by one
  spec.train.precision = shape.precision;
  spec.train.batch = spec.train.microbatch = shape.microbatch;
  spec.swarm.recompute = shape.recompute;
  return spec;
}

}  // namespace shoal
