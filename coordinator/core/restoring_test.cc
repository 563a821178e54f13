// A backup is put back under a cluster that has gone on.
#include "coordinator/core/restoring.h"

#include <gtest/gtest.h>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/restore_test_util.h"

namespace shoal::coordinator {
namespace {

struct RestoreRig : HeldRig {
  Hello hello(const std::string& name, ReplicaId replica) const {
    Hello hello{.uid = "uid-" + name, .name = name};
    hello.incarnation = state().agents.at(state().replicas.at(replica).agent).incarnation;
    hello.replicas = held_replicas(state(), {replica});
    return hello;
  }
  // A backup of round 1; round 4 is committed since.
  Snapshot three_rounds_ago() {
    commit(1);
    Snapshot backup = snapshot();
    for (RoundNumber round = 2; round <= 4; ++round) commit(round);
    return backup;
  }
  // Both agents, as they are now, on a database of the past.
  void put_back(const Snapshot& backup) {
    const Hello of_a = hello("a", rep_a), of_b = hello("b", rep_b);
    restore(backup);
    a = ConnectionId{801}, b = ConnectionId{802};
    input(AgentHello{a, of_a}), input(AgentHello{b, of_b});
  }
  std::int64_t count(const char* kind) const {
    return std::ranges::count_if(events, [&](const EventRecord& e) { return e.kind == kind; });
  }
};

TEST(Restoring, GoesOnFromTheNewestRoundOfItsAgents) {
  RestoreRig rig;
  for (RoundNumber round = 1; round <= 3; ++round) rig.commit(round);
  const Snapshot backup = rig.snapshot();
  for (RoundNumber round = 4; round <= 9; ++round) rig.commit(round);
  const CommitRecord newest = rig.last<ToReplica<CommitRound>>(rig.a)->body.record;
  rig.put_back(backup);
  EXPECT_EQ(rig.last<Welcome>(rig.a)->keep, std::vector{rig.rep_a});
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kRestoring);
  rig.say(rig.a, FromReplica<RoundReport>{rig.rep_a, {{rig.id, 0, 10}}});  // means nothing here
  rig.stay(seconds(12));
  const JobRecord& job = rig.job(rig.id);
  EXPECT_EQ(job.committed_round, 9);
  EXPECT_GT(job.epoch, 100) << "the past cannot be mistaken for what follows";
  EXPECT_EQ(job.committed_step, newest.step);
  EXPECT_EQ(job.committed_tokens, newest.tokens);
  EXPECT_EQ(job.phase, JobPhase::kTraining);
  EXPECT_EQ(job.reason, JobReason::kRunning);
  EXPECT_EQ(rig.count(event_kind::kJobRestored), 1);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
  EXPECT_EQ(rig.last<ToReplica<ResumeAt>>(rig.a)->body.key, (RoundKey{rig.id, job.epoch, 9}));
  const OpenRound next = rig.last<ToReplica<OpenRound>>(rig.a)->body;
  EXPECT_EQ(next.key, (RoundKey{rig.id, job.epoch, 10}));
  EXPECT_EQ(next.leases.at(0).first, newest.next_sequence) << "nothing is trained twice";
}

TEST(Restoring, WaitsForAgentsThatTheBackupKnows) {
  RestoreRig rig;
  const Snapshot backup = rig.three_rounds_ago();
  const Hello of_a = rig.hello("a", rig.rep_a), of_b = rig.hello("b", rig.rep_b);
  rig.restore(backup);
  rig.a = ConnectionId{801}, rig.b = ConnectionId{802};
  rig.input(AgentHello{rig.a, of_a});
  for (int i = 0; i < 15; ++i) rig.wait(seconds(2)), rig.say(rig.a, Heartbeat{});
  EXPECT_EQ(rig.job(rig.id).committed_round, 1) << "b may hold a newer one";
  rig.input(AgentHello{rig.b, of_b});
  rig.wait(seconds(1));
  EXPECT_EQ(rig.job(rig.id).committed_round, 4);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

// Its trainers died while the decision was waited for.
TEST(Restoring, WhatAnAgentDoesNotHoldAnyMoreIsNotGoneOnWith) {
  RestoreRig rig;
  const Snapshot backup = rig.three_rounds_ago();
  Hello again = rig.hello("a", rig.rep_a);
  rig.put_back(backup);
  again.replicas.clear();
  again.incarnation = {};
  rig.a = ConnectionId{803};
  rig.input(AgentHello{rig.a, again});
  rig.stay(seconds(20));
  EXPECT_EQ(rig.job(rig.id).committed_round, 4);
  EXPECT_FALSE(is_live(rig.state(), rig.rep_a));
  EXPECT_TRUE(is_live(rig.state(), rig.rep_b));
}

TEST(Restoring, AReplicaThatFailsBeforeTheDecisionIsNotGoneOnWith) {
  RestoreRig rig;
  const Snapshot backup = rig.three_rounds_ago();
  rig.put_back(backup);
  rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
  rig.stay(seconds(20));
  EXPECT_EQ(rig.job(rig.id).committed_round, 4);
  EXPECT_FALSE(is_live(rig.state(), rig.rep_a));
}

TEST(Restoring, DoesNotWaitForEver) {
  RestoreRig rig;
  const Snapshot backup = rig.three_rounds_ago();
  const Hello of_a = rig.hello("a", rig.rep_a);
  rig.restore(backup);
  rig.a = ConnectionId{801};
  rig.input(AgentHello{rig.a, of_a});
  for (int i = 0; i < 40; ++i) rig.wait(seconds(2)), rig.say(rig.a, Heartbeat{});
  EXPECT_EQ(rig.job(rig.id).committed_round, 4);
}

TEST(Restoring, ReplicasThatCameAfterTheBackupKeepTheirIds) {
  RestoreRig rig;
  rig.commit(1);
  const Snapshot backup = rig.snapshot();
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  rig.say(rig.a, Heartbeat{}), rig.say(rig.b, Heartbeat{});
  rig.wait(seconds(2));
  const Assign assign = rig.last<Assign>(rig.b).value();
  rig.rep_b = assign.replica;
  rig.say(rig.b, Loaded{rig.rep_b, assign.source.key, {1, 3}, {9, 9}, 1000, "127.0.0.1:7200"});
  ASSERT_EQ(rig.state().replicas.at(rig.rep_b).state, ReplicaState::kServing);
  rig.report(rig.a, rig.rep_a, rig.key(2));
  rig.vote(rig.a, rig.rep_a, rig.key(2), 1, {2, 3}),
      rig.vote(rig.b, rig.rep_b, rig.key(2), 1, {2, 3});
  rig.applied(rig.a, rig.rep_a, rig.key(2), {2, 3}),
      rig.applied(rig.b, rig.rep_b, rig.key(2), {2, 3});
  ASSERT_EQ(rig.job(rig.id).committed_round, 2);
  rig.put_back(backup);
  rig.stay(seconds(12));
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_TRUE(rig.state().replicas.contains(rig.rep_b));
  EXPECT_GT(rig.state().counters.next_replica, rig.rep_b.n);
}

TEST(Restoring, RollsBackInTheOpenWhereTheHoldersDisagree) {
  RestoreRig rig;
  rig.commit(1);
  const Snapshot backup = rig.snapshot();
  rig.commit(2);
  Hello of_a = rig.hello("a", rig.rep_a), of_b = rig.hello("b", rig.rep_b);
  of_b.replicas[0].anchor = {66, 6};
  for (Hello* hello : {&of_a, &of_b}) {  // from before the digests were known
    CommitProof& proof = hello->replicas[0].record.proof;
    proof.anchors.clear(), proof.momenta.clear();
    rig.sign(hello->replicas[0]);
  }
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, of_a}), rig.input(AgentHello{ConnectionId{802}, of_b});
  rig.wait(seconds(2));
  rig.say(ConnectionId{801}, Heartbeat{}), rig.say(ConnectionId{802}, Heartbeat{});
  for (int i = 0; i < 5; ++i) {
    rig.wait(seconds(2));
    rig.say(ConnectionId{801}, Heartbeat{}), rig.say(ConnectionId{802}, Heartbeat{});
  }
  EXPECT_EQ(rig.count(event_kind::kJobRestored), 1);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 1);
  EXPECT_EQ(rig.job(rig.id).committed_round, 0);
  EXPECT_EQ(rig.last<Release>(ConnectionId{802})->replica, rig.rep_b);
}

TEST(Restoring, AJobIsNotCalledRunningBeforeAnybodyHasSpoken) {
  RestoreRig rig;
  rig.commit(1);
  rig.restart();
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kReconnecting);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", rig.rep_a)});
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kRunning);
}

}  // namespace
}  // namespace shoal::coordinator
