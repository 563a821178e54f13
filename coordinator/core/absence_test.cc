// Agents out of reach, and this coordinator itself standing still: nobody who lives is given up.
#include "coordinator/core/absence.h"

#include <gtest/gtest.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

JobSpec without_checkpoints(std::int64_t min_replicas) {
  JobSpec spec = small_job();
  spec.train.steps = Steps(100);
  spec.checkpoint.every_rounds = 0;
  spec.swarm.min_replicas = min_replicas;
  return spec;
}

struct AbsenceRig : PairRig {
  explicit AbsenceRig(std::int64_t min_replicas = 2) : PairRig(without_checkpoints(min_replicas)) {}

  void commit(RoundNumber round) {
    report(a, rep_a, key(round)), report(b, rep_b, key(round));
    finish(round);
    ASSERT_EQ(job(id).committed_round, round);
  }
  // b leaves, and a is the last in-sync replica of round 1.
  void commit_alone() {
    say(b, Goodbye{"stopped"});
    report(a, rep_a, key(1));
    vote(a, rep_a, key(1), 1);
    applied(a, rep_a, key(1), {11, 11});
    ASSERT_EQ(job(id).committed_round, 1);
  }
  // As with a line that was cut: nobody says anything.
  void cut(Duration time) { wait(time); }
  void cut_all_but(ConnectionId connection, Duration time) {
    for (Duration gone; gone < time; gone = gone + seconds(2)) {
      say(connection, Heartbeat{});
      wait(seconds(2));
    }
  }
  // The same process of that agent, with what it runs.
  ConnectionId come_back(const std::string& name, ReplicaId replica) {
    const AgentId agent = state().replicas.at(replica).agent;
    return join(name, state().agents.at(agent).incarnation, {replica});
  }
  void both_come_back() { a = come_back("a", rep_a), b = come_back("b", rep_b); }
  ReplicaState state_of(ReplicaId replica) const { return state().replicas.at(replica).state; }
  std::int64_t count(const char* kind) const {
    return std::ranges::count_if(events, [&](const EventRecord& e) { return e.kind == kind; });
  }
};

TEST(Absence, WhoeverFellSilentTogetherIsAbsentTogether) {
  AbsenceRig rig(1);
  rig.commit(1);
  rig.wait(seconds(1));
  rig.say(rig.b, Heartbeat{});  // its line is cut a moment later
  rig.cut(seconds(8));
  EXPECT_EQ(rig.state_of(rig.rep_a), ReplicaState::kAbsent);
  EXPECT_EQ(rig.state_of(rig.rep_b), ReplicaState::kAbsent) << "or b would continue without a";
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
}

TEST(Absence, OneThatStillSpeaksGoesOnAlone) {
  AbsenceRig rig(1);
  rig.commit(1);
  for (int i = 0; i < 5; ++i) rig.wait(seconds(2)), rig.say(rig.b, Heartbeat{});
  EXPECT_EQ(rig.state_of(rig.rep_a), ReplicaState::kAbsent);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.report(rig.b, rig.rep_b, rig.key(2));
  rig.vote(rig.b, rig.rep_b, rig.key(2), 1);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_FALSE(rig.state().replicas.contains(rig.rep_a)) << "what it holds is of the past";
}

TEST(Absence, AllOfThemComeBackAndGoOnWithTheirRound) {
  AbsenceRig rig;
  rig.commit(1);
  rig.report(rig.a, rig.rep_a, rig.key(2));
  const std::vector<DataLease> lease = rig.last<ToReplica<CommitRound>>(rig.b)->body.next.leases;
  rig.cut(seconds(40));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kWaitingForAbsent);
  rig.both_come_back();
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.last<Welcome>(rig.b)->keep, std::vector{rig.rep_b});
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.b)->body.leases, lease) << "it continues";
  rig.report(rig.b, rig.rep_b, rig.key(2));  // a's still counts
  rig.finish(2);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_EQ(rig.count(event_kind::kReplicaFailed), 0);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
}

