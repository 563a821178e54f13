// Stories that must end well, each told at the exact moment that matters. The seeds of the campaign
// find such moments by chance; these keep the known ones.
#include <algorithm>

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::JobPhase;
using coordinator::JobReason;

// A checkpoint of the round, whole.
bool is_stored(Cluster& cluster, RoundNumber round) {
  return std::ranges::any_of(cluster.world().tables().checkpoints, [&](const auto& entry) {
    return entry.second.key.round == round &&
           entry.second.state == coordinator::CheckpointState::kStored;
  });
}

TEST(Scenario, FourAgentsTrainAJobToItsEnd) {
  Cluster cluster(4);
  cluster.submit(Cluster::small_job(6));
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 6);
  EXPECT_EQ(cluster.job()->committed_tokens, Tokens(6 * 4 * 5 * 2 * 8));
  EXPECT_EQ(cluster.count(3, ContributionState::kCommitted), 4);
}

TEST(Scenario, ATrainerDiesInTheMiddleOfAReduceAndTheOtherThreeCommit) {
  Cluster cluster(4);
  cluster.submit(Cluster::small_job(6));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  ASSERT_TRUE(cluster.until_somebody_reduces());
  const Instant died = cluster.world().sim().now();
  cluster.reducing_trainer()->kill(9);
  ASSERT_TRUE(cluster.until_round(3, seconds(10))) << cluster.objection();
  EXPECT_LE((cluster.world().sim().now() - died).seconds(), 10.0);
  EXPECT_EQ(cluster.count(3, ContributionState::kCommitted), 3);
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, AFatalXidInARound_TakesTheDeviceOutAfterIt) {
  Cluster cluster(4);
  cluster.submit(Cluster::small_job(40));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  cluster.host(1).fall_sick(0);
  const auto cordoned = [&] {
    return std::ranges::any_of(cluster.world().tables().agents, [](const auto& entry) {
      const auto& refusals = entry.second.refusals;
      return std::ranges::count(refusals, coordinator::DeviceFault::kXid,
                                &coordinator::DeviceRefusal::fault) > 0;
    });
  };
  ASSERT_TRUE(cluster.until(cordoned)) << cluster.objection();
  const RoundNumber open = cluster.job()->committed_round + 1;
  ASSERT_TRUE(cluster.until_round(open)) << cluster.objection();
  EXPECT_EQ(cluster.count(open, ContributionState::kCommitted), 4);
  ASSERT_TRUE(cluster.until_round(open + 1)) << cluster.objection();
  EXPECT_EQ(cluster.count(open + 1, ContributionState::kCommitted), 3);
  cluster.coordinator().crash();
  ASSERT_TRUE(cluster.until_round(open + 3, seconds(180))) << cluster.objection();
  EXPECT_TRUE(cordoned());
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, TheCoordinatorDiesBetweenTheCommitAndTheWordOfIt) {
  Cluster cluster(3);
  cluster.submit(Cluster::small_job(6));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  // The next commit becomes durable; nobody hears of it.
  ASSERT_TRUE(cluster.until([&] {
    cluster.coordinator().crash_after_effects(1);
    return cluster.job()->committed_round >= 3 || !cluster.coordinator().alive();
  }));
  ASSERT_TRUE(cluster.until_round(4, seconds(180))) << cluster.objection();
  EXPECT_EQ(cluster.job()->epoch, 0);
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, AJoinerGetsItsStateFromASourceAndContributesInALaterRound) {
  Cluster cluster(3);
  cluster.host(2).pause();  // it comes late
  cluster.submit(Cluster::small_job(30));
  ASSERT_TRUE(cluster.until_round(3)) << cluster.objection();
  EXPECT_EQ(cluster.count(3, ContributionState::kCommitted), 2);
  cluster.host(2).resume();
  ASSERT_TRUE(cluster.until([&] { return cluster.serving() == 3; })) << cluster.objection();
  ASSERT_TRUE(cluster.until([&] {
    return cluster.count(cluster.job()->committed_round, ContributionState::kCommitted) == 3;
  })) << cluster.objection();
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, TheLastReplicaIsLostAndTheJobGoesOnFromItsCheckpoint) {
  Cluster cluster(2);
  JobSpec spec = Cluster::small_job(20);
  spec.checkpoint.every_rounds = 2;
  cluster.submit(spec);
  ASSERT_TRUE(cluster.until_round(7)) << cluster.objection();
  for (int host = 0; host < 2; ++host) cluster.host(host).trainers()[0]->kill(9);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kStalled)) << cluster.objection();
  ASSERT_TRUE(cluster.until([&] { return cluster.job()->epoch == 1; })) << cluster.objection();
  EXPECT_GE(cluster.job()->committed_round, 4);  // of the newest stored cut, not the beginning
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 20);
}

