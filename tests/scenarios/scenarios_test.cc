// Stories that must end well, each told at the exact moment that matters. The seeds of the campaign
// find such moments by chance; these keep the known ones.
#include <gtest/gtest.h>

#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::JobPhase;
using coordinator::JobReason;

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
  EXPECT_EQ(cluster.job()->lineage, 0);
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Scenario, AJoinerGetsItsStateFromADonorAndContributesInALaterRound) {
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
  ASSERT_TRUE(cluster.until([&] { return cluster.job()->lineage == 1; })) << cluster.objection();
  EXPECT_GE(cluster.job()->committed_round, 4);  // of the newest stored cut, not the beginning
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 20);
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

}  // namespace
}  // namespace shoal::sim
