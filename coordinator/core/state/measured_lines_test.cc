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

}  // namespace
}  // namespace shoal::coordinator
