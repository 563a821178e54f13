#include "outer_opt/core/round/topology.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "job/sync_spec_test_util.h"
#include "outer_opt/core/codec/frame.h"
#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt {
namespace {

std::vector<LinkedMember> lines(const std::vector<double>& bytes_per_s) {
  std::vector<LinkedMember> members;
  for (const double line : bytes_per_s) members.push_back({true, line});
  return members;
}

double time_of(const std::vector<double>& bytes_per_s) {
  return butterfly_time(part_shares(lines(bytes_per_s)), bytes_per_s);
}

TEST(PartShares, KnownOptima) {
  const std::vector<double> one_two_four_eight{1, 2, 4, 8};
  EXPECT_NEAR(time_of(one_two_four_eight), 1.0, 1e-12);
  EXPECT_NEAR(butterfly_time({1, 1, 1, 1}, one_two_four_eight), 1.5, 1e-12);
  EXPECT_NEAR(butterfly_time({1, 1}, {4, 8}), 0.25, 1e-12);
  EXPECT_NEAR(time_of({0.1, 1, 1, 1, 1}), 10, 1e-12);
  EXPECT_NEAR(time_of({10, 1, 1, 1, 1, 1, 1, 1}), 1.0, 1e-12);
  EXPECT_NEAR(time_of({1, 1, 1, 1}), 1.5, 1e-12);
}

// No split drawn at random, and none of a grid around the best one, takes less time.
TEST(PartShares, NoOtherSplitIsFaster) {
  Prng prng(7);
  for (int trial = 0; trial < 200; ++trial) {
    const auto n = static_cast<std::size_t>(prng.range(3, 6));
    std::vector<double> line(n);
    for (double& b : line) b = std::exp(3 * prng.normal());
    const std::vector<double> best = part_shares(lines(line));
    EXPECT_NEAR(std::accumulate(best.begin(), best.end(), 0.0), 1, 1e-9);
    const double time = butterfly_time(best, line);
    for (int other = 0; other < 500; ++other) {
      std::vector<double> shares(n);
      const bool near = other % 2 == 0;
      for (std::size_t i = 0; i < n; ++i) {
        shares[i] = near ? std::max(0.0, best[i] + 0.05 * prng.normal()) : std::pow(prng.unit(), 4);
      }
      if (std::accumulate(shares.begin(), shares.end(), 0.0) <= 0) continue;
      EXPECT_GE(butterfly_time(shares, line), time * (1 - 1e-9));
    }
  }
}

std::vector<LinkedMember> with_reducers(const std::vector<double>& train,
                                        const std::vector<double>& reduce) {
  std::vector<LinkedMember> members = lines(train);
  for (const double line : reduce) members.push_back({true, line, true});
  return members;
}

// The longest of the members, in vectors at one byte per second.
double time_with_reducers(const std::vector<LinkedMember>& members,
                          const std::vector<double>& shares) {
  const auto n = static_cast<double>(
      std::count_if(members.begin(), members.end(), [](const auto& m) { return !m.reducer; }));
  double longest = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const double moved = members[i].reducer ? n * shares[i] : 1 + (n - 2) * shares[i];
    longest = std::max(longest, moved / members[i].bytes_per_s);
  }
  return longest;
}

// BytePS (Jiang et al. 2020, section 4.1): n machines that train and k that only sum, all lines
// alike.
TEST(PartShares, WithEqualLinesTheyAreThoseOfBytePs) {
  for (int n = 2; n <= 9; ++n) {
    for (int k = 1; k <= n; ++k) {
      const auto members = with_reducers(std::vector<double>(static_cast<std::size_t>(n), 1.0),
                                         std::vector<double>(static_cast<std::size_t>(k), 1.0));
      const auto shares = part_shares(members);
      const double below = n * n + k * n - 2 * k;
      EXPECT_NEAR(shares.front(), (n - k) / below, 1e-12) << n << " and " << k;
      EXPECT_NEAR(shares.back(), 2 * (n - 1) / below, 1e-12) << n << " and " << k;
      EXPECT_NEAR(time_with_reducers(members, shares), std::max(1.0, 2.0 * n * (n - 1) / below),
                  1e-12);
    }
  }
}

TEST(PartShares, NoOtherSplitWithReducersIsFaster) {
  Prng prng(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> train(static_cast<std::size_t>(prng.range(2, 5)));
    std::vector<double> reduce(static_cast<std::size_t>(prng.range(1, 3)));
    for (double& b : train) b = std::exp(2 * prng.normal());
    for (double& b : reduce) b = std::exp(2 * prng.normal());
    const auto members = with_reducers(train, reduce);
    const std::vector<double> best = part_shares(members);
    EXPECT_NEAR(std::accumulate(best.begin(), best.end(), 0.0), 1, 1e-9);
    const double time = time_with_reducers(members, best);
    for (int other = 0; other < 300; ++other) {
      std::vector<double> shares;
      for (const double share : best) {
        shares.push_back(other % 2 == 0 ? std::max(0.0, share + 0.05 * prng.normal())
                                        : std::pow(prng.unit(), 4));
      }
      const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
      if (sum <= 0) continue;
      for (double& share : shares) share /= sum;
      EXPECT_GE(time_with_reducers(members, shares), time * (1 - 1e-9));
    }
  }
}

