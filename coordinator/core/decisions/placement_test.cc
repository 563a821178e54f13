// Placement: one stage as plain DiLoCo wants it, pipelines cut and placed as a whole, free devices
// later, emergencies. Constructed inputs.
#include "coordinator/core/decisions/placement.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

JobSpec spec_of(std::int64_t stages) {
  JobSpec spec;
  spec.name = "a";
  spec.data.train = "/x";
  spec.swarm.stages = stages;
  return with_derived_fields(spec);
}

FreeDevice device(std::uint64_t agent, Bytes memory, double gflops = 10) {
  FreeDevice free{AgentId(agent), 0, memory, gflops, "host-" + std::to_string(agent)};
  free.at.host = "lab";  // all behind one line, which nothing crosses
  return free;
}

// ---- one stage

PlacementInput two_devices() {
  PlacementInput input;
  input.spec = spec_of(1);
  input.cut = whole_model(input.spec);
  input.devices_known = 2;
  input.free = {device(1, training_memory(input.spec), 10),
                device(2, training_memory(input.spec), 40)};
  return input;
}

TEST(OneStage, TakesEveryDeviceThatFitsFastestFirst) {
  auto input = two_devices();
  input.free.push_back(device(3, training_memory(input.spec) - Bytes(1)));
  const auto decision = decide_placement(input);
  EXPECT_EQ(decision.places, (std::vector<Place>{{AgentId(2), 0, 0}, {AgentId(1), 0, 0}}));
  EXPECT_EQ(decision.memory, std::vector<Bytes>{training_memory(input.spec)});
  EXPECT_EQ(decision.fitting, 2);
}

TEST(Quota, KeepsWhatFitsThenTheFastest) {
  auto input = two_devices();
  const Bytes needed = training_memory(input.spec);
  input.free.push_back(device(3, needed - Bytes(1), 100));
  keep_within_quota(input, 0, needed);
  EXPECT_EQ(input.free.size(), 3u) << "there is none";
  input.quota = 2;
  auto one_left = input;
  keep_within_quota(one_left, 1, needed);
  EXPECT_EQ(decide_placement(one_left).places, (std::vector<Place>{{AgentId(2), 0, 0}}));
  EXPECT_EQ(one_left.withheld, 2);
  keep_within_quota(input, 5, needed);
  const auto none = decide_placement(input);
  EXPECT_EQ(none.reason, PlacementReason::kNoFreeDevice);
  EXPECT_EQ(explain(none),
            "no device is free for it; 3 more are withheld: the jobs of its owner may hold 2 "
            "devices");
}

TEST(Quota, LeavesTheDevicesThatTheJobHas) {
  auto input = two_devices();
  input.quota = 1;
  input.free[0].holds = {0};
  keep_within_quota(input, 1, Bytes());
  ASSERT_EQ(input.free.size(), 1u);
  EXPECT_EQ(input.free[0].agent, AgentId(1));
}

TEST(OneStage, KeepsToTheMaximum) {
  auto input = two_devices();
  input.spec.swarm.max_replicas = 2;
  input.live = {{.id = ReplicaId(1)}};
  EXPECT_EQ(decide_placement(input).places.size(), 1u);
  input.live.push_back({.id = ReplicaId(2)});
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kComplete);
  input.spec.swarm.max_replicas = 0;
  change_sync(input.spec, [](SyncSpec& sync) { sync.algorithm = SyncAlgorithm::kNone; });
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kComplete);
}

TEST(OneStage, FewerThanMinReplicasGatherWhatThereIs) {
  auto input = two_devices();
  input.spec.swarm.min_replicas = 4;
  const auto decision = decide_placement(input);
  EXPECT_EQ(decision.places.size(), 2u);
  EXPECT_EQ(decision.missing, 2);
}

