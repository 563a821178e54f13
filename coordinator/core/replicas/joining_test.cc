#include "coordinator/core/replicas/joining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/rounds_test_util.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

// Two that train, and a third that was told to take their state of round 1.
class Joining : public testing::Test {
 protected:
  Joining() {
    go_through(1);
    late_ = rig_.join("late");
    rig_.wait(seconds(1));
    replica_ = told().replica;
  }
  void report(RoundNumber round) {
    rig_.report(rig_.a, rig_.rep_a, rig_.key(round));
    rig_.report(rig_.b, rig_.rep_b, rig_.key(round));
  }
  void go_through(RoundNumber round) {
    report(round);
    rig_.finish(round);
  }
  Assign told() { return rig_.last<Assign>(late_).value_or(Assign{}); }
  std::size_t told_times() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        rig_.sent.at(late_), [](const ToAgent& m) { return std::holds_alternative<Assign>(m); }));
  }
  void say_loaded(RoundNumber round, Digest anchor) {
    rig_.say(late_,
             Loaded{replica_, rig_.key(round), anchor, stage().momentum, 1000, "late:1", {}});
  }
  const JobStage& stage() const { return rig_.job(rig_.id).stages.at(0); }
  Digest anchor() const { return stage().anchor; }
  ReplicaState state() { return rig_.state().replicas.at(replica_).state; }

  PairRig rig_{job_of_steps()};
  ConnectionId late_;
  ReplicaId replica_;
};

TEST_F(Joining, IsToldAllThatHaveTheState) {
  const Assign assign = told();
  EXPECT_EQ(assign.source.kind, SourceKind::kPeer);
  ASSERT_EQ(assign.sources.size(), 2u);
  EXPECT_EQ(assign.sources[0].replica, assign.source.replica);
  EXPECT_EQ(assign.sources[0].address, assign.source.address);
}

// The next round may wait for another joiner, which has the state from nobody else.
TEST_F(Joining, OneThatServesIsToldToGoOnFromWhatItHolds) {
  EXPECT_FALSE(rig_.last<ToReplica<ResumeAt>>(late_));
  say_loaded(1, anchor());
  ASSERT_EQ(state(), ReplicaState::kServing);
  const auto told = rig_.last<ToReplica<ResumeAt>>(late_);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->replica, replica_);
  EXPECT_EQ(told->body.key, rig_.key(1));
}

TEST_F(Joining, OneThatIsBehindIsNamedTheNewestRoundAndKeepsItsPlace) {
  go_through(2);
  say_loaded(1, anchor());
  EXPECT_EQ(state(), ReplicaState::kLoading);
  EXPECT_EQ(told().source.key, rig_.key(2));
  EXPECT_EQ(told().record.key, rig_.key(2));
  EXPECT_EQ(told().source.anchor, anchor());
  say_loaded(2, anchor());
  EXPECT_EQ(state(), ReplicaState::kServing);
  EXPECT_EQ(rig_.state().replicas.at(replica_).held_round, 2);
}

// Its agent has no commit record of a round that it was not told.
TEST_F(Joining, OneThatFollowedFurtherThanItWasToldIsToldFirst) {
  go_through(2);
  say_loaded(2, anchor());
  EXPECT_EQ(state(), ReplicaState::kLoading);
  EXPECT_EQ(told().source.key, rig_.key(2));
  say_loaded(2, anchor());
  EXPECT_EQ(state(), ReplicaState::kServing);
}

TEST_F(Joining, WhoComesWhileARoundIsReducedEntersAfterIt) {
  report(2);
  ASSERT_NE(rig_.rounds_.at(rig_.key(2)).state, RoundState::kOpen) << "nobody waits for who is far";
  say_loaded(1, anchor());
  EXPECT_EQ(state(), ReplicaState::kLoading);
  const std::size_t before = told_times();
  rig_.finish(2);
  EXPECT_GT(told_times(), before);
  EXPECT_EQ(told().source.key, rig_.key(2));
  EXPECT_EQ(state(), ReplicaState::kLoading);
}

TEST_F(Joining, OneThatHasAllButARoundIsWaitedForOnce) {
  go_through(2);
  const JobRecord& job = rig_.job(rig_.id);
  EXPECT_FALSE(awaited_since(rig_.state(), job, rig_.state().replicas.at(replica_)));
  say_loaded(1, anchor());
  const auto since = awaited_since(rig_.state(), job, rig_.state().replicas.at(replica_));
  ASSERT_TRUE(since);
  report(3);
  EXPECT_EQ(rig_.rounds_.at(rig_.key(3)).state, RoundState::kOpen);
  rig_.wait(rig_.options.join_grace + milliseconds(1));
  EXPECT_NE(rig_.rounds_.at(rig_.key(3)).state, RoundState::kOpen);
}