TEST(Absence, TheFirstOneBackWaitsAMomentForTheOthers) {
  AbsenceRig rig(1);
  rig.commit(1);
  rig.report(rig.a, rig.rep_a, rig.key(2));
  rig.cut(seconds(40));
  rig.a = rig.come_back("a", rig.rep_a);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled) << "b is most likely on its way";
  rig.wait(seconds(2));
  rig.b = rig.come_back("b", rig.rep_b);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.state().rounds.at(rig.key(2)).state, RoundState::kOpen) << "b has yet to report";
}

TEST(Absence, TheOthersAreNotWaitedForForEver) {
  AbsenceRig rig(1);
  rig.commit(1);
  rig.cut(seconds(40));
  rig.a = rig.come_back("a", rig.rep_a);
  for (int i = 0; i < 4; ++i) rig.wait(seconds(2)), rig.say(rig.a, Heartbeat{});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(Absence, WhoVotedCatchesUpWithTheCommit) {
  AbsenceRig rig(1);
  rig.commit(1);
  rig.report(rig.a, rig.rep_a, rig.key(2)), rig.report(rig.b, rig.rep_b, rig.key(2));
  rig.vote(rig.a, rig.rep_a, rig.key(2), 1);
  for (int i = 0; i < 5; ++i) rig.wait(seconds(2)), rig.say(rig.b, Heartbeat{});
  ASSERT_EQ(rig.state_of(rig.rep_a), ReplicaState::kAbsent);
  rig.vote(rig.b, rig.rep_b, rig.key(2), 1);
  rig.applied(rig.b, rig.rep_b, rig.key(2), {12, 12});
  ASSERT_EQ(rig.job(rig.id).committed_round, 2);
  rig.a = rig.come_back("a", rig.rep_a);
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.key, rig.key(2));
  rig.applied(rig.a, rig.rep_a, rig.key(2), {12, 12});
  EXPECT_EQ(rig.state().replicas.at(rig.rep_a).held_round, 2);
}

TEST(Absence, WaitsAsLongAsTheWorkAtStakeTookBeforeItRollsBack) {
  AbsenceRig rig;
  for (RoundNumber round = 1; round <= 3; ++round) {
    for (int i = 0; i < 50; ++i) {
      rig.wait(seconds(2)), rig.say(rig.a, Heartbeat{}), rig.say(rig.b, Heartbeat{});
    }
    rig.commit(round);
  }
  rig.cut(seconds(20));
  const ConnectionId c = rig.join("c");  // somebody who could start over
  rig.cut_all_but(c, seconds(230));
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
  EXPECT_NE(rig.job(rig.id).detail.find("round 3 is held by"), std::string::npos)
      << rig.job(rig.id).detail;
  rig.cut_all_but(c, seconds(80));
  ASSERT_EQ(rig.count(event_kind::kJobRolledBack), 1);
  const auto said = std::ranges::find_if(
      rig.events, [](const auto& e) { return e.kind == event_kind::kJobRolledBack; });
  EXPECT_NE(said->message.find("of a, "), std::string::npos) << said->message;
  EXPECT_NE(said->message.find("of b"), std::string::npos) << said->message;
  EXPECT_EQ(rig.job(rig.id).rollback_at, Instant{});
  EXPECT_EQ(rig.job(rig.id).epoch, 1);
  EXPECT_EQ(rig.last<Assign>(c)->source.kind, SourceKind::kSeed);
}

TEST(Absence, TheOperatorSetsHowLongARollBackWaits) {
  AbsenceRig rig;
  rig.options.rollback_wait_max = seconds(20);
  rig.restart();
  rig.both_come_back();
  rig.commit(1);
  rig.cut(seconds(15));
  rig.cut_all_but(rig.join("c"), seconds(25));
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 1);
}

