#include "coordinator/core/decisions/common_state.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

using Replicas = std::vector<ReplicaId>;

StateClaim claim(std::uint64_t replica, std::uint64_t anchor, std::uint64_t momentum,
                 bool proved = false) {
  return {ReplicaId(replica), Digest{1, anchor}, Digest{2, momentum}, proved};
}

TEST(CommonState, WhatAllSayNeedsNoProof) {
  const auto decision = decide_state({claim(1, 5, 6), claim(2, 5, 6)});
  EXPECT_EQ(decision.verdict, StateVerdict::kAgreed);
  EXPECT_EQ(decision.anchor, (Digest{1, 5}));
  EXPECT_EQ(decision.momentum, (Digest{2, 6}));
  EXPECT_TRUE(decision.odd.empty());
}

TEST(CommonState, TheMajorityIsRight) {
  const auto decision = decide_state({claim(1, 9, 6), claim(2, 5, 6), claim(3, 5, 6)});
  EXPECT_EQ(decision.verdict, StateVerdict::kMajority);
  EXPECT_EQ(decision.anchor, (Digest{1, 5}));
  EXPECT_EQ(decision.odd, Replicas{ReplicaId(1)});
}

// With equal anchors the next step would come apart.
TEST(CommonState, MomentumCountsLikeTheAnchor) {
  const auto decision = decide_state({claim(1, 5, 6), claim(2, 5, 7), claim(3, 5, 6)});
  EXPECT_EQ(decision.verdict, StateVerdict::kMajority);
  EXPECT_EQ(decision.odd, Replicas{ReplicaId(2)});
}

TEST(CommonState, ATieGoesToTheProofAndNeverToADigest) {
  for (const std::uint64_t right : {1, 9}) {
    const auto decision = decide_state({claim(1, right, 6, true), claim(2, 5, 6)});
    EXPECT_EQ(decision.verdict, StateVerdict::kProved);
    EXPECT_EQ(decision.anchor, (Digest{1, right}));
    EXPECT_EQ(decision.odd, Replicas{ReplicaId(2)});
  }
  const auto pairs = decide_state(
      {claim(1, 4, 6), claim(2, 5, 6), claim(3, 5, 6, true), claim(4, 4, 6), claim(5, 3, 6, true)});
  EXPECT_EQ(pairs.anchor, (Digest{1, 5})) << "one proof is enough for its side";
  EXPECT_EQ(pairs.odd, (Replicas{ReplicaId(1), ReplicaId(4), ReplicaId(5)}));
}

TEST(CommonState, WithoutAProofOrWithTwoNobodyIsRight) {
  for (const bool proved : {false, true}) {
    const auto decision = decide_state({claim(1, 4, 6, proved), claim(2, 5, 6, proved)});
    EXPECT_EQ(decision.verdict, StateVerdict::kUndecided);
    EXPECT_FALSE(decision.anchor);
    EXPECT_EQ(decision.odd, (Replicas{ReplicaId(1), ReplicaId(2)}));
  }
}

TEST(CommonState, OneAloneIsBelieved) {
  EXPECT_EQ(decide_state({claim(1, 4, 6)}).verdict, StateVerdict::kAgreed);
}

}  // namespace
}  // namespace shoal::coordinator