// A bit of the newest checkpoint flips where it is stored: the one before it is as good as there
// is.
TEST(Scenario, ADamagedCheckpointIsSetAsideAndTheOneBeforeItTaken) {
  Cluster cluster(2);
  JobSpec spec = Cluster::small_job(40);
  spec.checkpoint.every_rounds = 5;
  spec.checkpoint.keep = 2;
  cluster.submit(spec);
  ASSERT_TRUE(cluster.until([&] { return cluster.job() && is_stored(cluster, 10); }))
      << cluster.objection();
  cluster.coordinator().flip_stored_bit(1);  // of the newer one of the two
  for (int host = 0; host < 2; ++host) cluster.host(host).trainers()[0]->kill(9);
  ASSERT_TRUE(cluster.until([&] { return cluster.job()->epoch == 2; })) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 5);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, EverythingDiesAtOnceAndComesBack) {
  Cluster cluster(3);
  JobSpec spec = Cluster::small_job(12);
  spec.checkpoint.every_rounds = 1;
  cluster.submit(spec);
  ASSERT_TRUE(cluster.until_round(5)) << cluster.objection();
  cluster.coordinator().crash();
  for (int host = 0; host < 3; ++host) cluster.host(host).crash(false);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 12);
}

TEST(Scenario, ANonFinitePseudoGradientTakesPartWithoutWeight) {
  Cluster cluster(3);
  cluster.submit(Cluster::small_job(8));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  cluster.host(1).trainers()[0]->poison();
  ASSERT_TRUE(cluster.until([&] {
    return cluster.count(3, ContributionState::kRejected) +
               cluster.count(4, ContributionState::kRejected) ==
           1;
  })) << cluster.objection();
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, AFrozenTrainerIsLeftBehindAndReplaced) {
  Cluster cluster(3);
  cluster.submit(Cluster::small_job(30));
  ASSERT_TRUE(cluster.until_round(3)) << cluster.objection();
  cluster.host(0).trainers()[0]->pause();
  ASSERT_TRUE(cluster.until_round(5, seconds(60))) << cluster.objection();
  cluster.host(0).trainers()[0]->resume();
  ASSERT_TRUE(cluster.until([&] { return cluster.serving() == 3; })) << cluster.objection();
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, AUserCancelsAndTheDevicesAreFreeForTheNextJob) {
  Cluster cluster(2);
  cluster.submit(Cluster::small_job(50));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  cluster.coordinator().cancel(cluster.job()->id);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCancelled)) << cluster.objection();
  EXPECT_EQ(cluster.job()->reason, JobReason::kCancelledByUser);
  JobSpec next = Cluster::small_job(3);
  next.name = "next";
  cluster.submit(next);
  ASSERT_TRUE(cluster.until([&] { return cluster.job()->spec.name == "next"; }));
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, AnAgentThatBootsInTheInstantOfItsCrashDoesNotHearOfItsOldTrainer) {
  Cluster cluster(3);
  cluster.submit(Cluster::small_job(8));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  cluster.host(1).crash(true);
  cluster.host(1).boot();
  ASSERT_TRUE(cluster.until([&] { return cluster.serving() == 3; })) << cluster.objection();
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

// ---- pipelines

JobSpec pipeline(std::int64_t stages, std::int64_t rounds) {
  JobSpec spec = Cluster::small_job(rounds);
  spec.model.layers = spec.swarm.stages = stages;
  spec.train.microbatch = 1;
  return spec;
}

// Kills every trainer that serves this stage now.
int kill_stage(Cluster& cluster, StageIndex stage) {
  int killed = 0;
  for (const auto& [id, replica] : cluster.world().tables().replicas) {
    if (replica.stage != stage || is_terminal(replica.state)) continue;
    if (Trainer* trainer = cluster.world().trainer_of(id)) trainer->kill(9), ++killed;
  }
  return killed;
}

TEST(Scenario, FourAgentsTrainAPipelineOfTwoStages) {
  Cluster cluster(4);
  cluster.submit(pipeline(2, 6));
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 6);
  EXPECT_EQ(cluster.job()->committed_tokens, Tokens(6 * 2 * 5 * 2 * 8));  // of the two routers
  EXPECT_EQ(cluster.count(3, ContributionState::kCommitted), 4);
  EXPECT_EQ(cluster.round(3)->reduces.size(), 2u);
  EXPECT_NE(cluster.round(3)->reduces[0].anchor, cluster.round(3)->reduces[1].anchor);
  EXPECT_EQ(cluster.job()->view, 2) << "its members, and their lines once these were measured";
}

