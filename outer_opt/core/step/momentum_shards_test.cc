// The arithmetic against the replicated outer step, and what is kept where. Whole rounds are in
// sharded_rounds_test.cc.
#include "outer_opt/core/step/momentum_shards.h"

#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/round/plan_test_util.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {
namespace {

using Ranges = std::vector<ValueRange>;

// Powers of two, so that every result but the last quotient is exact, and that one is a whole.
TEST(MomentumShards, StepAndMomentumOfSmallNumbers) {
  const OwnerTerms outer{0.5, 0.5};
  std::vector<float> momentum{2, 0}, step{4, -8};
  owner_step(outer, momentum, step);
  EXPECT_EQ(step, (std::vector<float>{3.25, -6}));
  follow_step(outer, step, momentum);
  EXPECT_EQ(momentum, (std::vector<float>{5, -8}));
  std::vector<float> anchor{100, 100};
  apply_step(step, anchor);
  EXPECT_EQ(anchor, (std::vector<float>{96.75, 106}));
}

TEST(MomentumShards, WithoutCodecItIsTheReplicatedOuterStep) {
  Prng prng(3);
  const OwnerTerms outer{0.7, 0.9};
  std::vector<float> theta(64, 1.0f), whole(64), anchor(64, 1.0f), shard(64);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> average;
    for (int i = 0; i < 64; ++i) average.push_back(static_cast<float>(prng.normal()));
    nesterov_step({outer.lr, outer.momentum}, average, whole, theta);
    owner_step(outer, shard, average);
    follow_step(outer, average, shard);
    apply_step(average, anchor);
  }
  for (int i = 0; i < 64; ++i) {
    EXPECT_NEAR(shard[i], whole[i], 1e-5);
    EXPECT_NEAR(anchor[i], theta[i], 1e-3);
  }
}

// On a bowl whose gradient is the position plus noise, steps and end point are as large with every
// codec as without one.
TEST(MomentumShards, StableWithEveryCodec) {
  constexpr std::size_t kValues = 1024;
  const OwnerTerms outer{0.7, 0.9};
  std::map<CodecKind, double> ends;
  for (const CodecKind kind : kDenseCodecs) {
    Prng prng(5);
    const Codec& c = codec(kind);
    std::vector<std::byte> bytes(c.encoded_size(kValues));
    std::vector<float> anchor(kValues, 1.0f), momentum(kValues), step(kValues);
    for (int round = 0; round < 1000; ++round) {
      for (std::size_t i = 0; i < kValues; ++i) {
        const auto noise = static_cast<float>(0.2 * prng.normal());
        step[i] = 0.05f * (anchor[i] + noise);
      }
      owner_step(outer, momentum, step);
      c.encode(step, bytes);
      ASSERT_TRUE(c.decode(bytes, step).ok());
      follow_step(outer, step, momentum);
      apply_step(step, anchor);
    }
    double square = 0;
    for (const float value : anchor) square += static_cast<double>(value) * value;
    ends[kind] = std::sqrt(square / kValues);
  }
  for (const auto& [kind, end] : ends) {
    EXPECT_LT(end, 1.5 * ends.at(CodecKind::kFp32)) << to_string(kind);
  }
}

TEST(MomentumShards, EachOwnerKeepsItsPartAndTheOneBefore) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 12, {1, 1, 1, 1}, {1, 0, 1, 1});
  const auto kept = [&](int member) {
    return kept_ranges(plan.members, plan.members[member].replica);
  };
  EXPECT_EQ(kept(0), (Ranges{{0, 4}, {8, 4}}));
  EXPECT_EQ(kept(1), Ranges{});
  EXPECT_EQ(kept(2), (Ranges{{0, 4}, {4, 4}}));
  EXPECT_EQ(kept(3), (Ranges{{4, 4}, {8, 4}}));
  EXPECT_EQ(kept_ranges(plan.members, ReplicaId(99)), Ranges{});
  plan = make_plan(CodecKind::kFp32, 12, {1});
  EXPECT_EQ(kept(0), (Ranges{{0, 12}}));
}

TEST(MomentumShards, RestagesFromItselfThenFromOthersThenFromNothing) {
  const ReplicaId self(1), other(2), third(3);
  MomentumShards held(Ranges{{0, 4}});
  std::iota(held.at({0, 4}).begin(), held.at({0, 4}).end(), 1.0f);
  const std::vector<MomentumHolder> holders{
      {other, "b:1", 0, 6}, {self, "a:1", 0, 4}, {third, "c:1", 4, 3}};
  const auto made = restage({{2, 8}}, self, holders, held);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->missing,
            (std::vector<MomentumHolder>{{other, "b:1", 4, 2}, {third, "c:1", 6, 1}}));
  const auto values = made->shards.at({2, 8});
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{3, 4, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(values_without_holder(10, holders), 3);
  EXPECT_EQ(values_without_holder(7, holders), 0);
  EXPECT_FALSE(restage({{2, 8}}, self, holders, MomentumShards(Ranges{{3, 3}})).ok());
}

