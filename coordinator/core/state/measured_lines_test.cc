#include "coordinator/core/state/measured_lines.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr Instant kNow{1'700'000'000'000'000'000};
const AgentId kA(1), kB(2), kC(3);

struct Lines : testing::Test {
  void measured(AgentId from, AgentId to, double bytes_per_s, Duration ago,
                PeerWay way = PeerWay::kDirect) {
    LinkRecord link;
    link.from = from, link.to = to;
    link.bytes_per_s = bytes_per_s;
    link.way = way;
    link.measured_at = link.reached_at = kNow - ago;
    state.links.put({from, to}, link);
  }
  void measured_by_coordinator(AgentId id, HostLine line, Duration ago) {
    AgentRecord agent{.id = id};
    agent.line = line;
    agent.line.measured_at = kNow - ago;
    state.agents.put(id, agent);
  }
  State state;
};

TEST_F(Lines, AreTheBestThatWasMeasuredEachWay) {
  measured(kA, kB, 100, {});
  measured(kA, kC, 30, {});
  measured(kB, kA, 50, {});
  measured(kC, kA, 70, {});
  const AgentLine a = lines_of(state, kNow).at(kA);
  EXPECT_EQ(a.up, 100);
  EXPECT_EQ(a.down, 70);
  EXPECT_EQ(a.bytes_per_s(), 70);
}

TEST_F(Lines, AnOldMeasurementCountsForNothing) {
  measured(kA, kB, 100, kLinkFresh + seconds(1));
  measured(kA, kC, 30, kLinkFresh);
  EXPECT_EQ(lines_of(state, kNow).at(kA).up, 30);
  EXPECT_FALSE(lines_of(state, kNow).contains(kB));
}

TEST_F(Lines, OneDirectionAloneStandsForBoth) {
  measured(kA, kB, 100, {});
  EXPECT_EQ(lines_of(state, kNow).at(kB).bytes_per_s(), 100);
}

TEST_F(Lines, ThatWereReachedLatelyAreNotMeasuredThereby) {
  measured(kA, kB, 100, kLinkFresh + seconds(1));
  state.links.at({kA, kB}).reached_at = kNow;
  EXPECT_EQ(lines_of(state, kNow).at(kB).down, 0);
  EXPECT_TRUE(lines_of(state, kNow).at(kB).reached);
}

TEST_F(Lines, AreLowerBoundsWhereTrafficAloneHasShownTheBest) {
  measured(kA, kB, 100, {});
  measured(kC, kB, 200, {});
  state.links.at({kC, kB}).at_least = true;
  EXPECT_FALSE(lines_of(state, kNow).at(kA).at_least);
  EXPECT_TRUE(lines_of(state, kNow).at(kB).at_least);
}

TEST_F(Lines, WhoWasTriedInVainIsMissed) {
  measured(kA, kB, 0, {}, PeerWay::kUnreachable);
  const AgentLine b = lines_of(state, kNow).at(kB);
  EXPECT_TRUE(b.missed);
  EXPECT_FALSE(b.reached);
}

TEST_F(Lines, AreThoseToTheCoordinatorWhereNoPeerHasMeasured) {
  measured_by_coordinator(kA, {.up = 20, .down = 50, .round_trip = milliseconds(30)}, seconds(60));
  const AgentLine a = lines_of(state, kNow).at(kA);
  EXPECT_EQ(a.up, 20);
  EXPECT_EQ(a.down, 50);
  EXPECT_EQ(a.round_trip, milliseconds(30));
  EXPECT_TRUE(a.to_coordinator);
  EXPECT_TRUE(is_measured(a));
  EXPECT_EQ(a.measured_at, kNow - seconds(60));
}

TEST_F(Lines, ShortRoundTripsToTheCoordinatorCountAsNone) {
  measured_by_coordinator(kA, {.up = 20, .down = 50, .round_trip = milliseconds(4)}, {});
  EXPECT_EQ(lines_of(state, kNow).at(kA).round_trip, Duration());
}