TEST(Scenario, AReplicaOfALaterStageDiesInTheReduceAndOnlyItsStageTriesAgain) {
  Cluster cluster(6);
  cluster.submit(pipeline(2, 6));
  ASSERT_TRUE(cluster.until([&] {
    const auto* round = cluster.job() ? cluster.round(3) : nullptr;
    return round != nullptr && round->state == coordinator::RoundState::kReducing;
  })) << cluster.objection();
  Trainer* doomed = nullptr;
  for (const auto& [id, replica] : cluster.world().tables().replicas) {
    if (replica.stage == 1) doomed = cluster.world().trainer_of(id);
  }
  ASSERT_NE(doomed, nullptr);
  doomed->kill(9);
  ASSERT_TRUE(cluster.until_round(3, seconds(10))) << cluster.objection();
  EXPECT_EQ(averaging_attempt(cluster.round(3)->reduces[0]), 1);
  EXPECT_EQ(averaging_attempt(cluster.round(3)->reduces[1]), 2);
  EXPECT_EQ(cluster.count(3, ContributionState::kCommitted), 5);
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, AStageWithoutReplicasIsLoadedFromTheCheckpointOfThatRound) {
  Cluster cluster(3);
  JobSpec spec = pipeline(3, 12);
  change_sync(spec, [](SyncSpec& sync) {
    sync.every = Steps(60);  // a round takes longer than an upload
  });
  spec.train.steps = Steps(12 * 60);
  spec.checkpoint.every_rounds = 1;
  cluster.submit(spec);
  ASSERT_TRUE(cluster.until([&] {
    return cluster.job() && is_stored(cluster, cluster.job()->committed_round);
  })) << cluster.objection();
  ASSERT_EQ(kill_stage(cluster, 1), 1);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kStalled)) << cluster.objection();
  EXPECT_EQ(cluster.job()->reason, JobReason::kLastReplicaLost);
  EXPECT_NE(cluster.job()->detail.find("stage 1"), std::string::npos) << cluster.job()->detail;
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->epoch, 0) << "the others kept their progress";
}

TEST(Scenario, AStageWithoutReplicasAndWithoutCheckpointTakesTheJobBack) {
  Cluster cluster(3);
  cluster.submit(pipeline(3, 8));
  ASSERT_TRUE(cluster.until_round(3)) << cluster.objection();
  ASSERT_EQ(kill_stage(cluster, 2), 1);
  ASSERT_TRUE(cluster.until([&] { return cluster.job()->epoch == 1; })) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 0);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 8);
}

TEST(Scenario, ALostRouterIsReplacedAtOnceWhenItsStageHasTooFew) {
  Cluster cluster(4);
  JobSpec spec = pipeline(2, 20);
  spec.swarm.min_replicas = 2;
  cluster.submit(spec);
  ASSERT_TRUE(cluster.until_round(3)) << cluster.objection();
  for (const auto& [id, replica] : cluster.world().tables().replicas) {
    if (replica.stage != 0) continue;
    cluster.world().trainer_of(id)->kill(9);
    break;
  }
  ASSERT_TRUE(cluster.until_phase(JobPhase::kStalled)) << cluster.objection();
  EXPECT_EQ(cluster.job()->reason, JobReason::kBelowMinReplicas);
  const RoundNumber stalled_in = cluster.job()->committed_round + 1;
  ASSERT_TRUE(cluster.until_round(stalled_in)) << cluster.objection();
  // Its replacement is in that round, if only to follow: the other router may have drawn its share.
  EXPECT_EQ(cluster.count(stalled_in, ContributionState::kCommitted) +
                cluster.count(stalled_in, ContributionState::kFollowed),
            4);
  EXPECT_EQ(cluster.job()->epoch, 0);
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

JobSpec streamed_job(std::int64_t rounds) {
  JobSpec spec = Cluster::small_job(rounds);
  spec.model.layers = 3;
  change_sync(spec, [](SyncSpec& sync) {
    sync.every = Steps(10);
    sync.fragments = 2;
    sync.overlap_steps = Steps(2);
    sync.blend = 0.5;
  });
  return spec;
}

TEST(Scenario, FragmentsAndOverlapCountEveryTokenOnce) {
  Cluster cluster(3);
  cluster.submit(streamed_job(8));
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 8);
  EXPECT_EQ(cluster.job()->committed_tokens, Tokens(8 * 3 * 5 * 2 * 8));
}

