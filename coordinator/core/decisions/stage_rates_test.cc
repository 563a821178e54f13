#include "coordinator/core/decisions/stage_rates.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

// 10 GFLOP per microbatch in the first stage, 20 in the second.
const std::vector<double> kWork = {10e9, 20e9};

PlacedReplica replica(std::uint64_t id, StageIndex stage, double gflops, double service_s) {
  PlacedReplica made{.id = ReplicaId(id), .stage = stage};
  made.agent = AgentId(id);
  made.gflops = gflops;
  made.service = {seconds_f(service_s), seconds_f(service_s)};
  return made;
}

TEST(StageRates, ArePromisesUntilSomebodyReports) {
  const auto rates = stage_rates({replica(1, 0, 50, 0), replica(2, 1, 0, 0)}, kWork);
  EXPECT_EQ(rates.efficiency, (std::vector<double>{1, 1}));
  EXPECT_EQ(rates.gflops, (std::vector<double>{50, 0}));
}

TEST(StageRates, TellTheStageFromTheDevice) {
  // Both stages have one device of 40 that keeps its promise and one of 40 that gives half of it;
  // the first stage reaches half of a matrix product, the second a quarter.
  const auto rates = stage_rates(
      {replica(1, 0, 40, 0.5), replica(2, 0, 40, 1), replica(3, 1, 40, 2), replica(4, 1, 40, 4)},
      kWork);
  EXPECT_DOUBLE_EQ(rates.efficiency[0], 0.5);
  EXPECT_DOUBLE_EQ(rates.efficiency[1], 0.25);
  EXPECT_DOUBLE_EQ(rates.gflops[0], 2 * rates.gflops[1]);
  EXPECT_DOUBLE_EQ(rates.gflops[0], rates.gflops[2]);
  EXPECT_DOUBLE_EQ(rates.gflops[0] * rates.efficiency[0], 20);  // what was seen
}

// Once it did a microbatch in half a second; now it takes 10 s.
TEST(StageRates, ALoneReplicaThatIsSlowedDownIsSlowAndItsStageIsNot) {
  PlacedReplica slowed = replica(1, 0, 40, 10);
  slowed.service.best = seconds_f(0.5);
  const auto rates = stage_rates({slowed, replica(2, 1, 40, 1)}, kWork);
  EXPECT_DOUBLE_EQ(rates.efficiency[0], 0.5);
  EXPECT_DOUBLE_EQ(rates.gflops[0], 2) << "a twentieth of its device";
  EXPECT_DOUBLE_EQ(rates.gflops[1], 40);
}

// It joined when it was throttled to a quarter already.
TEST(StageRates, AReplicaThatIsSlowFromTheStartIsSlowAndItsStageIsNot) {
  const std::vector<PlacedReplica> live = {replica(1, 0, 40, 0.5), replica(2, 0, 40, 2),
                                           replica(3, 1, 40, 1)};
  const auto two = stage_rates(live, kWork);
  EXPECT_DOUBLE_EQ(two.efficiency[0], 0.5);
  EXPECT_DOUBLE_EQ(two.gflops[0], 40);
  EXPECT_DOUBLE_EQ(two.gflops[1], 10);
  EXPECT_DOUBLE_EQ(two.efficiency[1], 0.5) << "the other stage";
}

TEST(StageRates, AStageThatIsSilentIsLikeTheOthers) {
  const auto rates = stage_rates({replica(1, 0, 40, 0.5), replica(2, 1, 30, 0)}, kWork);
  EXPECT_DOUBLE_EQ(rates.efficiency[1], 0.5);
  EXPECT_DOUBLE_EQ(rates.gflops[1], 30);
}

TEST(StageRates, WhoSharesADeviceTellsNothingOfItsStage) {
  auto shared = replica(2, 1, 40, 8);
  shared.agent = AgentId(1);
  const auto rates = stage_rates({replica(1, 0, 40, 8), shared, replica(3, 0, 40, 0.5)}, kWork);
  EXPECT_DOUBLE_EQ(rates.efficiency[0], 0.5);
  EXPECT_DOUBLE_EQ(rates.gflops[0], 40);
}

TEST(StageRates, WhoSharesADeviceIsSlowWhenTheOthersDoNotExplainIt) {
  auto slowed = replica(1, 0, 40, 8), beside = replica(2, 1, 40, 8);
  beside.agent = AgentId(1);
  slowed.service.best = beside.service.best = seconds_f(4);
  EXPECT_DOUBLE_EQ(stage_rates({slowed, beside}, kWork).gflops[0], 40) << "the other works now";
  slowed.service.best = seconds_f(0.8);
  EXPECT_DOUBLE_EQ(stage_rates({slowed, beside}, kWork).gflops[0], 4) << "a tenth";
}

}  // namespace
}  // namespace shoal::coordinator