TEST(OneStage, SaysWhatIsMissing) {
  auto input = two_devices();
  for (auto& each : input.free) each.memory = mebibytes(1);
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kNoDeviceFits);
  EXPECT_EQ(decide_placement(input).largest, mebibytes(1));
  EXPECT_EQ(decide_placement(input).needed, training_memory(input.spec));
  input = two_devices();
  input.free.clear();
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kNoFreeDevice);
  input.devices_known = 0;
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kNoAgents);
  input = two_devices();
  for (auto& each : input.free) each.refused = true;
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kAllRefused);
  input.free[0].refused = false;
  input.free[0].resting = true;
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kNoFreeDevice);
}

TEST(OneStage, TheSlowestSetsTheStep) {
  const auto input = two_devices();
  const Forecast forecast = decide_placement(input).forecast;
  const swarm::CostModel model(input.spec, swarm::cost_options(input.spec));
  const double tokens = 16 * 128;
  EXPECT_DOUBLE_EQ(forecast.step_s, tokens * model.flops(model.whole()) / 10e9);
  EXPECT_DOUBLE_EQ(forecast.tokens_per_s, 2 * tokens / forecast.step_s);
  EXPECT_DOUBLE_EQ(forecast.round_s, 50 * forecast.step_s);
  auto timed = input;
  timed.spec.train.steps = Steps(1'000'000'000);
  change_sync(timed.spec, [](SyncSpec& sync) { sync.every_s = 600; });
  EXPECT_DOUBLE_EQ(decide_placement(timed).forecast.round_s, 600);
  timed.spec.train.steps = Steps(2);
  timed.spec = with_derived_fields(timed.spec);
  const Forecast short_job = decide_placement(timed).forecast;
  EXPECT_DOUBLE_EQ(short_job.round_s, 2 * short_job.step_s);
  auto unmeasured = input;
  for (auto& each : unmeasured.free) each.gflops = 0;
  EXPECT_EQ(decide_placement(unmeasured).forecast.tokens_per_s, 0);
}

// ---- a pipeline that is to be cut

PlacementInput pipeline(std::int64_t stages, std::size_t devices) {
  PlacementInput input;
  input.spec = spec_of(stages);
  input.devices_known = static_cast<std::int64_t>(devices);
  for (std::uint64_t n = 1; n <= devices; ++n) input.free.push_back(device(n, mebibytes(1024)));
  return input;
}

// As much memory as the largest stage takes: a device cannot hold two.
void leave_room_for_one(PlacementInput& input) {
  const auto plan = decide_placement(pipeline(input.spec.swarm.stages, 8));
  const Bytes largest = *std::max_element(plan.memory.begin(), plan.memory.end());
  for (auto& each : input.free) each.memory = largest;
  for (auto& each : input.live) each.memory = largest;
}

std::vector<std::int64_t> per_stage(const PlacementDecision& decision) {
  std::vector<std::int64_t> counts(decision.cut.size(), 0);
  for (const Place& place : decision.places) ++counts.at(static_cast<std::size_t>(place.stage));
  return counts;
}

double speed_of_stage(const PlacementInput& input, const PlacementDecision& decision,
                      StageIndex stage) {
  double sum = 0;
  for (const Place& place : decision.places) {
    if (place.stage != stage) continue;
    for (const auto& each : input.free) sum += each.agent == place.agent ? each.gflops : 0;
  }
  return sum;
}

TEST(Pipeline, IsCutAndEveryDeviceIsUsed) {
  const auto decision = decide_placement(pipeline(2, 4));
  ASSERT_EQ(decision.reason, PlacementReason::kPlaced);
  EXPECT_EQ(decision.cut, (std::vector<UnitRange>{{0, 3}, {3, 6}}));
  EXPECT_EQ(per_stage(decision), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(decision.memory.size(), 2u);
  EXPECT_GT(decision.forecast.tokens_per_s, 0);
  EXPECT_NEAR(decision.forecast.bubble, 0.2, 1e-12);  // 1 of 4 + 1 slots
  EXPECT_DOUBLE_EQ(decision.forecast.round_s, 50 * decision.forecast.step_s);
}

TEST(Pipeline, UnequalDevicesLevelTheStages) {
  auto input = pipeline(2, 4);
  input.free[0].gflops = input.free[1].gflops = 10;
  input.free[2].gflops = 5;
  input.free[3].gflops = 2.5;
  const auto decision = decide_placement(input);
  const swarm::CostModel model(input.spec, swarm::cost_options(input.spec));
  const double first = speed_of_stage(input, decision, 0) / model.flops(decision.cut[0]);
  const double second = speed_of_stage(input, decision, 1) / model.flops(decision.cut[1]);
  EXPECT_NEAR(first / second, 1, 0.15);
}

TEST(Pipeline, AnUnmeasuredDeviceCountsAsTheMean) {
  auto input = pipeline(2, 4);
  input.free[0].gflops = 30;
  input.free[1].gflops = 0;  // counts as 15
  input.free[2].gflops = 10;
  input.free[3].gflops = 5;
  const auto decision = decide_placement(input);
  std::vector<AgentId> beside_the_fastest;
  const auto fastest = std::find_if(decision.places.begin(), decision.places.end(),
                                    [](const Place& place) { return place.agent == AgentId(1); });
  for (const Place& place : decision.places) {
    if (place.stage == fastest->stage) beside_the_fastest.push_back(place.agent);
  }
  EXPECT_EQ(beside_the_fastest, std::vector<AgentId>{AgentId(1)});  // 30 and 15 + 10 + 5
}

TEST(Pipeline, KeepsToTheMaximum) {
  auto input = pipeline(2, 7);
  input.spec.swarm.max_replicas = 2;
  EXPECT_EQ(per_stage(decide_placement(input)), (std::vector<std::int64_t>{2, 2}));
}

TEST(Pipeline, WaitsForAllItsDevices) {
  auto input = pipeline(2, 3);
  input.spec.swarm.min_replicas = 2;
  leave_room_for_one(input);
  const auto decision = decide_placement(input);
  EXPECT_EQ(decision.reason, PlacementReason::kTooFewDevices);
  EXPECT_TRUE(decision.places.empty());
  EXPECT_TRUE(decision.cut.empty());
  EXPECT_EQ(decision.wanted, 4);
  EXPECT_EQ(decision.missing, 1);
  EXPECT_EQ(decision.fitting, 3);
}

TEST(Pipeline, RefusedAndRestingDevicesAreLeftOut) {
  auto input = pipeline(2, 3);
  leave_room_for_one(input);
  input.free[0].refused = true;
  const auto decision = decide_placement(input);
  EXPECT_EQ(per_stage(decision), (std::vector<std::int64_t>{1, 1}));
  for (const Place& place : decision.places) EXPECT_NE(place.agent, AgentId(1));
  input.free[1].resting = true;
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kTooFewDevices);
  input.free[2].resting = true;
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kNoFreeDevice);
}

