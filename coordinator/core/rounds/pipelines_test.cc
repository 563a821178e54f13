// Pipelines: when they start, where late devices go, who changes the stage.
#include <algorithm>
#include <optional>
#include <set>

#include "coordinator/core/pipelines_test_util.h"
#include "coordinator/core/state/round_facts.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

// As much as the larger stage takes.
Bytes room_for_one(const JobSpec& spec) {
  const swarm::CostModel model(spec, swarm::cost_options(spec));
  return std::max(model.memory({0, 2}), model.memory({2, 4}));
}

TEST(Pipelines, WaitForEveryStageThenForLateDevices) {
  Rig rig;
  rig.device_memory = room_for_one(two_stages());
  rig.adopt(two_stages());
  const auto a = rig.join("a");
  rig.wait(seconds(5));
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kQueued);
  EXPECT_EQ(rig.job(JobId(1)).reason, JobReason::kWaitingForReplicas);
  EXPECT_TRUE(rig.job(JobId(1)).stages.empty());
  const auto b = rig.join("b");
  rig.say(a, Heartbeat{});
  rig.wait(seconds(1));
  EXPECT_FALSE(rig.last<Assign>(a));
  const auto c = rig.join("c");
  rig.wait(seconds(3));
  ASSERT_TRUE(rig.last<Assign>(a) && rig.last<Assign>(b) && rig.last<Assign>(c));
  const auto cut = rig.last<Assign>(a)->cut;
  EXPECT_EQ(cut, (std::vector<UnitRange>{{0, 2}, {2, 4}}));
  EXPECT_EQ(cut_of(rig.job(JobId(1))), cut);
  std::map<StageIndex, int> replicas;
  for (const auto agent : {a, b, c}) ++replicas[rig.last<Assign>(agent)->stage];
  EXPECT_EQ(replicas[0] + replicas[1], 3);
  EXPECT_GE(std::min(replicas[0], replicas[1]), 1);
}

TEST(Pipelines, KeepTheirDevicesFromLaterJobsWhileTheyWait) {
  Rig rig;
  rig.adopt(two_stages());
  const auto a = rig.join("a");
  const auto b = rig.join("b");
  rig.say(a, Heartbeat{});
  rig.wait(milliseconds(1500));  // it has a plan now, and waits for late devices
  JobSpec later = small_job();
  later.name = "later";
  ASSERT_TRUE(rig.submit(later).ok());
  rig.wait(milliseconds(500));
  EXPECT_FALSE(rig.last<Assign>(a) || rig.last<Assign>(b));
  rig.wait(seconds(3));
  ASSERT_TRUE(rig.last<Assign>(a) && rig.last<Assign>(b));
  EXPECT_EQ(rig.last<Assign>(a)->job, JobId(1));
  EXPECT_EQ(rig.last<Assign>(b)->job, JobId(1));
  EXPECT_EQ(rig.job(JobId(2)).phase, JobPhase::kQueued);
}

TEST(Pipelines, WhoIsAloneInItsStageMeasuresTheNextOne) {
  Piped rig(2);
  const ConnectionId router = rig.of_stage(0).front(), other = rig.of_stage(1).front();
  const auto asked = rig.last<ToReplica<OpenRound>>(router)->body.measure;
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].replica, rig.last<Assign>(other)->replica);
  EXPECT_TRUE(rig.last<ToReplica<OpenRound>>(other)->body.measure.empty());
}

TEST(Pipelines, WhatGoesOverSlowLinesIsEntropyCodedFromTheNextRoundOn) {
  Piped rig(2);
  const ConnectionId router = rig.of_stage(0).front(), other = rig.of_stage(1).front();
  const auto next = [&] { return rig.last<ToReplica<CommitRound>>(other)->body.next; };
  const auto say_lines = [&](RoundNumber round, double bytes_per_s) {
    RoundReport report;
    report.key = {JobId(1), 0, round};
    const ReplicaId peer = rig.last<Assign>(other)->replica;
    report.links = {{peer, milliseconds(20), bytes_per_s, bytes_per_s, true}};
    report.tokens = report.drawn = Tokens(1280);
    report.steps = Steps(10);
    report.norm = 1;
    rig.say(router, FromReplica<RoundReport>{rig.last<Assign>(router)->replica, report});
  };
  EXPECT_FALSE(rig.last<ToReplica<OpenRound>>(other)->body.entropy_coding);
  say_lines(1, 1e9);
  rig.commit_round(1);
  EXPECT_FALSE(next().entropy_coding);
  say_lines(2, 25e6);
  rig.commit_round(2);
  EXPECT_TRUE(next().entropy_coding);
}