TEST(Absence, ACoordinatorThatStoodStillBlamesNobody) {
  for (const std::int64_t pause : {5, 15, 60, 300}) {
    AbsenceRig rig(1);
    rig.commit(1);
    rig.now = rig.now + seconds(pause);  // and no step meanwhile
    rig.input(Tick{});
    EXPECT_EQ(rig.state_of(rig.rep_a), ReplicaState::kServing) << pause;
    rig.say(rig.b, Heartbeat{});  // it waited in the queue
    rig.say(rig.a, Heartbeat{});
    rig.wait(seconds(4));
    EXPECT_EQ(rig.count(event_kind::kReplicaAbsent), 0) << pause;
    EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
    rig.wait(seconds(30));  // but silence after it counts
    EXPECT_EQ(rig.count(event_kind::kReplicaAbsent), 2) << pause;
  }
}

TEST(Absence, StreamsThatBrokeMeanwhileMayComeBack) {
  AbsenceRig rig;
  rig.commit(1);
  rig.now = rig.now + seconds(60);
  rig.input(AgentHungUp{rig.a}), rig.input(AgentHungUp{rig.b});
  rig.wait(seconds(3));
  rig.both_come_back();
  EXPECT_EQ(rig.count(event_kind::kReplicaAbsent), 0);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(Absence, AnAgentStartedAnewKeepsTheTrainersThatItFound) {
  AbsenceRig rig;
  rig.commit(1);
  const Incarnation before =
      rig.state().agents.at(rig.state().replicas.at(rig.rep_a).agent).incarnation;
  rig.input(AgentHungUp{rig.a});
  rig.a = rig.join("a", {}, {rig.rep_a});
  EXPECT_EQ(rig.last<Welcome>(rig.a)->keep, std::vector{rig.rep_a});
  EXPECT_GT(rig.last<Welcome>(rig.a)->incarnation, before);
  EXPECT_EQ(rig.state_of(rig.rep_a), ReplicaState::kServing);
  rig.commit(2);
  EXPECT_EQ(rig.count(event_kind::kReplicaFailed), 0);
}

TEST(Absence, AnAgentStartedAnewWithoutItsTrainersHasLostThem) {
  AbsenceRig rig(1);
  rig.commit(1);
  rig.cut(seconds(40));
  rig.b = rig.come_back("b", rig.rep_b);
  rig.a = rig.join("a");
  EXPECT_FALSE(rig.state().replicas.contains(rig.rep_a));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining) << "nobody is waited for any more";
}

TEST(Absence, AnIdOfAnotherStartOfTheStoreIsAnotherReplica) {
  AbsenceRig rig(1);
  rig.commit(1);
  Hello hello{.uid = "uid-a", .name = "a"};
  hello.replicas = held_replicas(rig.state(), {rig.rep_a});
  hello.replicas[0].store = 4711;
  rig.input(AgentHello{ConnectionId{900}, hello});
  EXPECT_TRUE(rig.last<Welcome>(ConnectionId{900})->keep.empty());
}

TEST(Absence, WhoLeavesOfItsOwnWillIsNotWaitedFor) {
  AbsenceRig rig;
  rig.commit(1);
  rig.say(rig.a, Goodbye{"stopped"}), rig.say(rig.b, Goodbye{"stopped"});
  rig.join("c");
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 1);
}

TEST(Absence, TheLastInSyncReplicaThatDoesNotAnswerIsWaitedFor) {
  AbsenceRig rig(1);
  rig.commit_alone();
  rig.report(rig.a, rig.rep_a, rig.key(2));  // and then no vote
  rig.cut_all_but(rig.a, seconds(40));
  ASSERT_EQ(rig.state_of(rig.rep_a), ReplicaState::kAbsent);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kWaitingForAbsent);
  rig.vote(rig.a, rig.rep_a, rig.key(2), 1);  // slow, not dead
  EXPECT_EQ(rig.state_of(rig.rep_a), ReplicaState::kServing);
  rig.cut_all_but(rig.a, seconds(10));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
}

