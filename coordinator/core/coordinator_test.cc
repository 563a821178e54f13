// The coordinator as a whole, one stage. The rig is in coordinator_test_util.h.
#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/machines.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// Two agents, the job submitted, loaded and in its first round.
struct Running : Rig {
  Running() {
    a = join("a");
    b = join("b");
    id = *submit(small_job());
    rep_a = load(a);
    rep_b = load(b);
    wait(seconds(3));
    key = {id, 0, 1};
  }
  void report_all(RoundKey k) {
    report(a, rep_a, k);
    report(b, rep_b, k);
  }
  void commit_round(RoundKey k, Digest anchor) {
    report_all(k);
    vote(a, rep_a, k, 1);
    vote(b, rep_b, k, 1);
    applied(a, rep_a, k, anchor);
    applied(b, rep_b, k, anchor);
  }
  ConnectionId a, b;
  ReplicaId rep_a, rep_b;
  JobId id;
  RoundKey key;
};

TEST(CoordinatorCore, TrainsAJobToItsEnd) {
  Running rig;
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  const auto open = rig.last<ToReplica<OpenRound>>(rig.a).value();
  EXPECT_EQ(open.body.key, rig.key);
  EXPECT_EQ(open.body.leases.at(0).count, 40);
  EXPECT_NE(rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0).first,
            open.body.leases.at(0).first);

  rig.commit_round(rig.key, {11, 11});
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(2560));
  EXPECT_EQ(rig.job(rig.id).stages.at(0).anchor, (Digest{11, 11}));
  EXPECT_DOUBLE_EQ(rig.job(rig.id).train_loss, 2.5);
  const auto commit = rig.last<ToReplica<CommitRound>>(rig.a).value().body;
  EXPECT_FALSE(commit.last);
  EXPECT_EQ(commit.next.from_step, Steps(10));
  EXPECT_EQ(commit.evaluate.slices, 2);
  const auto asked = rig.last<ToReplica<WriteCheckpoint>>(rig.a).value().body;
  EXPECT_EQ(asked.key, rig.key);

  rig.commit_round({rig.id, 0, 2}, {12, 12});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  EXPECT_TRUE(rig.last<ToReplica<CommitRound>>(rig.b)->body.last);
  const auto final = rig.last<ToReplica<WriteCheckpoint>>(rig.a).value().body;
  EXPECT_EQ(final.key.round, 2);
  rig.say(rig.a, CheckpointWritten{rig.rep_a, final.checkpoint, final.key, part_files(), "Ahab"});
  rig.input(CheckpointUploaded{final.checkpoint, 0, part_files()});
  EXPECT_EQ(rig.state().checkpoints.at(final.checkpoint).sample, "Ahab");
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);  // the evaluation is still out
  rig.say(rig.a, FromReplica<Evaluated>{rig.rep_a, {final.key, {0, 2, 2}, 30.0, Tokens(10)}});
  rig.say(rig.b, FromReplica<Evaluated>{rig.rep_b, {final.key, {1, 2, 2}, 10.0, Tokens(10)}});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCompleted);
  EXPECT_DOUBLE_EQ(rig.job(rig.id).validation_loss, 2.0);
  EXPECT_EQ(rig.last<Release>(rig.b)->reason, ReleaseReason::kCompleted);
}

TEST(CoordinatorCore, ATrainerLostInTheReduceCostsOneAttempt) {
  Running rig;
  const ConnectionId c = rig.join("c");
  rig.load(c);  // joins with weight 0 at the freeze
  rig.report_all(rig.key);
  EXPECT_EQ(rig.last<ToReplica<ReducePlan>>(rig.a)->body.members.size(), 3u);
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, "SIGKILL"});
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  EXPECT_EQ(plan.attempt, 2);
  ASSERT_EQ(plan.members.size(), 2u);
  EXPECT_EQ(plan.members[0].replica, rig.rep_a);
  EXPECT_EQ(plan.members[1].weight, 0);
  rig.vote(rig.a, rig.rep_a, rig.key, 2);
  rig.vote(c, plan.members[1].replica, rig.key, 2);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(1280));
  // The lost one's sequences are given out again.
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.next.leases.at(0).first, 40);
}

TEST(CoordinatorCore, GoesOnAfterItsOwnRestartAtEveryPoint) {
  Running rig;
  rig.report(rig.a, rig.rep_a, rig.key);
  const Incarnation first{1};
  const auto return_both = [&] {
    rig.restart();
    rig.a = rig.join("a", first, {rig.rep_a});
    rig.b = rig.join("b", first, {rig.rep_b});
  };
  return_both();
  EXPECT_TRUE(rig.last<ToReplica<OpenRound>>(rig.b));  // b has not reported yet
  rig.report(rig.b, rig.rep_b, rig.key);
  return_both();
  EXPECT_EQ(rig.last<ToReplica<ReducePlan>>(rig.a)->body.attempt, 1);
  rig.vote(rig.a, rig.rep_a, rig.key, 1);
  return_both();
  rig.vote(rig.b, rig.rep_b, rig.key, 1);
  return_both();
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.key, rig.key);
  rig.applied(rig.a, rig.rep_a, rig.key, {11, 11});
  rig.applied(rig.b, rig.rep_b, rig.key, {11, 11});
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(CoordinatorCore, AnAgentThatStaysAwayIsReplacedAndTheJobStalls) {
  Running rig;
  rig.input(AgentHungUp{rig.b});
  rig.say(rig.a, Heartbeat{});
  rig.wait(seconds(6));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kBelowMinReplicas);
  const ConnectionId c = rig.join("c");
  rig.load(c);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(CoordinatorCore, TheSilenceBeforeAStreamClosedCountsForTheLease) {
  Running rig;
  rig.say(rig.a, Heartbeat{});
  rig.say(rig.b, Heartbeat{});
  rig.wait(seconds(5));
  rig.say(rig.a, Heartbeat{});
  rig.input(AgentHungUp{rig.b});
  rig.wait(seconds(2));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.wait(seconds(2));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
}