TEST(Pipelines, ReplicasMoveForBalanceOnceItIsConfirmed) {
  Piped rig(9);
  ASSERT_EQ(rig.of_stage(1).size(), 5u);  // the head makes the last stage half as much work again
  for (int i = 0; i < 3; ++i) rig.lose(rig.of_stage(1).front());
  rig.commit_round(1);
  EXPECT_EQ(rig.of_stage(1).size(), 2u);
  rig.stay_alive(seconds(65));
  rig.commit_round(2);
  EXPECT_EQ(rig.of_stage(1).size(), 3u);
  std::vector<ReplicaId> moved;
  for (const auto& event : rig.events) {
    if (event.kind != "replica_moved") continue;
    moved.push_back(event.replica);
    EXPECT_EQ(event.round, 3) << "the round that it leaves";
  }
  ASSERT_EQ(moved.size(), 1u);
  const auto& left = rig.state().contributions.at({next_key(rig.job(JobId(1))), moved[0]});
  EXPECT_EQ(left.state, ContributionState::kMoved) << "not lost";
  EXPECT_TRUE(left.leases.empty());
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kTraining);
}

TEST(Pipelines, TheConfirmationOutlivesTheCoordinator) {
  Piped rig(9);
  for (int i = 0; i < 3; ++i) rig.lose(rig.of_stage(1).front());
  rig.commit_round(1);
  EXPECT_EQ(rig.job(JobId(1)).balance_confirmed, 1);
  const Instant next = rig.job(JobId(1)).balance_at;
  EXPECT_EQ(next, rig.now + seconds(60));
  rig.restart();
  EXPECT_EQ(rig.job(JobId(1)).balance_confirmed, 1);
  EXPECT_EQ(rig.job(JobId(1)).balance_at, next);
}

TEST(Pipelines, ALateDeviceGoesToTheWeakestStage) {
  Piped rig;
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kTraining);
  const auto late = rig.join("d");
  ASSERT_TRUE(rig.last<Assign>(late));
  EXPECT_EQ(rig.last<Assign>(late)->stage, rig.stage(rig.alone()));
}

TEST(Pipelines, ALateDeviceGoesWhereSomebodyIsOutOfReach) {
  Piped rig(4);
  ASSERT_EQ(rig.of_stage(0).size(), 2u);  // so that stage 1, with the head, is the weaker one
  rig.input(AgentHungUp{rig.of_stage(0).front()});
  const auto late = rig.join("late");
  ASSERT_TRUE(rig.last<Assign>(late));
  EXPECT_EQ(rig.stage(late), 0);
}

TEST(Pipelines, AnInnerStepKeepsItsSizeWhenARouterIsGone) {
  Piped rig(4);
  const auto routers = rig.of_stage(0);
  ASSERT_EQ(routers.size(), 2u);
  const std::int64_t batch = 10 * two_stages().train.batch;
  for (const auto router : routers) {
    EXPECT_EQ(rig.last<ToReplica<OpenRound>>(router)->body.leases.at(0).count, batch);
  }
  rig.lose(routers[0]);
  rig.commit_round(1);
  EXPECT_EQ(count_sequences(rig.last<ToReplica<CommitRound>>(routers[1])->body.next.leases),
            2 * batch);
}

// Its device promised as much as the other's when it started.
TEST(Pipelines, ARouterThatIsSeenToBeSlowDrawsLessFromTheNextRoundOn) {
  Piped rig(4);
  const auto routers = rig.of_stage(0);
  ASSERT_EQ(routers.size(), 2u);
  const auto serves = [&](ConnectionId router, Duration service) {
    rig.say(router,
            PipelineStats{.replica = rig.last<Assign>(router)->replica, .service = service});
  };
  const auto drawn = [&](ConnectionId router) {
    return count_sequences(rig.last<ToReplica<CommitRound>>(router)->body.next.leases);
  };
  serves(routers[0], milliseconds(10)), serves(routers[1], milliseconds(70));
  rig.commit_round(1);
  const std::int64_t step = 2 * two_stages().train.batch;
  EXPECT_EQ(drawn(routers[0]) + drawn(routers[1]), 10 * step);
  EXPECT_EQ(drawn(routers[1]), 10 * step / 8);
  serves(routers[1], milliseconds(10));
  rig.commit_round(2);
  EXPECT_EQ(drawn(routers[1]), 10 * step / 2);
}

TEST(Pipelines, EachStageTriesAgainOnItsOwn) {
  for (const StageIndex lost : {0, 1}) {
    Piped rig(4);
    const RoundKey key{JobId(1), 0, 1};
    for (const auto agent : rig.agents) rig.report(agent, rig.last<Assign>(agent)->replica, key);
    const std::vector<ConnectionId> there = rig.of_stage(lost);
    const std::vector<ConnectionId> others = rig.of_stage(1 - lost);
    ASSERT_EQ(there.size(), 2u);
    rig.lose(there[0]);
    EXPECT_EQ(rig.last<ToReplica<ReducePlan>>(there[1])->body.attempt, 2);
    EXPECT_EQ(rig.last<ToReplica<ReducePlan>>(others[0])->body.attempt, 1);
    for (const auto agent : rig.agents) {
      EXPECT_FALSE(rig.last<ToReplica<AbortRound>>(agent));
      rig.vote(agent, rig.last<Assign>(agent)->replica, key, agent == there[1] ? 2 : 1);
    }
    EXPECT_EQ(rig.job(JobId(1)).committed_round, 1);
  }
}