TEST(PartShares, ReducersThatCarryItAllLeaveNothingToTheOthers) {
  const auto shares = part_shares(with_reducers({1, 1, 1}, {10, 20}));
  EXPECT_EQ(shares[0], 0);
  EXPECT_NEAR(shares[3], 1.0 / 3, 1e-12);
  EXPECT_NEAR(shares[4], 2.0 / 3, 1e-12);
}

// Two members move one vector each whatever they own, so reducers get all that they carry
// meanwhile.
TEST(PartShares, BesideTwoMembersReducersGetWhatTheyCarry) {
  EXPECT_EQ(part_shares(with_reducers({1, 4}, {1})), (std::vector<double>{0.25, 0.25, 0.5}));
  EXPECT_EQ(part_shares(with_reducers({4, 1}, {1})), (std::vector<double>{0.25, 0.25, 0.5}))
      << "the slower one decides, wherever it stands";
  EXPECT_EQ(part_shares(with_reducers({1, 1}, {9, 3})), (std::vector<double>{0, 0, 0.75, 0.25}))
      << "never more than the whole vector";
}

TEST(PartShares, OneThatTrainsAloneNeedsNoReducer) {
  EXPECT_EQ(part_shares(with_reducers({1}, {10})), (std::vector<double>{1, 0}));
}

TEST(PartShares, ReducersThatCannotBeDialedOwnNothing) {
  auto members = with_reducers({1, 1}, {1, 1});
  members[3].reachable = false;
  EXPECT_EQ(part_shares(members), (std::vector<double>{0.25, 0.25, 0.5, 0}));
  members[2].reachable = false;
  EXPECT_EQ(part_shares(members), (std::vector<double>{1, 1, 0, 0}));
}

TEST(PartShares, ReducersOwnAllWhenNobodyElseCanBeDialed) {
  for (const std::size_t n : {2, 3}) {
    auto members = with_reducers(std::vector<double>(n, 1.0), {3, 1});
    for (std::size_t i = 0; i < n; ++i) members[i].reachable = false;
    std::vector<double> expected(n, 0.0);
    expected.insert(expected.end(), {0.75, 0.25});
    EXPECT_EQ(part_shares(members), expected) << n;
  }
}

TEST(Choose, AParamServerWithoutReducersIsAButterfly) {
  const SyncSpec sync =
      sync_with([](SyncSpec& options) { options.topology = Topology::kParamServer; });
  EXPECT_EQ(choose_topology(sync, with_reducers({1, 1}, {1})),
            (TopologyChoice{Topology::kParamServer, TopologyReason::kAsked}));
  EXPECT_EQ(choose_topology(sync, lines({1, 1})),
            (TopologyChoice{Topology::kButterfly, TopologyReason::kNoReducers}));
}

TEST(PartShares, WhoCannotBeDialedOwnsNothing) {
  std::vector<LinkedMember> members = lines({4, 4, 4, 4});
  members[1].reachable = false;
  const auto shares = part_shares(members);
  EXPECT_EQ(shares[1], 0);
  EXPECT_NEAR(shares[0], 1.0 / 3, 1e-12);
  members = lines({1, 1});
  members[0].reachable = false;
  EXPECT_EQ(part_shares(members), (std::vector<double>{0, 1}));
  members = lines({1, 1, 1});
  members[0].reachable = members[2].reachable = false;
  EXPECT_EQ(part_shares(members), (std::vector<double>{0, 1, 0}));
  members[1].reachable = false;
  EXPECT_EQ(part_shares(members), (std::vector<double>{1, 1, 1}));
}

TEST(PartShares, WhatIsNotKnownIsTypical) {
  const auto equal = part_shares(lines({0, 0, 0, 0}));
  for (const double share : equal) EXPECT_NEAR(share, 0.25, 1e-12);
  const auto shares = part_shares(lines({0, 8, 8, 1}));
  EXPECT_NEAR(shares[0], shares[1], 1e-12);
  EXPECT_LT(shares[3], shares[1]);
  const auto middle = part_shares(lines({0, 5, 1, 9, 1, 9}));  // the median of what is known is 5
  EXPECT_NEAR(middle[0], middle[1], 1e-12);
  EXPECT_GT(middle[0], middle[2]);
  EXPECT_LT(middle[0], middle[3]);
  EXPECT_EQ(part_shares(lines({0, 9})), (std::vector<double>{1, 1}));
  EXPECT_EQ(part_shares(lines({3})), (std::vector<double>{1}));
}

TEST(RingOrder, SlowOnesStandSideBySide) {
  EXPECT_EQ(ring_order(lines({1, 8, 2, 8})), (std::vector<std::size_t>{1, 3, 2, 0}));
  EXPECT_EQ(ring_order(lines({0, 0, 0})), (std::vector<std::size_t>{0, 1, 2}));
}

