// Rounds that do not wait for everybody: who is late keeps what it trains, with its lease, and the
// job counts what was committed.
#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

JobSpec async_job(std::int64_t steps = 200) {
  JobSpec spec = small_job();
  spec.train.steps = Steps(steps);
  change_sync(spec, [](SyncSpec& sync) {
    sync.algorithm = SyncAlgorithm::kAsync;
    sync.quorum = 1;
  });
  return spec;
}

// Two replicas; `a` is the faster one.
struct Async : PairRig {
  explicit Async(const JobSpec& spec = async_job()) : PairRig(spec) {}
  const ContributionRecord& of(RoundNumber round, ReplicaId replica) const {
    return state().contributions.at({key(round), replica});
  }
  // `a` alone reports, both vote and take the outer step.
  void round_of_a(RoundNumber round) {
    report(a, rep_a, key(round));
    wait(seconds(1));
    finish(round);
  }
  CommitRound commit_of(ConnectionId connection) {
    return last<ToReplica<CommitRound>>(connection)->body;
  }
};

TEST(AsyncRounds, OneReportFreezesAndTheOtherFollowsWithoutWeight) {
  Async rig;
  rig.report(rig.a, rig.rep_a, rig.key(1));
  rig.wait(seconds(1));
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.b).value().body;
  ASSERT_EQ(plan.members.size(), 2u);
  EXPECT_EQ(plan.members[0].weight, 1280);
  EXPECT_EQ(plan.members[1].weight, 0);
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.b)) << "nobody is told to stop";
}

TEST(AsyncRounds, WhoIsLateKeepsItsLeaseUntilItReports) {
  Async rig;
  const DataLease lease = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.round_of_a(1);
  EXPECT_FALSE(rig.commit_of(rig.a).keeps);
  EXPECT_NE(rig.commit_of(rig.a).next.leases.at(0), lease);
  EXPECT_TRUE(rig.commit_of(rig.b).keeps);
  EXPECT_EQ(rig.commit_of(rig.b).next.leases.at(0), lease);
  EXPECT_EQ(rig.of(1, rig.rep_b).state, ContributionState::kLate);
  EXPECT_TRUE(rig.of(1, rig.rep_b).leases.empty());
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
  rig.round_of_a(2);
  EXPECT_EQ(rig.commit_of(rig.b).next.leases.at(0), lease);
  rig.report(rig.b, rig.rep_b, rig.key(3));
  rig.wait(seconds(1));
  rig.finish(3);
  EXPECT_EQ(rig.of(3, rig.rep_b).state, ContributionState::kCommitted);
  EXPECT_EQ(rig.of(3, rig.rep_b).leases, std::vector<DataLease>{lease});
  EXPECT_FALSE(rig.commit_of(rig.b).keeps);
  EXPECT_NE(rig.commit_of(rig.b).next.leases.at(0), lease);
  EXPECT_TRUE(rig.commit_of(rig.a).keeps) << "now this one is late";
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(3 * 1280));
}

TEST(AsyncRounds, TheJobIsAsFarAsTheMeanOfItsReplicas) {
  Async rig;
  rig.round_of_a(1);
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(5));
  EXPECT_EQ(rig.commit_of(rig.b).share, 0.5);
  const double half = std::sqrt(async_job().sync.outer.momentum);
  EXPECT_DOUBLE_EQ(rig.commit_of(rig.b).decay, half);
  rig.round_of_a(2);
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(10));
  EXPECT_DOUBLE_EQ(rig.commit_of(rig.a).decay, half);
  EXPECT_EQ(rig.commit_of(rig.b).decay, rig.commit_of(rig.a).decay);
  EXPECT_EQ(rig.commit_of(rig.a).next.from_step, Steps(10));
  EXPECT_EQ(rig.commit_of(rig.a).next.to_step, Steps(20));
  // Both at about the same time: a round like any other.
  rig.wait(seconds(4));
  rig.report(rig.a, rig.rep_a, rig.key(3));
  rig.report(rig.b, rig.rep_b, rig.key(3));
  rig.finish(3);
  EXPECT_EQ(rig.commit_of(rig.a).share, 1);
  EXPECT_DOUBLE_EQ(rig.commit_of(rig.a).decay, half * half);
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(20));
}

TEST(AsyncRounds, TheLastRoundTakesBackWhatNobodyReports) {
  Async rig(async_job(10));
  const DataLease lease = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.round_of_a(1);
  EXPECT_FALSE(rig.commit_of(rig.a).last);
  rig.round_of_a(2);
  EXPECT_TRUE(rig.commit_of(rig.b).last);
  EXPECT_FALSE(rig.commit_of(rig.b).keeps);
  EXPECT_THAT(rig.job(rig.id).returned, testing::Contains(lease));
}