TEST(Pipeline, SaysWhatTheLargestStageNeeds) {
  auto input = pipeline(2, 4);
  input.spec.swarm.recompute = Recompute::kRecompute;
  for (auto& each : input.free) each.memory = mebibytes(2);
  const auto decision = decide_placement(input);
  EXPECT_EQ(decision.reason, PlacementReason::kNoDeviceFits);
  EXPECT_GT(decision.needed, mebibytes(2));
  EXPECT_LT(decision.needed, training_memory(input.spec));
  EXPECT_EQ(decision.largest, mebibytes(2));
  EXPECT_EQ(decision.fitting, 0);
}

TEST(Pipeline, AutoTakesOneStageWhenTheModelFitsAndMoreWhenItDoesNot) {
  auto input = pipeline(0, 4);
  EXPECT_EQ(decide_placement(input).cut, whole_model(input.spec));
  for (auto& each : input.free) each.memory = training_memory(input.spec) - Bytes(1);
  EXPECT_GT(decide_placement(input).cut.size(), 1u);
}

TEST(Pipeline, ReplicasOfAStageAreInDifferentDomains) {
  auto input = pipeline(2, 4);
  input.spec.swarm.min_replicas = 2;
  leave_room_for_one(input);
  const double speeds[] = {10, 9, 9, 10};  // longest-first alone would put both of each together
  for (std::size_t i = 0; i < 4; ++i) {
    input.free[i].gflops = speeds[i];
    input.free[i].domain = i < 2 ? "a" : "b";
  }
  const auto decision = decide_placement(input);
  for (StageIndex stage = 0; stage < 2; ++stage) {
    std::set<std::string> domains;
    for (const Place& place : decision.places) {
      if (place.stage == stage) domains.insert(input.free[place.agent.n - 1].domain);
    }
    EXPECT_EQ(domains.size(), 2u);
  }
}