TEST(ChooseTopology, EveryReason) {
  const auto choose = [](std::size_t n, auto change) {
    std::vector<LinkedMember> members(n);
    const SyncSpec sync = sync_with([&](SyncSpec& options) {
      options.topology = Topology::kAuto;
      change(options, members);
    });
    return choose_topology(sync, members);
  };
  using S = SyncSpec;
  using M = std::vector<LinkedMember>;
  for (const Topology groups : {Topology::kMoshpit, Topology::kGossip}) {
    EXPECT_EQ(choose(3, [&](S& s, M&) { s.topology = groups, s.codec = CodecKind::kFp32; }),
              (TopologyChoice{Topology::kButterfly, TopologyReason::kGroups}));
  }
  EXPECT_EQ(choose(3, [](S& s, M&) { s.topology = Topology::kRing; }),
            (TopologyChoice{Topology::kRing, TopologyReason::kAsked}));
  EXPECT_EQ(choose(3, [](S& s, M&) { s.codec = CodecKind::kSparse2; }),
            (TopologyChoice{Topology::kAllgather, TopologyReason::kSparse}));
  EXPECT_EQ(choose(100, [](S& s, M&) { s.aggregator = Aggregator::kTrimmedMean; }),
            (TopologyChoice{Topology::kButterfly, TopologyReason::kRobust}));
  EXPECT_EQ(choose(100, [](S& s, M&) { s.outer_state = OuterState::kSharded; }),
            (TopologyChoice{Topology::kButterfly, TopologyReason::kSharded}));
  EXPECT_EQ(choose(100, [](S&, M& m) { m[3].reachable = false; }),
            (TopologyChoice{Topology::kButterfly, TopologyReason::kUnreachable}));
  EXPECT_EQ(choose(kStreamsMax + 1, [](S&, M&) {}),
            (TopologyChoice{Topology::kButterfly, TopologyReason::kFewestHops}));
  EXPECT_EQ(choose(kStreamsMax + 2, [](S&, M&) {}),
            (TopologyChoice{Topology::kRing, TopologyReason::kManyStreams}));
  for (const CodecKind coarse : {CodecKind::kInt4, CodecKind::kE3m0, CodecKind::kE5m2}) {
    EXPECT_EQ(choose(kStreamsMax + 2, [&](S& s, M&) { s.codec = coarse; }),
              (TopologyChoice{Topology::kButterfly, TopologyReason::kRequantized}));
  }
}

std::vector<LinkedMember> lines_of_mbit(std::vector<double> mbit) {
  for (double& rate : mbit) rate *= 1e6 / 8;
  return lines(mbit);
}

TEST(FrameValues, FollowTheSlowestKnownLine) {
  EXPECT_EQ(frame_values_for(CodecKind::kFp32, lines_of_mbit({0, 0})), kFrameValuesUsual);
  EXPECT_EQ(frame_values_for(CodecKind::kFp32, lines_of_mbit({200, 200, 0})), 1 << 13);
  EXPECT_EQ(frame_values_for(CodecKind::kInt8, lines_of_mbit({200, 1000})), 1 << 15);
  EXPECT_EQ(frame_values_for(CodecKind::kInt4, lines_of_mbit({200})), 1 << 16);
  EXPECT_EQ(frame_values_for(CodecKind::kFp32, lines_of_mbit({1, 1000})), kFrameValuesMin);
  EXPECT_EQ(frame_values_for(CodecKind::kFp32, lines_of_mbit({10'000})), kFrameValuesUsual);
  EXPECT_EQ(frame_values_for(CodecKind::kBf16, lines_of_mbit({10'000})), 1 << 19);
  EXPECT_EQ(frame_values_for(CodecKind::kInt8, lines_of_mbit({10'000})), kFrameValuesMax);
  EXPECT_EQ(frame_values_for(CodecKind::kInt4, lines_of_mbit({10'000})), kFrameValuesMax);
  EXPECT_EQ(frame_values_for(CodecKind::kInt8, lines_of_mbit({0, 0})), kFrameValuesUsual);
  EXPECT_EQ(frame_values_for(CodecKind::kSparse2, lines_of_mbit({1})), kFrameValuesUsual);
}

TEST(EntropyCoding, PaysOnLinesThatAreSlowerThanACore) {
  EXPECT_TRUE(pays_entropy_coding(CodecKind::kFp32, lines_of_mbit({200, 10'000})));
  EXPECT_TRUE(pays_entropy_coding(CodecKind::kInt4, lines_of_mbit({0, 999})));
  EXPECT_FALSE(pays_entropy_coding(CodecKind::kFp32, lines_of_mbit({1000, 10'000})));
  EXPECT_FALSE(pays_entropy_coding(CodecKind::kFp32, lines_of_mbit({0, 0})));
  EXPECT_FALSE(
      pays_entropy_coding(CodecKind::kSparse2, lines_of_mbit({1})));  // its bytes are random
}

}  // namespace
}  // namespace shoal::outer_opt