// Two ranges, of which holders have pieces: the first holder gives, the next one what is left
// beside it, and a holder of another range gives nothing.
TEST(MomentumShards, EveryMissingPieceIsAskedForOnce) {
  const std::vector<MomentumHolder> holders{{ReplicaId(2), "b:1", 1, 2},
                                            {ReplicaId(3), "c:1", 8, 4},
                                            {ReplicaId(4), "d:1", 0, 4},
                                            {ReplicaId(5), "e:1", 8, 4}};
  const auto made = restage({{0, 4}, {8, 4}}, ReplicaId(1), holders, MomentumShards(Ranges{}));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->missing, (std::vector<MomentumHolder>{{ReplicaId(2), "b:1", 1, 2},
                                                        {ReplicaId(3), "c:1", 8, 4},
                                                        {ReplicaId(4), "d:1", 0, 1},
                                                        {ReplicaId(4), "d:1", 3, 1}}));
  EXPECT_EQ(values_without_holder(14, holders), 6) << "4 to 7, and the last two";
}

TEST(MomentumShards, HoldsWhatLiesInOneOfItsRanges) {
  const MomentumShards shards(Ranges{{4, 4}, {12, 4}});
  EXPECT_TRUE(shards.holds({4, 4}));
  EXPECT_TRUE(shards.holds({14, 2}));
  EXPECT_FALSE(shards.holds({6, 4})) << "beyond its end";
  EXPECT_FALSE(shards.holds({3, 2}));
  EXPECT_FALSE(shards.holds({6, -1})) << "as a peer may ask";
}

TEST(MomentumShards, FollowEachInItsPlace) {
  const OwnerTerms outer{0.5, 0.5};
  MomentumShards shards(Ranges{{0, 1}, {2, 1}});
  shards.at({0, 1})[0] = 2;
  shards.follow(outer, {0, 3}, std::vector<float>{3.25, 99, -6});  // the numbers of the first test
  EXPECT_EQ(shards.at({0, 1})[0], 5);
  EXPECT_EQ(shards.at({2, 1})[0], -8);
}

TEST(MomentumShards, FollowRunByRun) {
  const OwnerTerms outer{0.5, 0.5};
  MomentumShards shards(Ranges{{1, 2}});
  shards.at({1, 2})[0] = 2;
  shards.follow(outer, {2, 2}, std::vector<float>{-6, 99});
  shards.follow(outer, {0, 2}, std::vector<float>{99, 3.25});
  shards.follow(outer, {3, 9}, std::vector<float>(9, 99.0f));
  EXPECT_EQ(shards.at({1, 2})[0], 5);
  EXPECT_EQ(shards.at({1, 2})[1], -8);
}

// Nothing is to be fetched only if everybody counts on the same ranges that are here.
TEST(MomentumShards, StayWhenTheHoldersSayWhatIsHere) {
  const ReplicaId self(1), other(2);
  const Ranges ranges{{0, 4}, {8, 4}};
  const MomentumShards held(ranges);
  const std::vector<MomentumHolder> holders{
      {self, "a:1", 0, 4}, {other, "b:1", 4, 4}, {self, "a:1", 8, 4}};
  EXPECT_TRUE(stays(ranges, self, holders, held));
  EXPECT_FALSE(stays({{0, 4}, {4, 4}}, self, holders, held)) << "the part before is another one";
  EXPECT_FALSE(stays(ranges, other, holders, held)) << "not said to be here";
  EXPECT_FALSE(stays(ranges, self, {holders[0], holders[1]}, held)) << "one of two is not";
  EXPECT_FALSE(stays(ranges, self, {holders[0], {self, "a:1", 8, 3}}, held));
}

TEST(MomentumShards, MostMissing) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 12, {1, 1, 1});
  EXPECT_EQ(most_missing(plan), 0);
  plan.owner_step.emplace();
  EXPECT_EQ(most_missing(plan), 0);  // all start from zero
  for (const ReduceMember& member : plan.members) {
    for (const ValueRange& range : kept_ranges(plan.members, member.replica)) {
      plan.owner_step->holders.push_back({member.replica, "host:1", range.first, range.count});
    }
  }
  EXPECT_EQ(most_missing(plan), 0);
  plan.members[1].replica = ReplicaId(77);  // a joiner in the place of the one who left
  EXPECT_EQ(most_missing(plan), 8);
}

}  // namespace
}  // namespace shoal::outer_opt