TEST(CoordinatorCore, RestoresFromTheNewestCheckpointWhenAllReplicasAreLost) {
  Running rig;
  rig.commit_round(rig.key, {11, 11});
  const auto asked = rig.last<ToReplica<WriteCheckpoint>>(rig.a).value().body;
  rig.say(rig.a, CheckpointWritten{rig.rep_a, asked.checkpoint, asked.key, part_files()});
  rig.input(CheckpointUploaded{asked.checkpoint, 0, part_files()});
  rig.report_all({rig.id, 0, 2});
  rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  rig.say(rig.a, Heartbeat{});
  rig.say(rig.b, Heartbeat{});
  rig.wait(seconds(2));
  const Assign assign = rig.last<Assign>(rig.a).value();
  EXPECT_EQ(assign.source.kind, SourceKind::kCheckpoint);
  EXPECT_EQ(assign.source.checkpoint, asked.checkpoint);
  EXPECT_EQ(assign.source.anchor, (Digest{11, 11}));
  EXPECT_EQ(assign.source.momentum, (Digest{9, 9}));
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  rig.load(rig.a, {11, 11});
  rig.load(rig.b, {1, 2});  // not what was stored: refused
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
}

TEST(CoordinatorCore, TheOddAnchorIsReplaced) {
  Rig rig;
  const auto a = rig.join("a"), b = rig.join("b"), c = rig.join("c");
  const JobId id = *rig.submit(small_job());
  const auto ra = rig.load(a), rb = rig.load(b), rc = rig.load(c);
  rig.wait(seconds(3));
  const RoundKey key{id, 0, 1};
  rig.report(a, ra, key), rig.report(b, rb, key), rig.report(c, rc, key);
  rig.vote(a, ra, key, 1), rig.vote(b, rb, key, 1), rig.vote(c, rc, key, 1);
  rig.applied(a, ra, key, {66, 66});
  rig.applied(b, rb, key, {11, 11});
  rig.applied(c, rc, key, {11, 11});
  EXPECT_EQ(rig.job(id).stages.at(0).anchor, (Digest{11, 11}));
  EXPECT_EQ(rig.replicas_.at(ra).failure, ReplicaFailure::kDigestMismatch);
  EXPECT_TRUE(is_live(rig.state(), rb));
}

TEST(CoordinatorCore, ClipsToTheMedianNormAndRejectsNonFinite) {
  Running rig;
  const auto c = rig.join("c");
  const auto rc = rig.load(c);
  rig.commit_round(rig.key, {11, 11});  // c votes too
  EXPECT_EQ(rig.job(rig.id).committed_round, 0);
  rig.vote(c, rc, rig.key, 1);
  rig.applied(rig.a, rig.rep_a, rig.key, {11, 11});
  rig.applied(rig.b, rig.rep_b, rig.key, {11, 11});
  rig.applied(c, rc, rig.key, {11, 11});
  const RoundKey second{rig.id, 0, 2};
  rig.report(rig.a, rig.rep_a, second, 4.0);
  rig.report(rig.b, rig.rep_b, second, 2.0);
  rig.report_broken(c, rc, second);
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  ASSERT_EQ(plan.members.size(), 3u);
  EXPECT_DOUBLE_EQ(plan.members[0].clip_factor, 0.75);  // median of 4 and 2 is 3
  EXPECT_DOUBLE_EQ(plan.members[1].clip_factor, 1.0);
  EXPECT_EQ(plan.members[2].weight, 0);
}

TEST(CoordinatorCore, AbortsWithoutUsableContributionAndKeepsTraining) {
  Running rig;
  for (const auto& [connection, replica] :
       {std::pair(rig.a, rig.rep_a), std::pair(rig.b, rig.rep_b)}) {
    RoundReport bad;
    bad.key = rig.key;
    bad.nonfinite = 1;
    rig.say(connection, FromReplica<RoundReport>{replica, bad});
  }
  const auto abort = rig.last<ToReplica<AbortRound>>(rig.a)->body;
  EXPECT_EQ(abort.reason, AbortReason::kNoUsableContribution);
  EXPECT_EQ(abort.next.from_step, Steps(10));
  EXPECT_EQ(abort.next.to_step, Steps(20));
  rig.commit_round(rig.key, {11, 11});
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(20));
}

TEST(CoordinatorCore, RefusesAgentsOfAnotherProtocolOrName) {
  Rig rig;
  rig.join("a");
  Hello hello;
  hello.uid = "other";
  hello.name = "a";
  rig.input(AgentHello{ConnectionId{77}, hello});
  EXPECT_EQ(rig.last<Refused>(ConnectionId{77})->error.field, "name");
  hello.name = "b";
  hello.protocol = hello.protocol_min = kProtocolVersion + 1;
  rig.input(AgentHello{ConnectionId{78}, hello});
  EXPECT_EQ(rig.last<Refused>(ConnectionId{78})->error.code, Code::kIncompatible);
}

TEST(CoordinatorCore, TellsAStragglerToReportWhatItHas) {
  Running rig;
  rig.report(rig.a, rig.rep_a, rig.key);
  for (int i = 0; i < 8; ++i) {
    rig.say(rig.a, Heartbeat{});
    rig.say(rig.b, Heartbeat{});
    rig.wait(seconds(5));
  }
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.a));
}

}  // namespace
}  // namespace shoal::coordinator