TEST_F(Joining, OtherSourcesAreToldWhenOneLeaves) {
  rig_.say(rig_.a, ReplicaFailed{rig_.rep_a, ReplicaFailure::kTrainerExited, ""});
  ASSERT_EQ(told().sources.size(), 1u);
  EXPECT_EQ(told().sources[0].replica, rig_.rep_b);
}

TEST_F(Joining, IsToldOnceThatNobodyHasTheStateAnyMore) {
  rig_.say(rig_.a, ReplicaFailed{rig_.rep_a, ReplicaFailure::kTrainerExited, ""});
  const std::size_t before = told_times();
  rig_.say(rig_.b, ReplicaFailed{rig_.rep_b, ReplicaFailure::kTrainerExited, ""});
  ASSERT_EQ(told().replica, replica_);
  EXPECT_TRUE(told().sources.empty());
  rig_.wait(seconds(1));
  EXPECT_EQ(told_times(), before + 1);
  EXPECT_EQ(state(), ReplicaState::kLoading) << "it may have all of it, and has yet to say so";
}

// The trainer of an agent that the coordinator has lost may still answer.
TEST_F(Joining, ASourceThatIsOutOfReachIsStillNamed) {
  rig_.say(rig_.a, ReplicaFailed{rig_.rep_a, ReplicaFailure::kTrainerExited, ""});
  rig_.input(AgentHungUp{rig_.b});
  rig_.wait(seconds(1));
  ASSERT_EQ(told().sources.size(), 1u);
  EXPECT_EQ(told().sources[0].replica, rig_.rep_b);
}

// A data folder that was copied: the newer start takes the place, the older one is told why it
// cannot have it back, and those that train see neither.
TEST_F(Joining, OfTwoWithOneIdentityTheNewerJoinsAndTheOlderIsNamed) {
  const Incarnation older = rig_.last<Welcome>(late_).value_or(Welcome{}).incarnation;
  const ConnectionId newer = rig_.join("late");
  rig_.wait(seconds(1));
  EXPECT_FALSE(is_live(rig_.state(), replica_)) << "what the older one loads is not waited for";
  const auto assign = rig_.last<Assign>(newer);
  ASSERT_TRUE(assign);
  EXPECT_NE(assign->replica, replica_);

  const ConnectionId again = rig_.join("late", older, {replica_});
  const auto refused = rig_.last<Refused>(again);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error.field, "incarnation");
  EXPECT_THAT(refused->error.remedy, testing::HasSubstr("--data-dir"));
  const auto named = [](const EventRecord& event) {
    return event.kind == event_kind::kAgentRefused &&
           event.message.find("late") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(rig_.events, named), 1);

  go_through(2);
  EXPECT_EQ(rig_.job(rig_.id).committed_round, 2);
  replica_ = assign->replica;
  rig_.say(newer, Loaded{replica_, rig_.key(2), anchor(), stage().momentum, 1000, "late:2", {}});
  rig_.say(newer, Loaded{replica_, rig_.key(2), anchor(), stage().momentum, 1000, "late:2", {}});
  EXPECT_EQ(state(), ReplicaState::kServing);
}

TEST_F(Joining, ASourceThatGaveOtherBytesIsNamedOnce) {
  Loaded loaded{replica_, rig_.key(1), anchor(), stage().momentum, 1000, "late:1", {}};
  loaded.refused = {rig_.rep_b};
  rig_.say(late_, loaded);
  rig_.say(late_, loaded);
  ASSERT_EQ(state(), ReplicaState::kServing);
  std::vector<ReplicaId> named;
  for (const EventRecord& event : rig_.events) {
    if (event.kind == event_kind::kSourceRefused) named.push_back(event.replica);
  }
  EXPECT_THAT(named, testing::ElementsAre(rig_.rep_b));
  EXPECT_TRUE(is_live(rig_.state(), rig_.rep_b)) << "the word of one proves nothing more";
}

TEST_F(Joining, WhoHasAnotherStateThanTheCommittedOneAccusesNobody) {
  Loaded loaded{replica_, rig_.key(1), {1, 2}, stage().momentum, 1000, "late:1", {}};
  loaded.refused = {rig_.rep_b};
  rig_.say(late_, loaded);
  for (const EventRecord& event : rig_.events) EXPECT_NE(event.kind, event_kind::kSourceRefused);
}

TEST_F(Joining, AnotherStateThanTheCommittedOneIsRefused) {
  say_loaded(1, {1, 2});
  EXPECT_EQ(rig_.replicas_.at(replica_).failure, ReplicaFailure::kDigestMismatch);
}

}  // namespace
}  // namespace shoal::coordinator