// A trainer is killed at one of 20 moments after the commit of round 2; the job ends without going
// back to a checkpoint.
void expect_any_death_is_survived(const JobSpec& spec) {
  for (int moment = 0; moment < 20; ++moment) {
    Cluster cluster(3, static_cast<std::uint64_t>(moment) + 1);
    cluster.submit(spec);
    ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
    cluster.pass(milliseconds(73 * moment));
    cluster.host(moment % 3).trainers().front()->kill(9);
    ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted))
        << "moment " << moment << " " << cluster.objection();
    EXPECT_EQ(cluster.job()->epoch, 0) << moment;
  }
}

// From one boundary to the one after the next: before, at and behind the boundary, in the reduce,
// at the commit, at the adoption.
TEST(Scenario, ATrainerThatStreamsMayDieAtAnyMoment) {
  expect_any_death_is_survived(streamed_job(10));
}

JobSpec eager_job(std::int64_t rounds) {
  JobSpec spec = streamed_job(rounds);
  change_sync(spec, [](SyncSpec& sync) {
    sync.blend = 0;
    sync.eager = true;
  });
  return spec;
}

// With its own average known or not, taken back by an abort, or dropped.
TEST(Scenario, ATrainerThatIsEagerMayDieAtAnyMoment) {
  expect_any_death_is_survived(eager_job(10));
}

TEST(Scenario, AStreamingJoinerContributesInALaterRound) {
  Cluster cluster(3);
  cluster.host(2).pause();
  cluster.submit(streamed_job(40));
  ASSERT_TRUE(cluster.until_round(3)) << cluster.objection();
  cluster.host(2).resume();
  ASSERT_TRUE(cluster.until([&] {
    return cluster.job() &&
           cluster.count(cluster.job()->committed_round, ContributionState::kCommitted) == 3;
  })) << cluster.objection();
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

// Rounds of the first to report; hosts are of three speeds.
JobSpec async_job(std::int64_t rounds, std::int64_t quorum) {
  JobSpec spec = Cluster::small_job(rounds);
  change_sync(spec, [&](SyncSpec& sync) {
    sync.algorithm = SyncAlgorithm::kAsync;
    sync.quorum = quorum;
  });
  return spec;
}

TEST(Scenario, AsynchronousReplicasContributeAsOftenAsTheyCan) {
  Cluster cluster(3);
  cluster.submit(async_job(12, 1));
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  std::map<ReplicaId, int> counted;
  for (const auto& [key, contribution] : cluster.world().tables().contributions) {
    counted[key.second] += contribution.state == ContributionState::kCommitted;
  }
  ASSERT_EQ(counted.size(), 3u);
  std::vector<int> times;
  for (const auto& [replica, count] : counted) times.push_back(count);
  std::sort(times.begin(), times.end());
  EXPECT_GT(times.front(), 0);
  EXPECT_GT(2 * times.back(), 3 * times.front()) << "the fastest host is twice as fast";
  EXPECT_GT(cluster.job()->committed_round, 12);
  const std::int64_t all = 12 * 3 * 5 * 2 * 8;  // of a synchronous job
  EXPECT_GE(cluster.job()->committed_tokens, Tokens(all));
  EXPECT_LE(cluster.job()->committed_tokens, Tokens(all + 3 * 5 * 2 * 8));
}

// In its lease, in a reduce that it follows, between the commit and its outer step.
TEST(Scenario, AnAsynchronousTrainerMayDieAtAnyMoment) {
  expect_any_death_is_survived(async_job(10, 0));
}

TEST(Scenario, AnAsynchronousJoinerContributes) {
  Cluster cluster(3);
  cluster.host(2).pause();
  cluster.submit(async_job(60, 0));
  ASSERT_TRUE(cluster.until_round(3)) << cluster.objection();
  cluster.host(2).resume();
  const auto contributes = [&] {
    for (const auto& [key, contribution] : cluster.world().tables().contributions) {
      const bool counts = contribution.state == ContributionState::kCommitted;
      if (counts && key.second == cluster.host(2).trainers().front()->replica()) return true;
    }
    return false;
  };
  ASSERT_TRUE(cluster.until(contributes)) << cluster.objection();
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

}  // namespace
}  // namespace shoal::sim