TEST(Pipelines, AJoinerWaitsForASourceWithinReach) {
  Piped rig;
  rig.commit_round(1);
  const auto away = rig.alone();
  rig.input(AgentHungUp{away});
  std::erase(rig.agents, away);
  const auto late = rig.join("late");  // for the stage whose only in-sync replica may come back yet
  EXPECT_FALSE(rig.last<Assign>(late));
  rig.agents.push_back(late);
  rig.stay_alive(seconds(30));
  EXPECT_FALSE(rig.last<Assign>(late)) << "only who is away holds the stage, and may come back";
  rig.stay_alive(rig.options.rollback_wait_min);
  EXPECT_TRUE(rig.last<Assign>(late));
}

TEST(Pipelines, ALossThatLeavesAStageFarBehindMovesSomebodyAtTheNextCommit) {
  Piped rig(9);
  while (rig.of_stage(1).size() > 1) rig.lose(rig.of_stage(1).front());
  rig.commit_round(1);
  EXPECT_EQ(rig.of_stage(1).size(), 2u);
}

// What nobody else has is the open round only, which continues from the stored state.
TEST(Pipelines, AStageOutOfReachWhoseStateIsStoredIsServedAtOnce) {
  Piped rig;
  rig.commit_round(1);
  for (const StageIndex stage : {0, 1}) rig.upload(CheckpointId(1), stage);
  const auto away = rig.alone();
  const StageIndex lost = rig.stage(away);
  rig.input(AgentHungUp{away});
  std::erase(rig.agents, away);
  rig.stay_alive(seconds(10));
  const std::vector<ConnectionId> served = rig.of_stage(lost);
  ASSERT_EQ(served.size(), 1u);
  EXPECT_EQ(rig.last<Assign>(served[0])->source.kind, SourceKind::kCheckpoint);
  EXPECT_EQ(rig.job(JobId(1)).epoch, 0) << "nothing is rolled back";
  EXPECT_EQ(rig.job(JobId(1)).rollback_at, Instant());
}

TEST(Pipelines, AStageWithoutReplicasTakesOneFromAnother) {
  Piped rig;
  const auto lost = rig.alone();
  const StageIndex empty = rig.stage(lost);
  std::vector<ConnectionId> others = rig.agents;
  std::erase(others, lost);
  rig.say(lost, Goodbye{"stopped"});
  int moved = 0;
  for (const auto agent : others) moved += rig.stage(agent) == empty;
  EXPECT_EQ(moved, 1);
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kStalled);
  for (const auto agent : others) {
    if (rig.stage(agent) == empty) rig.load(agent);
  }
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kTraining);
}

// The others have reported long ago; it enters their round at once, because its stage has nobody.
TEST(Pipelines, WhoEntersAnOldRoundHasTimeToReport) {
  Piped rig(2, room_for_one(two_stages()));  // who stays cannot take the other stage, too
  const auto stays = rig.agents[0], goes = rig.agents[1];
  rig.report(stays, rig.last<Assign>(stays)->replica, {JobId(1), 0, 1});
  rig.lose(goes);
  rig.stay_alive(seconds(200));
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kStalled);
  const auto late = rig.join("late");
  rig.load(late);
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.state().replicas.size(), 2u);
  rig.report(late, rig.last<Assign>(late)->replica, {JobId(1), 0, 1});
  EXPECT_TRUE(rig.last<ToReplica<ReducePlan>>(late));
}

// Nothing was trained yet, and without a move it would gather forever.
TEST(Pipelines, AJobThatGathersTakesAReplicaFromAnotherStage) {
  Rig rig;
  rig.adopt(two_stages());
  const auto a = rig.join("a"), b = rig.join("b");
  rig.wait(seconds(3));
  const auto late = rig.join("late");
  rig.load(late);
  const StageIndex crowded = rig.last<Assign>(late)->stage;
  const auto lost = rig.last<Assign>(a)->stage == crowded ? b : a;
  rig.say(lost, Goodbye{"stopped"});
  EXPECT_EQ(rig.last<Assign>(late)->stage, 1 - crowded);
  rig.load(late);
  rig.load(lost == a ? b : a);
  rig.wait(seconds(3));
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kTraining);
}

