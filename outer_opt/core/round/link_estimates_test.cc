#include "outer_opt/core/round/link_estimates.h"

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

constexpr Instant kNow = from_unix_ms(1'000'000);
constexpr Bytes kMega{1'000'000};

LinkEstimate probe(std::uint64_t peer, double to, double from) {
  return {ReplicaId(peer), milliseconds(20), to, from, true};
}

LinkEstimate traffic(std::uint64_t peer, double from) {
  LinkEstimate link{ReplicaId(peer), Duration(), 0, from, true};
  link.at_least = true;
  return link;
}

TEST(FlowRate, IsThatOfTheLaterHalf) {
  // 1 MB in the first second, then 4 MB in half a second.
  const std::vector<FlowSample> samples = {{kNow, Bytes(0)},
                                           {kNow + seconds(1), kMega},
                                           {kNow + milliseconds(1250), Bytes(3'000'000)},
                                           {kNow + milliseconds(1500), Bytes(5'000'000)}};
  EXPECT_DOUBLE_EQ(flow_rate(samples), 8e6);
}

TEST(FlowRate, CountsFromTheFirstMessageThatBringsHalf) {
  // 6 MB: 2.5 of them came late, the half at exactly 3 s, the rest within a second.
  const std::vector<FlowSample> samples = {{kNow, Bytes(0)},
                                           {kNow + seconds(2), Bytes(2'500'000)},
                                           {kNow + seconds(3), Bytes(3'000'000)},
                                           {kNow + milliseconds(3500), Bytes(5'000'000)},
                                           {kNow + seconds(4), Bytes(6'000'000)}};
  EXPECT_DOUBLE_EQ(flow_rate(samples), 3e6);
}

TEST(FlowRate, OfTwoMessagesTheSecondCounts) {
  EXPECT_DOUBLE_EQ(flow_rate({{kNow, kMega}, {kNow + seconds(1), Bytes(1'500'000)}}), 5e5);
  EXPECT_DOUBLE_EQ(flow_rate({{kNow, Bytes(10)}, {kNow + seconds(1), kMega}}), 999'990);
}

TEST(FlowRate, SaysNothingWithoutTime) {
  EXPECT_EQ(flow_rate({}), 0);
  EXPECT_EQ(flow_rate({{kNow, kMega}}), 0);
  EXPECT_EQ(flow_rate({{kNow, kMega}, {kNow, Bytes(5'000'000)}}), 0);
}

TEST(LinkEstimates, AProbeReplacesWhatWasKnown) {
  LinkEstimates links;
  links.probed(kNow, probe(2, 1e6, 2e6));
  links.probed(kNow, probe(2, 5e5, 1e6));
  EXPECT_EQ(links.take_changed(), std::vector{probe(2, 5e5, 1e6)});
  EXPECT_TRUE(links.take_changed().empty());
  links.probed(kNow, probe(2, 5e5, 1e6));  // confirmed: that is news, too
  EXPECT_EQ(links.take_changed().size(), 1u);
}

TEST(LinkEstimates, TrafficRaisesAndNeverLowers) {
  LinkEstimates links;
  links.probed(kNow, probe(2, 1e6, 1e6));
  links.carried(kNow, ReplicaId(2), kMega, seconds(2));
  EXPECT_EQ(links.take_changed(), std::vector{probe(2, 1e6, 1e6)});
  links.carried(kNow, ReplicaId(2), Bytes(4'000'000), seconds(2));
  EXPECT_EQ(links.take_changed(), std::vector{traffic(2, 2e6)});
  links.carried(kNow, ReplicaId(2), Bytes(4'200'000), seconds(2));
  EXPECT_TRUE(links.take_changed().empty()) << "five per cent are no news";
}

TEST(LinkEstimates, ARateIsToldAgainOnlyWhenItWasShownAgain) {
  LinkEstimates links;
  links.probed(kNow, probe(2, 1e6, 1e6));
  links.take_changed();
  const Instant later = kNow + seconds(61);
  links.reached(later, ReplicaId(2), PeerWay::kDirect);
  auto told = links.take_changed();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].from_per_s, 0) << "reached, not measured";
  EXPECT_EQ(told[0].to_per_s, 0);
  EXPECT_EQ(told[0].round_trip, Duration{});
  links.carried(later + seconds(61), ReplicaId(2), kMega, seconds(2));
  EXPECT_TRUE(links.take_changed().empty()) << "half of it says nothing of the line";
  links.carried(later + seconds(61), ReplicaId(2), kMega, seconds(1));
  told = links.take_changed();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].from_per_s, 1e6);
  EXPECT_TRUE(told[0].at_least);
}

TEST(LinkEstimates, ALineThatBecameSlowerIsNews) {
  LinkEstimates links;
  links.probed(kNow, probe(2, 1e6, 1e6));
  links.take_changed();
  links.answered(kNow, probe(2, 0, 8e5));
  EXPECT_EQ(links.take_changed(), std::vector{probe(2, 0, 8e5)}) << "a fifth less";
  links.answered(kNow, probe(2, 0, 7.5e5));
  EXPECT_TRUE(links.take_changed().empty()) << "six per cent less are no news";
}

