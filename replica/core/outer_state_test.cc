// The digests of what a stage shares: of one value's worth of difference, and of what an algorithm
// does not keep.
#include "replica/core/outer_state.h"

#include <gtest/gtest.h>

namespace shoal::replica {
namespace {

Digest of(std::vector<float> values) { return digest_of(std::span<const float>(values)); }

TEST(OuterState, AnchorAndMomentumHaveADigestEach) {
  const OuterState state{.anchor = {1, 2, 3}, .vectors = {{"momentum", {4, 5, 6}}}};
  EXPECT_EQ(digests_of(state), (StateDigests{of({1, 2, 3}), of({4, 5, 6})}));
  OuterState other = state;
  other.vectors[0].values[2] = 7;
  EXPECT_EQ(digests_of(other).anchor, digests_of(state).anchor);
  EXPECT_NE(digests_of(other).momentum, digests_of(state).momentum);
}

TEST(OuterState, MomentumThatNobodyHasWholeHasNone) {
  EXPECT_FALSE(digests_of({.anchor = {1, 2, 3}}).momentum);
}

// The bytes of all vectors, one after the other.
TEST(OuterState, EveryVectorOfTheOptimizerIsInTheDigest) {
  const OuterState state{.anchor = {1, 2}, .vectors = {{"adam_m", {3, 4}}, {"adam_v", {5, 6}}}};
  EXPECT_FALSE(state.shares_adam()) << "the outer optimizer's own";
  EXPECT_EQ(digests_of(state).momentum, of({3, 4, 5, 6}));
}

TEST(OuterState, WithDdpBothMomentsOfAdamCount) {
  const OuterState state{.anchor = {1, 2},
                         .vectors = {{kSharedMoments[0], {3, 4}}, {kSharedMoments[1], {5, 6}}}};
  EXPECT_TRUE(state.shares_adam());
  EXPECT_TRUE(digests_of(state).momentum);
  OuterState first = state, second = state;
  first.vectors[0].values[0] = 0;
  second.vectors[1].values[0] = 0;
  EXPECT_NE(digests_of(first).momentum, digests_of(state).momentum);
  EXPECT_NE(digests_of(second).momentum, digests_of(state).momentum);
  EXPECT_EQ(digests_of(first).anchor, digests_of(state).anchor);
}

}  // namespace
}  // namespace shoal::replica