TEST(Pipeline, ASteadyAgentIsWorthMoreThanAFickleOne) {
  auto input = pipeline(2, 3);
  leave_room_for_one(input);
  input.free[1].availability = 0.5;  // as good as half of it
  input.free[2].availability = 0.5;
  const auto decision = decide_placement(input);
  const auto steady = std::find_if(decision.places.begin(), decision.places.end(),
                                   [](const Place& place) { return place.agent == AgentId(1); });
  EXPECT_EQ(per_stage(decision).at(static_cast<std::size_t>(steady->stage)), 1)
      << "the two that come and go serve one stage together";
}

// ---- a cut that holds

PlacementInput running(const std::vector<int>& replicas, std::size_t free) {
  PlacementInput input = pipeline(static_cast<std::int64_t>(replicas.size()), free);
  input.cut = decide_placement(pipeline(input.spec.swarm.stages, replicas.size())).cut;
  std::uint64_t next = 1;
  for (std::size_t stage = 0; stage < replicas.size(); ++stage) {
    for (int i = 0; i < replicas[stage]; ++i) {
      input.live.push_back(
          {ReplicaId(next), static_cast<StageIndex>(stage), mebibytes(1024), 10, false});
      input.live.back().agent = AgentId(100 + next++);
      input.live.back().at.host = "lab";
    }
  }
  return input;
}

TEST(LaterDevices, GoWhereMinReplicasLacksThenToTheWeakest) {
  auto input = running({2, 1}, 1);
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(1), 0, 1}}));
  input = running({1, 2}, 1);
  input.live[0].gflops = 100;  // strong, but alone
  input.spec.swarm.min_replicas = 2;
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(1), 0, 0}}));
  EXPECT_EQ(decide_placement(input).missing, 0);
}

TEST(LaterDevices, GoWhereTheirDomainIsNotYet) {
  auto input = running({2, 2}, 1);
  input.cut = {{0, 3}, {3, 6}};
  input.live[0].domain = input.free[0].domain = "north";
  const auto capacity = swarm::stage_capacity(rebalance_view(input));
  input.live[3].gflops *= capacity[0] / capacity[1] * 2 - 1;  // equal stages
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(1), 0, 1}}));
  std::swap(input.live[0].domain, input.live[2].domain);
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(1), 0, 0}}));
}

TEST(LaterDevices, StayFreeWhenEveryStageIsFull) {
  auto input = running({2, 2}, 1);
  input.spec.swarm.max_replicas = 2;
  EXPECT_EQ(decide_placement(input).reason, PlacementReason::kComplete);
  input.live.pop_back();
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(1), 0, 1}}));
}

TEST(LaterDevices, AnEmptyPipelineStartsAsAWholeOnly) {
  auto input = running({0, 0}, 1);
  leave_room_for_one(input);
  const auto decision = decide_placement(input);
  EXPECT_EQ(decision.reason, PlacementReason::kTooFewDevices);
  EXPECT_TRUE(decision.places.empty());
  EXPECT_EQ(decision.missing, 1);
  input.free.push_back(device(2, mebibytes(1024)));
  EXPECT_EQ(per_stage(decide_placement(input)), (std::vector<std::int64_t>{1, 1}));
}