TEST_F(Lines, MeasuredByPeersCountBeforeThoseToTheCoordinator) {
  measured_by_coordinator(kA, {.up = 20, .down = 50, .round_trip = milliseconds(1)}, {});
  measured(kA, kB, 15, seconds(900));
  AgentLine a = lines_of(state, kNow).at(kA);
  EXPECT_EQ(a.bytes_per_s(), 15);
  EXPECT_TRUE(is_measured_by_peers(a));
  a = lines_of(state, kNow + kLinkFresh).at(kA);
  EXPECT_EQ(a.bytes_per_s(), 20) << "that of the peer is too old";
  EXPECT_TRUE(a.to_coordinator);
}

TEST_F(Lines, TrafficMayShowMoreThanTheCoordinatorsOwnLineCarries) {
  measured_by_coordinator(kA, {.up = 20, .down = 20}, {});
  measured_by_coordinator(kB, {.up = 20, .down = 90}, {});
  measured(kA, kB, 70, {});
  state.links.at({kA, kB}).at_least = true;
  const AgentLine a = lines_of(state, kNow).at(kA);
  EXPECT_EQ(a.up, 70);
  EXPECT_EQ(a.down, 20);
  EXPECT_FALSE(a.at_least) << "the slower direction is measured";
  state.links.at({kA, kB}).bytes_per_s = 10;
  EXPECT_EQ(lines_of(state, kNow).at(kA).up, 20) << "traffic needed no more";
  measured_by_coordinator(kA, {.up = 20}, {});
  state.links.at({kA, kB}).bytes_per_s = 70;
  EXPECT_TRUE(lines_of(state, kNow).at(kA).at_least);
}

TEST_F(Lines, ToTheCoordinatorAreForgottenAfterADay) {
  measured_by_coordinator(kA, {.up = 20, .down = 50, .round_trip = milliseconds(1)},
                          kHostLineKnown);
  EXPECT_TRUE(lines_of(state, kNow).contains(kA));
  EXPECT_FALSE(lines_of(state, kNow + seconds(1)).contains(kA));
}

TEST_F(Lines, OfAgentsThatDidNotAnswerInTimeAreForgottenSoon) {
  measured_by_coordinator(kA, {.up = 20, .down = 50}, kSilentLineKnown);
  EXPECT_TRUE(lines_of(state, kNow).contains(kA));
  EXPECT_FALSE(lines_of(state, kNow + seconds(1)).contains(kA));
}

TEST_F(Lines, OfAShortProbeAreLowerBounds) {
  measured_by_coordinator(kA, {.up = 20, .down = 50, .at_least = true}, {});
  EXPECT_FALSE(is_measured(lines_of(state, kNow).at(kA)));
}

TEST_F(Lines, ToTheCoordinatorSayNothingBetweenAgentsOfOneHost) {
  for (const AgentId id : {kA, kB, kC}) {
    measured_by_coordinator(id, {.up = 20, .down = 50}, {});
    state.agents.at(id).host = id == kC ? "far" : "near";
  }
  auto lines = lines_between(state, kNow, {kA, kB, kC});
  EXPECT_EQ(lines.at(kA).bytes_per_s(), 0);
  EXPECT_EQ(lines.at(kB).bytes_per_s(), 0);
  EXPECT_EQ(lines.at(kC).bytes_per_s(), 20);
  EXPECT_EQ(lines_between(state, kNow, {kA, kA, kC}).at(kA).bytes_per_s(), 20) << "two devices";
  measured(kA, kC, 15, {});
  lines = lines_between(state, kNow, {kA, kB, kC});
  EXPECT_EQ(lines.at(kA).bytes_per_s(), 15) << "a peer has measured it";
  EXPECT_EQ(lines.at(kB).bytes_per_s(), 0);
}

}  // namespace
}  // namespace shoal::coordinator
