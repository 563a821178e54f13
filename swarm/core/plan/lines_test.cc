#include "swarm/core/plan/lines.h"

#include <gmock/gmock.h>

namespace shoal::swarm {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr double kBoundary = 100;  // bytes of a token

auto about(double value) { return DoubleNear(value, value * 3e-3); }

// Agents 0 and 1 are stage 0, agents 2 and 3 are stage 1.
const std::vector<Placement> kTwoByTwo = {{0, 0}, {1, 0}, {2, 1}, {3, 1}};

LineFlow two_by_two(const std::vector<double>& rates, const std::vector<SharedLine>& lines) {
  return flow_through(2, kTwoByTwo, rates, LineMap(4, lines), kBoundary);
}

TEST(LineFlow, WithoutLinesIsTheWeakestStage) {
  const LineFlow flow = two_by_two({10, 20, 10, 10}, {});
  EXPECT_EQ(flow.tokens_per_s, 20);
  EXPECT_EQ(flow.full_line, -1);
  EXPECT_THAT(flow.rates, ElementsAre(about(20. / 3), about(40. / 3), 10, 10));
}

// Agent 2 receives 400 bytes/s, which are 4 tokens; its neighbor does the others.
TEST(LineFlow, AFullLineLeavesWorkToTheOthersOfItsStage) {
  LineFlow flow = two_by_two({10, 10, 20, 30}, {{{2}, 400}});
  EXPECT_THAT(flow.tokens_per_s, about(20)) << "stage 0 binds";
  EXPECT_THAT(flow.rates[2], about(4));
  EXPECT_THAT(flow.rates[3], about(16));
  flow = two_by_two({20, 20, 20, 10}, {{{2}, 400}});
  EXPECT_THAT(flow.tokens_per_s, about(14));
  EXPECT_EQ(flow.full_line, 0);
}

TEST(LineFlow, AnInnerStageCrossesTwoBoundaries) {
  const std::vector<Placement> three = {{0, 0}, {1, 1}, {2, 2}};
  EXPECT_THAT(
      flow_through(3, three, {50, 50, 50}, LineMap(3, {{{1}, 1000}}), kBoundary).tokens_per_s,
      about(5));
  EXPECT_THAT(
      flow_through(3, three, {50, 50, 50}, LineMap(3, {{{0}, 1000}}), kBoundary).tokens_per_s,
      about(10));
}

TEST(LineFlow, DevicesOfAHostShareItsLine) {
  const LineFlow flow = two_by_two({10, 10, 10, 10}, {{{0, 1}, 500}});
  EXPECT_THAT(flow.tokens_per_s, about(5));
  EXPECT_THAT(flow.rates, ElementsAre(about(2.5), about(2.5), about(2.5), about(2.5)));
}

// Half of what either site's stage 0 sends stays within the site.
TEST(LineFlow, WhatStaysBehindALineIsNotOnIt) {
  EXPECT_THAT(two_by_two({10, 10, 10, 10}, {{{0, 1, 2, 3}, 1}}).tokens_per_s, about(20));
  EXPECT_THAT(two_by_two({10, 10, 10, 10}, {{{0, 2}, 500}, {{1, 3}, 500}}).tokens_per_s, about(10));
}

TEST(LineFlow, OfALineThatCarriesNextToNothingIsNextToNothing) {
  const std::vector<Placement> two = {{0, 0}, {1, 1}};
  const LineFlow flow =
      flow_through(2, two, {1e6, 1e6}, LineMap(3, {{{0}, 1e-3}, {{1}, 1e9}}), kBoundary);
  EXPECT_THAT(flow.tokens_per_s, about(1e-5));
  EXPECT_EQ(flow.full_line, 0);
}

}  // namespace
}  // namespace shoal::swarm