// ---- a device for several stages

TEST(Sharing, OneDeviceTakesEveryStageWhenThereIsNoOther) {
  const auto decision = decide_placement(pipeline(2, 1));
  ASSERT_EQ(decision.reason, PlacementReason::kPlaced);
  EXPECT_EQ(decision.places, (std::vector<Place>{{AgentId(1), 0, 0}, {AgentId(1), 0, 1}}));
  EXPECT_EQ(decision.missing, 0);
  EXPECT_GT(decision.forecast.tokens_per_s, 0);
}

TEST(Sharing, ThreeStagesOnTwoDevices) {
  auto input = pipeline(3, 2);
  input.free[0].gflops = 1;  // the fast one holds two
  const auto decision = decide_placement(input);
  ASSERT_EQ(decision.reason, PlacementReason::kPlaced);
  const auto of_fast = std::count_if(decision.places.begin(), decision.places.end(),
                                     [](const Place& p) { return p.agent == AgentId(2); });
  EXPECT_GE(of_fast, 2);
  for (const std::int64_t count : per_stage(decision)) EXPECT_GE(count, 1);
}

// Not quite room for all stages beside each other: one is missing, and nothing starts.
TEST(Sharing, ADeviceTakesNoMoreThanItsMemoryHolds) {
  auto input = pipeline(3, 1);
  const auto plan = decide_placement(input);
  ASSERT_EQ(plan.places.size(), 3u);
  Bytes all;
  for (const Bytes bytes : plan.memory) all += bytes;
  input.free[0].memory = all;
  EXPECT_EQ(decide_placement(input).places.size(), 3u);
  input.free[0].memory = all - mebibytes(1);
  EXPECT_GT(decide_placement(input).missing, 0);
  EXPECT_TRUE(decide_placement(input).places.empty());
}

// As many live replicas as given, the device of the first one free for more.
PlacementInput one_may_share(const std::vector<int>& replicas) {
  PlacementInput input = running(replicas, 0);
  FreeDevice first = device(input.live.at(0).agent.n, mebibytes(512));
  first.holds = {input.live.at(0).stage};
  input.free = {first};
  return input;
}

TEST(Sharing, ALostStageIsTakenOverByADeviceOfAnother) {
  const auto decision = decide_placement(one_may_share({1, 0}));
  ASSERT_EQ(decision.reason, PlacementReason::kPlaced);
  EXPECT_EQ(decision.places, (std::vector<Place>{{AgentId(101), 0, 1}}));
  auto input = one_may_share({1, 0});
  input.free[0].memory = mebibytes(1);
  EXPECT_TRUE(decide_placement(input).places.empty());
  input = one_may_share({1, 0});
  input.free[0].resting = true;
  EXPECT_TRUE(decide_placement(input).places.empty());
}

// Two stages are lost, and there is room for the larger one of them, but not for both.
TEST(Sharing, ADeviceTakesOverNoMoreThanItHasRoomFor) {
  auto input = one_may_share({1, 0, 0});
  const auto memory = decide_placement(input).memory;
  input.free[0].memory = memory[1] + memory[2];
  EXPECT_EQ(decide_placement(input).places,
            (std::vector<Place>{{AgentId(101), 0, 1}, {AgentId(101), 0, 2}}));
  EXPECT_EQ(decide_placement(input).missing, 0);
  input.free[0].memory = memory[1] + memory[2] - Bytes(1);
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(101), 0, 1}}));
  EXPECT_EQ(decide_placement(input).missing, 1);
}