TEST(Pipelines, ADryRunAnswersWithThePlan) {
  Rig rig;
  rig.input(SubmitJob{RequestId{1}, small_job(), true});
  ASSERT_NE(rig.replies.back().plan, nullptr);
  EXPECT_EQ(rig.replies.back().plan->reason, PlacementReason::kNoAgents);
  rig.join("a");
  rig.input(SubmitJob{RequestId{2}, small_job(), true});
  EXPECT_EQ(rig.replies.back().plan->reason, PlacementReason::kTooFewDevices);
  EXPECT_EQ(rig.replies.back().plan->missing, 1);
  rig.join("b");
  rig.input(SubmitJob{RequestId{3}, small_job(), true});
  EXPECT_EQ(rig.replies.back().plan->reason, PlacementReason::kPlaced);
  EXPECT_EQ(rig.replies.back().plan->places.size(), 2u);
  EXPECT_TRUE(rig.state().jobs.empty());
}

TEST(Pipelines, ADryRunRefusesWhatASubmissionWould) {
  Rig rig;
  rig.device_memory = mebibytes(1);
  rig.join("a");
  for (const bool dry_run : {true, false}) {
    rig.input(SubmitJob{RequestId{1}, small_job(), dry_run});
    ASSERT_EQ(rig.replies.back().fields.size(), 1u);
    EXPECT_EQ(rig.replies.back().fields[0].pointer, "/model");
  }
}

TEST(Pipelines, TheReplicasOfAStageAreInDifferentRegions) {
  Rig rig;
  JobSpec spec = two_stages();
  spec.swarm.min_replicas = 2;
  rig.adopt(spec);
  std::map<ConnectionId, std::string> region;
  for (const char* name : {"west-1", "west-2", "east-1", "east-2"}) {
    const std::string label = std::string(name).substr(0, 4);
    rig.labels = {{"region", label}};
    region[rig.join(name)] = label;
  }
  rig.wait(seconds(3));
  std::map<StageIndex, std::set<std::string>> regions;
  for (const auto& [agent, label] : region) {
    ASSERT_TRUE(rig.last<Assign>(agent));
    regions[rig.last<Assign>(agent)->stage].insert(label);
  }
  EXPECT_EQ(regions[0].size(), 2u);
  EXPECT_EQ(regions[1].size(), 2u);
}

// ---- a device for several stages

std::vector<Assign> assigned(Rig& rig, ConnectionId agent) {
  std::vector<Assign> found;
  for (const auto& message : rig.sent[agent]) {
    if (const auto* assign = std::get_if<Assign>(&message)) found.push_back(*assign);
  }
  return found;
}

void load_all(Rig& rig, ConnectionId agent) {
  for (const Assign& assign : assigned(rig, agent)) {
    if (rig.state().replicas.contains(assign.replica)) {
      rig.say(agent, Loaded{assign.replica, assign.source.key, {7, 7}, {8, 8}, 1000, "h:1"});
    }
  }
}

TEST(Pipelines, OneAgentTrainsThemAloneAndHandsOverWhenAnotherComes) {
  Rig rig;
  rig.adopt(two_stages());
  const auto a = rig.join("a");
  rig.wait(seconds(3));
  ASSERT_EQ(assigned(rig, a).size(), 2u);
  load_all(rig, a);
  rig.wait(seconds(3));
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kTraining);
  const auto b = rig.join("b");
  const auto c = rig.join("c");
  ASSERT_TRUE(rig.last<Assign>(b) && rig.last<Assign>(c));
  EXPECT_NE(rig.last<Assign>(b)->stage, rig.last<Assign>(c)->stage);
  EXPECT_EQ(assigned(rig, a).size(), 2u) << "it does not share more";
}

TEST(Pipelines, ALostStageMovesInWithAnother) {
  Piped rig(2);
  const auto lost = rig.agents.back(), left = rig.agents.front();
  rig.commit_round(1);
  const StageIndex empty = rig.stage(lost);
  rig.lose(lost);
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kStalled);
  ASSERT_EQ(rig.stage(left), empty) << "assigned beside its own";
  const auto live = live_replicas(rig.state(), JobId(1));
  ASSERT_EQ(live.size(), 2u);
  for (const ReplicaId id : live) EXPECT_EQ(rig.state().replicas.at(id).agent, AgentId(1));
}

TEST(Pipelines, AnotherJobDoesNotShareADevice) {
  Rig rig;
  rig.adopt(two_stages());
  const auto a = rig.join("a");
  rig.wait(seconds(3));
  load_all(rig, a);
  JobSpec other = two_stages();
  other.name = "other";
  ASSERT_TRUE(rig.submit(other).ok());
  rig.wait(seconds(5));
  EXPECT_EQ(rig.job(JobId(2)).phase, JobPhase::kQueued);
  EXPECT_EQ(assigned(rig, a).size(), 2u);
}

}  // namespace
}  // namespace shoal::coordinator