TEST(AsyncRounds, AReportThatComesAfterTheFreezeCountsInTheNextRound) {
  Async rig;
  rig.report(rig.a, rig.rep_a, rig.key(1));
  rig.wait(seconds(1));
  rig.report(rig.b, rig.rep_b, rig.key(1));  // frozen already
  rig.finish(1);
  EXPECT_TRUE(rig.commit_of(rig.b).keeps);
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(1280));
}

TEST(AsyncRounds, WhatAReplicaHasRuinedIsNotKept) {
  Async rig;
  rig.report_broken(rig.b, rig.rep_b, rig.key(1));
  rig.wait(seconds(1));
  EXPECT_FALSE(rig.last<ToReplica<ReducePlan>>(rig.b)) << "one usable report is wanted";
  rig.round_of_a(1);
  EXPECT_FALSE(rig.commit_of(rig.b).keeps);
  EXPECT_EQ(rig.commit_of(rig.b).next.leases.at(0).count, 40);
}

TEST(AsyncRounds, ALostLateReplicaGivesItsLeaseBack) {
  Async rig;
  const DataLease lease = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.round_of_a(1);
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  EXPECT_EQ(rig.job(rig.id).returned, std::vector<DataLease>{lease});
}

TEST(AsyncRounds, ADrainedReplicaStaysUntilItsReportCounts) {
  JobSpec spec = async_job();
  spec.swarm.min_replicas = 1;
  Async rig(spec);
  rig.input(CommandAgent{RequestId{9}, AgentId(2), AgentVerb::kDrain});
  rig.round_of_a(1);
  EXPECT_FALSE(rig.last<Release>(rig.b));
  EXPECT_TRUE(rig.commit_of(rig.b).keeps);
  rig.report(rig.b, rig.rep_b, rig.key(2));
  rig.wait(seconds(1));
  rig.vote(rig.a, rig.rep_a, rig.key(2), 1), rig.vote(rig.b, rig.rep_b, rig.key(2), 1);
  EXPECT_TRUE(rig.last<Release>(rig.b));
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(2 * 1280));
}

// The reporter continues with more steps; a late replica continues with the lease that it has.
TEST(AsyncRounds, AnAbortLeavesTheLateOneInItsLease) {
  JobSpec spec = async_job();
  spec.swarm.min_replicas = 1;
  Async rig(spec);
  const DataLease lease = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.report(rig.a, rig.rep_a, rig.key(1));
  rig.wait(seconds(1));
  for (std::int32_t attempt = 1; attempt <= rig.options.attempts_max; ++attempt) {
    rig.vote(rig.a, rig.rep_a, rig.key(1), attempt, {1, 1});
    rig.vote(rig.b, rig.rep_b, rig.key(1), attempt, {2, 2});
  }
  const auto abort_a = rig.last<ToReplica<AbortRound>>(rig.a);
  const auto abort_b = rig.last<ToReplica<AbortRound>>(rig.b);
  ASSERT_TRUE(abort_a && abort_b);
  EXPECT_EQ(abort_b->body.next.leases.at(0), lease);
  EXPECT_NE(abort_a->body.next.leases.at(0),
            rig.last<ToReplica<OpenRound>>(rig.a)->body.leases.at(0));
  EXPECT_GT(abort_b->body.next.to_step, rig.last<ToReplica<OpenRound>>(rig.b)->body.to_step);
  EXPECT_EQ(rig.of(1, rig.rep_b).leases, std::vector<DataLease>{lease});
  EXPECT_EQ(rig.of(1, rig.rep_b).state, ContributionState::kTraining);
}

// The word of it is lost with the coordinator, and the operator lets the job continue: what the
// late one had begun was given to others.
TEST(AsyncRounds, APauseTakesBackWhatIsLate) {
  Async rig;
  const DataLease lease = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.round_of_a(1);
  rig.input(PauseJob{RequestId{7}, rig.id});
  rig.round_of_a(2);
  EXPECT_THAT(rig.job(rig.id).returned, testing::Contains(lease));
  const Incarnation incarnation = rig.state().agents.at(AgentId(2)).incarnation;
  rig.restart();
  rig.input(ResumeJob{RequestId{8}, rig.id});
  const CommitRound told = rig.commit_of(rig.join("b", incarnation, {rig.rep_b}));
  ASSERT_FALSE(told.last) << "round 3 is open";
  EXPECT_FALSE(told.keeps);
}

// The records alone tell a replica the same again.
TEST(AsyncRounds, ACommitIsRepeatedAfterARestart) {
  Async rig;
  rig.report(rig.a, rig.rep_a, rig.key(1));
  rig.wait(seconds(1));
  rig.vote(rig.a, rig.rep_a, rig.key(1), 1), rig.vote(rig.b, rig.rep_b, rig.key(1), 1);
  const CommitRound told = rig.commit_of(rig.b);
  const Incarnation incarnation = rig.state().agents.at(AgentId(2)).incarnation;
  rig.restart();
  const ConnectionId again = rig.join("b", incarnation, {rig.rep_b});
  EXPECT_EQ(rig.commit_of(again), told);
}

}  // namespace
}  // namespace shoal::coordinator