// A free device takes one of the lost stages, and what is left of its memory the other.
TEST(Sharing, ADeviceThatWasJustPlacedHasTheRestOfItsMemory) {
  auto input = running({1, 0, 0}, 1);
  const auto memory = decide_placement(input).memory;
  input.free[0].memory = memory[1] + memory[2];
  EXPECT_EQ(decide_placement(input).places,
            (std::vector<Place>{{AgentId(1), 0, 1}, {AgentId(1), 0, 2}}));
  input.free[0].memory -= Bytes(1);
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(1), 0, 1}}));
  EXPECT_EQ(decide_placement(input).missing, 1);
}

TEST(Sharing, AFreeDeviceOrAMoveOrOneThatRestsIsBetter) {
  EXPECT_TRUE(decide_placement(one_may_share({1, 1})).places.empty()) << "nothing lacks";
  EXPECT_TRUE(decide_placement(one_may_share({2, 0})).places.empty());
  EXPECT_EQ(decide_emergency(one_may_share({2, 0})).size(), 1u);
  auto input = one_may_share({1, 0});
  input.free.push_back(device(9, mebibytes(512)));
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(9), 0, 1}}));
  input.free[1].resting = true;
  EXPECT_TRUE(decide_placement(input).places.empty());
  input.free[1].rests_long = true;
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(101), 0, 1}}));
}

TEST(Sharing, NeverTheSameStageTwice) {
  auto input = one_may_share({1, 1});
  input.spec.swarm.min_replicas = 2;
  EXPECT_EQ(decide_placement(input).places, (std::vector<Place>{{AgentId(101), 0, 1}}));
  EXPECT_EQ(decide_placement(input).missing, 1);
}

// The first two replicas are on one device.
PlacementInput shared_by_two(const std::vector<int>& replicas) {
  PlacementInput input = running(replicas, 0);
  input.live.at(0).agent = input.live.back().agent = AgentId(77);
  return input;
}

TEST(Sharing, EndsWhenOthersCanDoIt) {
  auto input = shared_by_two({1, 3});
  EXPECT_EQ(decide_unsharing(input), input.live.back().id);
  input.live[1].loading = input.live[2].loading = true;
  EXPECT_FALSE(decide_unsharing(input)) << "the others do not serve yet";
  EXPECT_FALSE(decide_unsharing(shared_by_two({1, 1})));
  EXPECT_FALSE(decide_unsharing(running({2, 2}, 0))) << "nobody shares";
}

TEST(Sharing, StaysWhereItHelps) {
  auto input = shared_by_two({2, 2});  // three devices, two stages
  for (PlacedReplica& replica : input.live) replica.gflops = 10;
  EXPECT_FALSE(decide_unsharing(input));
}

TEST(Sharing, ASharedReplicaDoesNotMove) {
  auto input = shared_by_two({1, 1});
  const auto view = rebalance_view(input);
  EXPECT_TRUE(view.replicas[0].shares && view.replicas[1].shares);
  EXPECT_NEAR(view.replicas[0].speed + view.replicas[1].speed, 10e9, 1);
  EXPECT_LT(view.replicas[0].speed, view.replicas[1].speed) << "the last stage has the head";
}

// ---- moves

TEST(ForecastNow, IsThatOfThePlanUntilSomethingElseIsSeen) {
  PlacementInput input = pipeline(2, 4);
  const PlacementDecision plan = decide_placement(input);
  input.cut = plan.cut;
  input.free.clear();
  for (const Place& place : plan.places) {
    PlacedReplica replica{.id = ReplicaId(place.agent.n), .stage = place.stage, .gflops = 10};
    replica.agent = place.agent;
    replica.at.host = "lab";
    input.live.push_back(replica);
  }
  const Forecast promised = forecast_now(input);
  EXPECT_DOUBLE_EQ(promised.tokens_per_s, plan.forecast.tokens_per_s);
  EXPECT_EQ(promised.speeds_assumed, 4);
  for (PlacedReplica& replica : input.live) {
    replica.service = {milliseconds(10), milliseconds(10)};
  }
  const Forecast seen = forecast_now(input);
  EXPECT_EQ(seen.speeds_assumed, 0);
  input.live.front().service.now = milliseconds(40);
  EXPECT_LT(forecast_now(input).tokens_per_s, seen.tokens_per_s);
  std::erase_if(input.live, [](const PlacedReplica& replica) { return replica.stage == 1; });
  EXPECT_EQ(forecast_now(input).tokens_per_s, 0) << "a stage has nobody";
}

