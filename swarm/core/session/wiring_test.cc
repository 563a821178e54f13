#include "swarm/core/session/wiring.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

ReplicaId id(std::uint64_t n) { return ReplicaId(n); }

std::map<std::uint64_t, int> run(Wiring& wiring, int choices) {
  std::map<std::uint64_t, int> counts;
  for (int i = 0; i < choices; ++i) {
    const auto chosen = wiring.choose(1);
    ++counts[chosen->n];
    wiring.give_back(*chosen);
  }
  return counts;
}

TEST(Wiring, SharesFollowTheReportedServiceTime) {
  Wiring wiring(1);
  wiring.add(id(1), milliseconds(100), 4);
  wiring.add(id(2), milliseconds(200), 4);
  wiring.add(id(3), milliseconds(400), 4);
  const auto counts = run(wiring, 700);
  EXPECT_NEAR(counts.at(1), 400, 2);
  EXPECT_NEAR(counts.at(2), 200, 2);
  EXPECT_NEAR(counts.at(3), 100, 2);
}

TEST(Wiring, AReportMovesTheEstimateByAFifth) {
  Wiring wiring(1);
  wiring.add(id(1), milliseconds(100), 4);
  wiring.report(id(1), milliseconds(800), 4);  // 200 ms per work
  EXPECT_EQ(wiring.service_per_work(id(1)).ms(), 120);
}

TEST(Wiring, UnknownServiceTimeIsTheMeanOfTheOthers) {
  Wiring wiring(1);
  wiring.add(id(1), milliseconds(100), 4);
  wiring.add(id(2), milliseconds(300), 4);
  wiring.add(id(3), {}, 4);
  EXPECT_EQ(wiring.service_per_work(id(3)).ms(), 200);
  wiring.report(id(3), milliseconds(50), 1);
  EXPECT_EQ(wiring.service_per_work(id(3)).ms(), 50);
  wiring.add(id(4), {}, 4);
  EXPECT_NEAR(wiring.service_per_work(id(4)).seconds(), 0.15, 1e-9) << "of three by now";
  wiring.remove(id(2));
  EXPECT_NEAR(wiring.service_per_work(id(4)).seconds(), 0.075, 1e-9);
}

TEST(Wiring, CreditsBoundWhatIsInFlight) {
  Wiring wiring(1);
  wiring.add(id(1), milliseconds(1), 2);
  wiring.add(id(2), milliseconds(1), 1);
  std::multiset<std::uint64_t> chosen;
  while (const auto next = wiring.choose(1)) chosen.insert(next->n);
  EXPECT_EQ(chosen, (std::multiset<std::uint64_t>{1, 1, 2}));
  wiring.give_back(id(2));
  EXPECT_EQ(wiring.choose(1), id(2));
}

TEST(Wiring, ReturningReplicaIsNotFlooded) {
  Wiring wiring(1);
  wiring.add(id(1), milliseconds(10), 4);
  wiring.add(id(2), milliseconds(10), 4);
  wiring.ban(id(2));
  EXPECT_EQ(run(wiring, 100).at(1), 100);
  wiring.unban(id(2));
  wiring.add(id(3), milliseconds(10), 4);
  const auto counts = run(wiring, 30);
  for (std::uint64_t n = 1; n <= 3; ++n) EXPECT_NEAR(counts.at(n), 10, 1);
}

TEST(Wiring, RemovedAndUnknownReplicasAreNeverChosen) {
  Wiring wiring(1);
  for (std::uint64_t n = 1; n <= 50; ++n) wiring.add(id(n), milliseconds(n), 3);
  for (std::uint64_t n = 1; n <= 50; n += 2) wiring.remove(id(n));
  wiring.remove(id(99));
  wiring.give_back(id(1));
  wiring.report(id(1), milliseconds(1), 1);
  EXPECT_EQ(wiring.size(), 25u);
  for (const auto& [n, count] : run(wiring, 500)) EXPECT_EQ(n % 2, 0u);
  for (std::uint64_t n = 2; n <= 50; n += 2) wiring.remove(id(n));
  EXPECT_FALSE(wiring.choose(1).has_value());
}

TEST(Wiring, CreditsFollowTheRoundTrip) {
  EXPECT_EQ(credits_for(milliseconds(200), {}, {}), 2);
  EXPECT_EQ(credits_for(milliseconds(200), milliseconds(500), milliseconds(16)), 5);
  EXPECT_EQ(credits_for(milliseconds(1), seconds(1), {}), kCreditsMax);
}

TEST(Wiring, AmpleCreditsAreTwiceThePart) {
  EXPECT_EQ(ample_credits(96, 4, .25), 12);
  EXPECT_EQ(ample_credits(96, 4, .75), 36);
  EXPECT_EQ(ample_credits(1, 100, .01), kCreditsMin);
}

TEST(Wiring, AnExpectationReplacesTheEstimate) {
  Wiring wiring(1);
  wiring.add(id(1), milliseconds(1000), 4);
  wiring.add(id(2), {}, 4);
  wiring.expect(id(1), milliseconds(100));
  EXPECT_EQ(wiring.service_per_work(id(2)).ms(), 100);
  wiring.report(id(1), milliseconds(200), 1);
  EXPECT_EQ(wiring.service_per_work(id(1)).ms(), 120);
}

}  // namespace
}  // namespace shoal::swarm