// Each alone would be failed, since the other one is there: then nobody would be left.
TEST(Absence, HoldersThatAreSilentInOneReduceAreJudgedTogether) {
  AbsenceRig rig(1);
  rig.commit(1);
  rig.report(rig.a, rig.rep_a, rig.key(2)), rig.report(rig.b, rig.rep_b, rig.key(2));
  for (int i = 0; i < 40; ++i) {  // and then no vote
    rig.wait(seconds(2)), rig.say(rig.a, Heartbeat{}), rig.say(rig.b, Heartbeat{});
  }
  EXPECT_EQ(rig.count(event_kind::kReplicaFailed), 0);
  EXPECT_EQ(rig.state_of(rig.rep_a), ReplicaState::kAbsent);
  EXPECT_EQ(rig.state_of(rig.rep_b), ReplicaState::kAbsent);
}

TEST(Absence, AQueuedJobTakesUpWhoReturnsBeforeItHadLoaded) {
  Rig rig;
  ConnectionId a = rig.join("a");
  const JobId id = *rig.submit(without_checkpoints(1));
  const Assign assign = *rig.last<Assign>(a);
  rig.wait(seconds(20));
  ASSERT_EQ(rig.state().replicas.at(assign.replica).state, ReplicaState::kAbsent);
  ASSERT_EQ(rig.job(id).phase, JobPhase::kQueued);
  const AgentId agent = rig.state().replicas.at(assign.replica).agent;
  a = rig.join("a", rig.state().agents.at(agent).incarnation, {assign.replica});
  EXPECT_EQ(rig.load(a), assign.replica);
  rig.wait(seconds(3));
  EXPECT_EQ(rig.job(id).phase, JobPhase::kTraining);
}

// The wait of an absence that is over must not shorten that of the next one.
TEST(Absence, EachIsWaitedForAnew) {
  AbsenceRig rig(1);
  rig.commit_alone();
  JobRecord stale = rig.job(rig.id);
  stale.rollback_at = rig.now - seconds(100);
  Snapshot tables = rig.snapshot();
  tables.jobs = {stale};
  rig.restore(tables);
  rig.a = rig.come_back("a", rig.rep_a);
  EXPECT_EQ(rig.job(rig.id).rollback_at, Instant{});
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
}

// Each start knows only of the time since the one before; the record keeps the rest.
TEST(Absence, StartsOfTheCoordinatorDoNotShortenTheWait) {
  AbsenceRig rig(1);
  rig.commit_alone();
  rig.cut(seconds(20));
  ASSERT_EQ(rig.job(rig.id).reason, JobReason::kWaitingForAbsent);
  for (int i = 0; i < 4; ++i) {
    rig.now = rig.now + seconds(50);  // it does not run
    rig.restart();
    rig.wait(seconds(3));
  }
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
  rig.cut_all_but(rig.join("c"), seconds(80));
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 1);
}

// A replica that was excluded from a reduce says nothing of its own accord.
TEST(Absence, WhoIsWithinReachIsAskedUntilItAnswers) {
  AbsenceRig rig(1);
  rig.commit_alone();
  rig.report(rig.a, rig.rep_a, rig.key(2));
  rig.cut_all_but(rig.a, seconds(40));
  ASSERT_EQ(rig.state_of(rig.rep_a), ReplicaState::kAbsent);
  rig.sent.clear();
  rig.cut_all_but(rig.a, seconds(12));
  const auto& heard = rig.sent[rig.a];
  const auto asked = std::ranges::count_if(heard, [](const ToAgent& message) {
    return std::holds_alternative<ToReplica<AbortRound>>(message);
  });
  EXPECT_GE(asked, 2);
  EXPECT_LE(asked, 4);
}

TEST(Absence, OneThatNeverAnswersGivesItsDeviceBack) {
  AbsenceRig rig(1);
  rig.commit_alone();
  rig.report(rig.a, rig.rep_a, rig.key(2));
  rig.cut_all_but(rig.a, seconds(150));
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 1);
  EXPECT_NE(rig.last<Assign>(rig.a)->replica, rig.rep_a);
}

}  // namespace
}  // namespace shoal::coordinator