TEST(EmergencyMoves, FillAStageThatNobodyElseCan) {
  const auto moves = decide_emergency(running({0, 2}, 0));
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].from, 1);
  EXPECT_EQ(moves[0].to, 0);
  EXPECT_TRUE(decide_emergency(running({0, 1}, 0)).empty());
  EXPECT_TRUE(decide_emergency(running({1, 2}, 0)).empty());
}

TEST(EmergencyMoves, WaitForADeviceThatRests) {
  auto input = running({0, 2}, 1);
  input.free[0].resting = true;
  EXPECT_TRUE(decide_emergency(input).empty());
  input.free[0].rests_long = true;
  EXPECT_EQ(decide_emergency(input).size(), 1u) << "not for minutes";
  input.free[0].memory = mebibytes(1);
  EXPECT_EQ(decide_emergency(input).size(), 1u);
}

TEST(EmergencyMoves, AOneStageJobHasNowhereToMove) {
  EXPECT_TRUE(decide_emergency(two_devices()).empty());
}

TEST(RebalanceView, WhoLeavesDoesNotCount) {
  auto input = running({2, 2}, 0);
  input.live[0].leaving = true;
  const auto view = rebalance_view(input);
  ASSERT_EQ(view.replicas.size(), 3u);
  EXPECT_EQ(view.replicas[0].id, input.live[1].id);
  EXPECT_EQ(view.replicas[2].id, input.live[3].id);
}

TEST(Explain, SaysSizesInReadableUnits) {
  PlacementDecision decision;
  decision.reason = PlacementReason::kNoDeviceFits;
  decision.needed = Bytes(1'500'000'000);
  decision.largest = Bytes(999'400'000);
  EXPECT_EQ(explain(decision), "a replica needs 1.50 GB; the largest free device has 999 MB");
  decision.reason = PlacementReason::kTooFewDevices;
  decision.missing = 2, decision.fitting = 3, decision.resting = 1;
  EXPECT_EQ(explain(decision),
            "2 more devices with 1.50 GB are needed for swarm.min_replicas; 2 such are free");
  decision.reason = PlacementReason::kNoFreeDevice;
  EXPECT_EQ(explain(decision), "the free devices are resting after a failure");
  decision.resting = 0;
  EXPECT_EQ(explain(decision), "every device is in use");
  decision.reason = PlacementReason::kPlaced;
  EXPECT_EQ(explain(decision), "");
}

TEST(RebalanceView, KnowsWorkMemoryAndDownload) {
  auto input = running({1, 1}, 0);
  input.live[0].at.line = {.up = 1000, .down = 500};
  input.live[1].loading = true;
  const auto view = rebalance_view(input);
  const swarm::CostModel model(input.spec, swarm::cost_options(input.spec));
  EXPECT_DOUBLE_EQ(view.stages[1].work, model.flops(input.cut[1]));
  EXPECT_EQ(view.stages[1].memory, model.memory(input.cut[1]));
  EXPECT_EQ(view.state[0], model.state_bytes(input.cut[0]));
  EXPECT_EQ(view.sources, (std::vector<double>{1000, kAssumedLine})) << "one has only just begun";
  EXPECT_EQ(view.replicas[0].down, 500);
  EXPECT_EQ(view.replicas[1].down, kAssumedLine);
  EXPECT_FALSE(view.replicas[0].in_transit);
  EXPECT_TRUE(view.replicas[1].in_transit);
  EXPECT_DOUBLE_EQ(view.replicas[0].speed, 10e9);
}

}  // namespace
}  // namespace shoal::coordinator
