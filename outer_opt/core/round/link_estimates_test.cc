#include "outer_opt/core/round/link_estimates.h"

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

constexpr Instant kNow = from_unix_ms(1'000'000);
constexpr Bytes kMega{1'000'000};

LinkEstimate probe(std::uint64_t peer, double to, double from) {
  return {ReplicaId(peer), milliseconds(20), to, from, true};
}

TEST(FlowRate, IsThatOfTheLaterHalf) {
  // 1 MB in the first second, then 4 MB in half a second.
  const std::vector<FlowSample> samples = {{kNow, Bytes(0)},
                                           {kNow + seconds(1), kMega},
                                           {kNow + milliseconds(1250), Bytes(3'000'000)},
                                           {kNow + milliseconds(1500), Bytes(5'000'000)}};
  EXPECT_DOUBLE_EQ(flow_rate(samples), 8e6);
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
  EXPECT_EQ(links.take_changed(), std::vector{probe(2, 1e6, 2e6)});
  links.carried(kNow, ReplicaId(2), Bytes(4'200'000), seconds(2));
  EXPECT_TRUE(links.take_changed().empty()) << "five per cent are no news";
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

TEST(Connections, FollowWhatIsUnderWay) {
  EXPECT_EQ(connections_for(0, {}), 1);
  EXPECT_EQ(connections_for(1e9, {}), 1);                   // the round trip is not known
  EXPECT_EQ(connections_for(25e6, milliseconds(80)), 1);    // 2.0 MB under way
  EXPECT_EQ(connections_for(25e6, milliseconds(100)), 2);   // 2.5 MB
  EXPECT_EQ(connections_for(125e6, milliseconds(100)), 6);  // 12.5 MB
  EXPECT_EQ(connections_for(1250e6, milliseconds(200)), kConnectionsMax);
}

TEST(Connections, BothSidesOfAMeasurementKnowTheLine) {
  LinkEstimates asked, asking;
  const LinkEstimate line{ReplicaId(2), milliseconds(100), 20e6, 60e6, true};
  EXPECT_EQ(asking.connections(ReplicaId(2)), 1);
  asking.probed({}, line);
  EXPECT_EQ(asking.connections(ReplicaId(2)), 3);
  asked.answered({}, {ReplicaId(1), milliseconds(100), 0, 25e6, true});
  EXPECT_EQ(asked.connections(ReplicaId(1)), 2);
  asked.carried({}, ReplicaId(1), Bytes(50'000'000), seconds(1));  // two carried more than one
  EXPECT_EQ(asked.connections(ReplicaId(1)), 3);
}

}  // namespace
}  // namespace shoal::outer_opt
