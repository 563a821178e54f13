// Which models share their weights.
#include "job/model_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

ModelSpec model() {
  JobSpec spec;
  spec.model.context = 64;
  return with_derived_fields(spec).model;
}

TEST(ModelMatch, TheSameModelHasNoDifference) {
  EXPECT_TRUE(differences(model(), model()).empty());
  ModelSpec begun = model();
  begun.init = "ckpt_3";
  EXPECT_TRUE(differences(begun, model()).empty());
}

TEST(ModelMatch, EveryFieldThatDiffersIsNamedWithBothValues) {
  ModelSpec wanted = model();
  wanted.layers = 3;
  wanted.rope.scaling = RopeScaling::kLinear;
  wanted.qkv_bias = true;
  EXPECT_EQ(text_of(differences(wanted, model())),
            "model.layers is 3 in the job and 4 there; model.qkv_bias is true in the job and false "
            "there; model.rope.scaling is 'linear' in the job and 'none' there");
}

TEST(ModelMatch, TenAreNamed) {
  ModelSpec wanted = model();
  wanted.layers = wanted.hidden = wanted.heads = wanted.kv_heads = wanted.ffn = wanted.vocab = 1;
  wanted.head_dim = 1;
  wanted.qkv_bias = true;
  wanted.norm_eps = 1;
  wanted.rope = {1, RopeScaling::kLinear, 3, 5, 6, 7};
  EXPECT_THAT(text_of(differences(wanted, model())), testing::EndsWith("there; and 5 more"));
}

TEST(ModelMatch, AShorterContextSharesTurnedPositionsButNotLearnedOnes) {
  ModelSpec wanted = model();
  wanted.context = 32;
  EXPECT_TRUE(differences(wanted, model()).empty());
  wanted.context = 65;
  EXPECT_EQ(differences(wanted, model()).at(0).field, "model.context");
  ModelSpec gpt2 = model();
  wanted.context = 32;
  gpt2.family = wanted.family = ModelFamily::kGpt2;
  EXPECT_EQ(differences(wanted, gpt2).at(0).field, "model.context");
}

TEST(ModelMatch, AnUntiedHeadMayBeginAsTheEmbedding) {
  ModelSpec tied = model();
  tied.tie_embeddings = true;
  EXPECT_TRUE(differences(model(), tied).empty());
  EXPECT_EQ(differences(tied, model()).at(0).field, "model.tie_embeddings");
}

}  // namespace
}  // namespace shoal
