// Attempts of a reduce in the coordinator: grace, statistics, and what an abort starts over.
#include <algorithm>
#include <set>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/rounds/rounds.h"

namespace shoal::coordinator {
namespace {

// Three replicas of one stage that have all reported.
struct Three : Rig {
  explicit Three(JobSpec spec = small_job()) {
    for (const char* name : {"a", "b", "c"}) agents.push_back(join(name));
    id = *submit(spec);
    for (const auto agent : agents) replicas.push_back(load(agent));
    wait(seconds(3));
    key = {id, 0, 1};
  }
  void report_all() {
    for (std::size_t i = 0; i < 3; ++i) report(agents[i], replicas[i], key);
  }
  void complain(std::size_t who, std::size_t about, std::int32_t attempt) {
    say(agents[who], FromReplica<ReduceFailed>{replicas[who],
                                               {.key = key,
                                                .attempt = attempt,
                                                .lost = replicas[about],
                                                .failure = ReduceFailure::kPeerLost,
                                                .detail = "it hung up"}});
  }
  std::int32_t attempt() { return last<ToReplica<ReducePlan>>(agents[0])->body.attempt; }
  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  JobId id;
  RoundKey key;
};

TEST(Attempts, EachHasItsOwnGraceBeforeAComplaintIsJudged) {
  Three rig;
  rig.report_all();
  rig.complain(0, 2, 1);
  rig.complain(1, 2, 1);
  EXPECT_EQ(rig.attempt(), 1) << "news of a death may still come";
  rig.wait(rig.options.failure_grace);
  ASSERT_EQ(rig.attempt(), 2) << "without the silent one";
  EXPECT_EQ(rig.replicas_.at(rig.replicas[2]).failure, ReplicaFailure::kPeerUnreachable);
  EXPECT_EQ(
      rig.replicas_.at(rig.replicas[2]).detail,
      "excluded from the reduce: unreachable; " + to_string(rig.replicas[0]) + ": it hung up");
  rig.complain(0, 1, 2);
  rig.wait(rig.options.failure_grace - milliseconds(100));
  EXPECT_TRUE(is_live(rig.state(), rig.replicas[1])) << "the grace of the first attempt is over";
  EXPECT_EQ(rig.attempt(), 2);
}

TEST(Attempts, TrafficOfAllOfThemIsCounted) {
  Three rig;
  rig.report_all();
  rig.vote(rig.agents[0], rig.replicas[0], rig.key, 1);
  rig.say(rig.agents[2], ReplicaFailed{rig.replicas[2], ReplicaFailure::kTrainerExited, ""});
  ASSERT_EQ(rig.attempt(), 2);
  rig.vote(rig.agents[0], rig.replicas[0], rig.key, 2);
  rig.vote(rig.agents[1], rig.replicas[1], rig.key, 2);
  ASSERT_EQ(rig.job(rig.id).committed_round, 1);
  const auto stats = [&](std::size_t i) {
    return rig.state().contributions.at({rig.key, rig.replicas[i]}).stats;
  };
  EXPECT_EQ(stats(0).sent, Bytes(200));
  EXPECT_EQ(stats(0).received, Bytes(400));
  EXPECT_EQ(stats(1).sent, Bytes(100));
  EXPECT_EQ(stats(1).received, Bytes(200));
  EXPECT_EQ(stats(0).reduce_s, 0.5) << "of the last one";
}

// A replica that has reported waits for the others; it is not asked to train the round again.
TEST(Attempts, WhoHasReportedIsNotToldToTrainAgain) {
  Three rig;
  rig.report(rig.agents[0], rig.replicas[0], rig.key);
  rig.restart();
  const auto reported = rig.join("a", Incarnation{1}, {rig.replicas[0]});
  const auto training = rig.join("b", Incarnation{1}, {rig.replicas[1]});
  EXPECT_FALSE(rig.last<ToReplica<OpenRound>>(reported));
  EXPECT_TRUE(rig.last<ToReplica<OpenRound>>(training));
}

TEST(Attempts, EveryFrozenRoundIsAnEventUnlessItIsOneStep) {
  JobSpec spec = small_job();
  spec.eval.every_rounds = 7;
  Three rig(spec);
  rig.report_all();
  EXPECT_EQ(rig.events.back().kind, event_kind::kRoundFrozen);
}

// ---- what follows from a commit

TEST(Commits, EverybodyEvaluatesItsSlice) {
  Three rig;
  rig.report_all();
  for (std::size_t i = 0; i < 3; ++i) rig.vote(rig.agents[i], rig.replicas[i], rig.key, 1);
  const auto slice = [&](std::size_t i) {
    return rig.last<ToReplica<CommitRound>>(rig.agents[i])->body.evaluate;
  };
  EXPECT_EQ(slice(0), (EvalSlice{0, 2, 2}));
  EXPECT_EQ(slice(1), (EvalSlice{1, 2, 2}));
  EXPECT_EQ(slice(2).slices, 0) << "there are two batches only";
}

TEST(Commits, CheckpointsAreOfEveryNthRoundWhenItsStateIsKnown) {
  JobSpec spec = small_job();
  spec.train.steps = Steps(100);
  spec.checkpoint.every_rounds = 2;
  Three rig(spec);
  const auto asked = [&] {
    return std::any_of(rig.agents.begin(), rig.agents.end(), [&](ConnectionId agent) {
      return rig.last<ToReplica<WriteCheckpoint>>(agent).has_value();
    });
  };
  const auto vote_all = [&] {
    rig.report_all();
    for (std::size_t i = 0; i < 3; ++i) rig.vote(rig.agents[i], rig.replicas[i], rig.key, 1);
  };
  const auto apply_all = [&] {
    for (std::size_t i = 0; i < 3; ++i) {
      rig.applied(rig.agents[i], rig.replicas[i], rig.key, {11, 11});
    }
  };
  vote_all();
  apply_all();
  EXPECT_FALSE(asked()) << "the first of two";
  rig.key.round = 2;
  vote_all();
  ASSERT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_FALSE(asked()) << "nobody has said what it holds";
  apply_all();
  EXPECT_TRUE(asked());
}

// ---- loading

TEST(Loading, WhoDoesNotLoadInTimeIsReplaced) {
  Rig rig;
  const auto a = rig.join("a");
  const JobId id = *rig.submit(small_job());
  rig.join("b");
  const ReplicaId replica = rig.last<Assign>(a)->replica;
  const auto stay = [&](Duration time) {
    for (Duration passed; passed < time; passed = passed + seconds(5)) {
      rig.wait(seconds(5));
      rig.say(a, Heartbeat{});
    }
  };
  stay(rig.options.load_limit - seconds(10));
  EXPECT_TRUE(is_live(rig.state(), replica));
  stay(seconds(15));
  EXPECT_FALSE(is_live(rig.state(), replica));
  EXPECT_EQ(rig.replicas_.at(replica).failure, ReplicaFailure::kUnresponsive);
  EXPECT_EQ(rig.job(id).committed_round, 0);
}

TEST(Loading, WhatWasLoadedIsKnownOfTheReplica) {
  Three rig;
  EXPECT_EQ(rig.replicas_.at(rig.replicas[0]).anchor, (Digest{7, 7}));
  EXPECT_EQ(rig.replicas_.at(rig.replicas[0]).momentum, (Digest{8, 8}));
}

TEST(Loading, JoinersAreSharedOutAmongSources) {
  JobSpec spec = small_job();
  spec.train.steps = Steps(100);
  Three rig(spec);
  rig.report_all();
  for (std::size_t i = 0; i < 3; ++i) rig.vote(rig.agents[i], rig.replicas[i], rig.key, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    rig.applied(rig.agents[i], rig.replicas[i], rig.key, {11, 11});
  }
  std::set<ReplicaId> sources;
  for (const char* name : {"d", "e", "f"}) {
    const auto joiner = rig.join(name);
    rig.wait(milliseconds(10));
    const auto assign = rig.last<Assign>(joiner);
    ASSERT_TRUE(assign);
    EXPECT_EQ(assign->source.kind, SourceKind::kPeer);
    sources.insert(assign->source.replica);
  }
  EXPECT_EQ(sources.size(), 3u);
}

}  // namespace
}  // namespace shoal::coordinator