TEST(LinkEstimates, WhatPassedOverALineReachedIt) {
  LinkEstimates links;
  for (const std::uint64_t peer : {2, 3}) {
    links.probed(kNow, {ReplicaId(peer), Duration(), 0, 0, false});
  }
  links.take_changed();
  links.answered(kNow, probe(2, 0, 0));  // too short for a rate, but it came through
  links.carried(kNow, ReplicaId(3), kMega, seconds(1));
  const auto changed = links.take_changed();
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_TRUE(changed[0].reached);
  EXPECT_TRUE(changed[1].reached);
}

TEST(LinkEstimates, APeerKnownByTrafficOnlyIsNamed) {
  LinkEstimates links;
  links.carried(kNow, ReplicaId(5), kMega, seconds(1));
  EXPECT_EQ(links.take_changed(), std::vector{traffic(5, 1e6)});
}

TEST(LinkEstimates, APeerWithoutNewsHidesNoOther) {
  LinkEstimates links;
  links.probed(kNow, probe(2, 1e6, 1e6));
  links.probed(kNow, probe(3, 1e6, 1e6));
  links.take_changed();
  links.carried(kNow, ReplicaId(3), Bytes(5'000'000), seconds(1));
  EXPECT_EQ(links.take_changed(), std::vector{traffic(3, 5e6)});
}

TEST(LinkEstimates, LittleTrafficSaysNothing) {
  LinkEstimates links;
  links.carried(kNow, ReplicaId(2), Bytes(1000), milliseconds(1));
  links.carried(kNow, ReplicaId(3), kMega, Duration());
  EXPECT_TRUE(links.take_changed().empty());
}

TEST(LinkEstimates, TheOldestPeersAreForgotten) {
  LinkEstimates links;
  for (std::uint64_t i = 0; i <= kLinksMax; ++i) {
    links.probed(kNow + seconds(static_cast<std::int64_t>(i)), probe(i + 1, 1e6, 1e6));
  }
  const auto known = links.take_changed();
  ASSERT_EQ(known.size(), kLinksMax);
  EXPECT_EQ(known.front().peer, ReplicaId(2));
}

TEST(LinkEstimates, WhoeverIsInUseIsNotTheOldest) {
  LinkEstimates links;
  for (std::uint64_t i = 0; i < kLinksMax; ++i) links.probed(kNow, probe(i + 1, 1e6, 1e6));
  for (std::uint64_t i = 0; i < kLinksMax; ++i) {
    if (i != 6) links.carried(kNow + seconds(1), ReplicaId(i + 1), kMega, seconds(1));
  }
  EXPECT_EQ(links.take_changed().size(), kLinksMax) << "news of known peers push nobody out";
  links.probed(kNow + seconds(2), probe(kLinksMax + 1, 1e6, 1e6));
  EXPECT_EQ(links.connections(ReplicaId(7)), 1);
  links.take_changed();
  for (std::uint64_t i = 0; i <= kLinksMax; ++i) {
    links.carried(kNow + seconds(3), ReplicaId(i + 1), Bytes(10'000'000), seconds(1));
    if (i == 5) i = 6;  // not the forgotten one
  }
  EXPECT_EQ(links.take_changed().size(), kLinksMax);
}

TEST(Connections, FollowWhatIsUnderWay) {
  EXPECT_EQ(connections_for(0, {}), 1);
  EXPECT_EQ(connections_for(1e9, {}), 1);                 // the round trip is not known
  EXPECT_EQ(connections_for(25e6, milliseconds(20)), 1);  // 0.5 MB under way
  EXPECT_EQ(connections_for(13.6e6, milliseconds(100)),
            3);                                            // one alone, 1 % lost: it asks for more
  EXPECT_EQ(connections_for(25e6, milliseconds(100)), 5);  // 2.5 MB
  EXPECT_EQ(connections_for(1250e6, milliseconds(200)), kConnectionsMax);
}

TEST(Connections, BothSidesOfAMeasurementKnowTheLine) {
  LinkEstimates asked, asking;
  const LinkEstimate line{ReplicaId(2), milliseconds(100), 5e6, 15e6, true};
  EXPECT_EQ(asking.connections(ReplicaId(2)), 1);
  asking.probed({}, line);
  EXPECT_EQ(asking.connections(ReplicaId(2)), 3);
  asked.answered({}, {ReplicaId(1), milliseconds(100), 0, 6e6, true});
  EXPECT_EQ(asked.connections(ReplicaId(1)), 2);
  asked.carried({}, ReplicaId(1), Bytes(12'500'000), seconds(1));  // two carried more than one
  EXPECT_EQ(asked.connections(ReplicaId(1)), 3);
}

}  // namespace
}  // namespace shoal::outer_opt
