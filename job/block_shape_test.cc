#include "job/block_shape.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

JobSpec small() {
  JobSpec spec;
  spec.model = {.family = ModelFamily::kGpt2, .layers = 6, .hidden = 96, .heads = 6, .context = 64};
  spec.train.batch = 8;
  spec.train.microbatch = 2;
  return spec;
}

Digest digest(const JobSpec& spec) { return digest_of(block_shape(spec)); }

TEST(BlockShape, HasDerivedFieldsFilled) {
  const BlockShape shape = block_shape(small());
  EXPECT_EQ(shape.kv_heads, 6);
  EXPECT_EQ(shape.head_dim, 16);
  EXPECT_EQ(shape.ffn, 384);
  EXPECT_EQ(shape.microbatch, 2);
}

TEST(BlockShape, IsTheSameForJobsThatDifferInWhatTakesNoTime) {
  JobSpec other = small();
  other.name = "other";
  other.model.layers = 12;
  other.model.init = "hf:weights";
  other.train.lr = 3e-4;
  other.train.batch = 16;
  other.swarm.stages = 3;
  EXPECT_EQ(digest(other), digest(small()));
}

TEST(BlockShape, DiffersWithWhatTakesTime) {
  const auto changed = [](auto change) {
    JobSpec spec = small();
    change(spec);
    return digest(spec);
  };
  EXPECT_NE(changed([](JobSpec& s) { s.model.hidden = 192; }), digest(small()));
  EXPECT_NE(changed([](JobSpec& s) { s.model.vocab = 300; }), digest(small()));
  EXPECT_NE(changed([](JobSpec& s) { s.train.microbatch = 4; }), digest(small()));
  EXPECT_NE(changed([](JobSpec& s) { s.train.precision = Precision::kBf16; }), digest(small()));
  EXPECT_NE(changed([](JobSpec& s) { s.swarm.recompute = Recompute::kRecompute; }),
            digest(small()));
}

TEST(BlockShape, MakesAJobOfOneBlockOfTheSameShape) {
  const BlockShape shape = block_shape(small());
  const JobSpec job = one_block_job(shape);
  EXPECT_EQ(job.model.layers, 1);
  EXPECT_EQ(block_shape(job), shape);
}

}  // namespace
}  // namespace shoal
