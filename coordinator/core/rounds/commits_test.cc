// What the replicas of a stage must hold together: the same anchor and momentum after each outer
// step, and the same data to train on.
#include "coordinator/core/rounds/commits.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

struct Stepping : PairRig {
  explicit Stepping(const JobSpec& spec = small_job()) : PairRig(spec) {
    report(a, rep_a, key(1)), report(b, rep_b, key(1));
    vote(a, rep_a, key(1), 1), vote(b, rep_b, key(1), 1);
  }
  // What a replica says that took the step as it should.
  Applied honest(Digest anchor, Digest momentum = {9, 9}) {
    const Reduce& stage = state().rounds.at(key(1)).reduces.at(0);
    return {key(1), anchor, momentum, stage.base, stage.base_momentum, stage.average};
  }
  void say_applied(ConnectionId connection, ReplicaId replica, const Applied& applied) {
    say(connection, FromReplica<Applied>{replica, applied});
  }
};

TEST(CommonState, ATieGoesToWhoCanProveItsBase) {
  for (const std::uint64_t right : {1, 99}) {  // on either side of the wrong one
    Stepping rig;
    Applied wrong = rig.honest({50, 50});
    wrong.base = {6, 6};
    rig.say_applied(rig.a, rig.rep_a, wrong);
    rig.say_applied(rig.b, rig.rep_b, rig.honest({right, right}));
    EXPECT_EQ(rig.job(rig.id).stages.at(0).anchor, (Digest{right, right}));
    EXPECT_EQ(rig.replicas_.at(rig.rep_a).failure, ReplicaFailure::kDigestMismatch);
    EXPECT_TRUE(is_live(rig.state(), rig.rep_b));
  }
}

TEST(CommonState, AnotherMomentumOrAverageIsNoProof) {
  for (const bool momentum : {false, true}) {
    Stepping rig;
    Applied wrong = rig.honest({50, 50});
    (momentum ? wrong.base_momentum : wrong.average) = {7, 7};
    rig.say_applied(rig.a, rig.rep_a, rig.honest({99, 99}));
    rig.say_applied(rig.b, rig.rep_b, wrong);
    EXPECT_EQ(rig.job(rig.id).stages.at(0).anchor, (Digest{99, 99})) << momentum;
  }
}

TEST(CommonState, MomentaAreComparedLikeAnchors) {
  Stepping rig;
  Applied wrong = rig.honest({11, 11}, {1, 1});
  wrong.base_momentum = {7, 7};
  rig.say_applied(rig.a, rig.rep_a, wrong);
  rig.say_applied(rig.b, rig.rep_b, rig.honest({11, 11}));
  EXPECT_EQ(rig.job(rig.id).stages.at(0).momentum, (Digest{9, 9}));
  EXPECT_EQ(rig.replicas_.at(rig.rep_a).failure, ReplicaFailure::kDigestMismatch);
}

// The only one left began its step with another base.
TEST(CommonState, WhatOneProvedThatIsGoneStandsAgainstOneThatCannot) {
  for (const bool proved : {false, true}) {
    Stepping rig;
    Applied of_a = rig.honest({99, 99}), of_b = rig.honest({50, 50});
    (proved ? of_b : of_a).base = {6, 6};
    rig.say_applied(rig.a, rig.rep_a, of_a);
    rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
    rig.say_applied(rig.b, rig.rep_b, of_b);
    EXPECT_EQ(is_live(rig.state(), rig.rep_b), !proved);
    if (!proved) continue;
    EXPECT_EQ(rig.replicas_.at(rig.rep_b).failure, ReplicaFailure::kDigestMismatch);
  }
}

// Neither may be taken for the committed state: the stage begins again from what is stored, here
// from the initial parameters, and people are told.
TEST(CommonState, WithoutAProofTheStageGoesBackInTheOpen) {
  Stepping rig;
  rig.say_applied(rig.a, rig.rep_a, rig.honest({50, 50}));
  rig.say_applied(rig.b, rig.rep_b, rig.honest({51, 51}));
  EXPECT_FALSE(is_live(rig.state(), rig.rep_a));
  EXPECT_FALSE(is_live(rig.state(), rig.rep_b));
  for (const ReplicaId replica : {rig.rep_a, rig.rep_b}) {
    EXPECT_EQ(rig.replicas_.at(replica).failure, ReplicaFailure::kDigestMismatch);
    EXPECT_THAT(rig.replicas_.at(replica).detail, HasSubstr("none can prove"));
  }
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
}

JobSpec async_job() {
  JobSpec spec = small_job();
  change_sync(spec, [](SyncSpec& sync) { sync.algorithm = SyncAlgorithm::kAsync; });
  return spec;
}

// c joins from a while b has yet to take the step.
struct Joining : Stepping {
  Joining(Digest of_a, Digest of_c) : Stepping(async_job()) {
    say_applied(a, rep_a, honest(of_a));
    c = join("c");
    rep_c = last<Assign>(c).value().replica;
    load(c, of_c);
  }
  // load() says {8, 8}.
  Applied honest(Digest anchor) { return Stepping::honest(anchor, {8, 8}); }
  ConnectionId c;
  ReplicaId rep_c;
};

TEST(CommonState, NobodyJoinsBeforeAStageHasSettledWhatItHolds) {
  Stepping rig;
  rig.say_applied(rig.a, rig.rep_a, rig.honest({11, 11}));
  const ConnectionId c = rig.join("c");
  EXPECT_FALSE(rig.last<Assign>(c));
  rig.say_applied(rig.b, rig.rep_b, rig.honest({11, 11}));
  EXPECT_TRUE(rig.last<Assign>(c));
}

TEST(CommonState, AJoinerDoesNotSettleWhatItsStageHolds) {
  Joining rig({11, 11}, {11, 11});
  EXPECT_TRUE(is_live(rig.state(), rig.rep_c));
  EXPECT_FALSE(rig.job(rig.id).stages.at(0).anchor) << "b has yet to say what it holds";
}

TEST(CommonState, AJoinerMustHoldWhatItsSourceHolds) {
  Joining rig({11, 11}, {12, 12});
  EXPECT_EQ(rig.replicas_.at(rig.rep_c).failure, ReplicaFailure::kDigestMismatch);
}

TEST(CommonState, AJoinerGoesWithItsSource) {
  Joining rig({50, 50}, {50, 50});
  rig.say_applied(rig.b, rig.rep_b, rig.honest({99, 99}));  // nobody can tell who is right
  EXPECT_FALSE(is_live(rig.state(), rig.rep_a));
  EXPECT_FALSE(is_live(rig.state(), rig.rep_c));
  EXPECT_FALSE(rig.job(rig.id).stages.at(0).anchor);
}

TEST(CommonState, JoinersStandForThoseWhoTookTheStepAndAreGone) {
  Joining rig({11, 11}, {11, 11});
  rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  EXPECT_EQ(rig.job(rig.id).stages.at(0).anchor, (Digest{11, 11}));
}

TEST(Evaluation, ASliceOfOneThatIsGoneWaitsForTheFirstToHoldTheRound) {
  Stepping rig;
  rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kOutOfMemory, ""});
  EXPECT_FALSE(rig.last<ToReplica<Evaluate>>(rig.b)) << "b does not hold the round yet";
  rig.say_applied(rig.b, rig.rep_b, rig.honest({11, 11}));
  const auto told = rig.last<ToReplica<Evaluate>>(rig.b);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->body.slice.slice, 0) << "that of a";
}

struct Readers : Rig {
  ReplicaId load_with(ConnectionId connection, Digest data) {
    const Assign assign = *last<Assign>(connection);
    say(connection, Loaded{.replica = assign.replica,
                           .key = assign.source.key,
                           .anchor = {1, 2},
                           .momentum = {3, 4},
                           .value_count = 1000,
                           .address = "127.0.0.1:7100",
                           .data = data});
    return assign.replica;
  }
};

TEST(SameData, AHostWithOtherDataIsRefusedByName) {
  Readers rig;
  const auto a = rig.join("a"), b = rig.join("b");
  const JobId id = *rig.submit(small_job());
  const ReplicaId first = rig.load_with(a, {1, 1}), other = rig.load_with(b, {2, 2});
  EXPECT_TRUE(is_live(rig.state(), first));
  EXPECT_EQ(rig.replicas_.at(other).failure, ReplicaFailure::kDataInvalid);
  EXPECT_THAT(rig.replicas_.at(other).detail,
              testing::AllOf(HasSubstr("data.train on b is another file than that of a"),
                             HasSubstr(to_hex({2, 2})), HasSubstr("put the same file there")));
  EXPECT_EQ(
      std::ranges::count(rig.events, std::string(event_kind::kReplicaFailed), &EventRecord::kind),
      1);
  EXPECT_EQ(rig.job(id).data, (Digest{1, 1}));
  EXPECT_EQ(rig.job(id).failures_in_row, 0);
  EXPECT_EQ(rig.job(id).phase, JobPhase::kGathering);
  EXPECT_EQ(rig.job(id).reason, JobReason::kDataInvalid) << "what it waits for is to be mended";
  EXPECT_THAT(rig.job(id).detail, HasSubstr("1 of 2 replicas (swarm.min_replicas); data.train on"));
}

TEST(SameData, AProgramReadsOnEveryStage) {
  Readers rig;
  JobSpec spec = small_job();
  spec.model.layers = 2;
  spec.swarm.stages = 2;
  spec.swarm.min_replicas = 1;
  spec.trainer = {TrainerKind::kPython, "train.py"};
  rig.programs.beneath_root = true;
  rig.adopt(spec);
  const auto a = rig.join("a"), b = rig.join("b");
  rig.wait(seconds(3));
  ASSERT_TRUE(rig.last<Assign>(a) && rig.last<Assign>(b));
  const bool a_is_first = rig.last<Assign>(a)->stage == 0;
  ASSERT_NE(a_is_first, rig.last<Assign>(b)->stage == 0);
  rig.load_with(a_is_first ? b : a, {1, 1});
  const ReplicaId first = rig.load_with(a_is_first ? a : b, {2, 2});
  EXPECT_EQ(rig.replicas_.at(first).failure, ReplicaFailure::kDataInvalid);
  EXPECT_THAT(rig.replicas_.at(first).detail, HasSubstr("or cuts its model otherwise"));
}

// Nothing was trained with it: the file on the first host was the wrong one.
TEST(SameData, BeforeAnythingIsCommittedItIsForgottenWithItsLastReader) {
  Readers rig;
  const auto a = rig.join("a"), b = rig.join("b");
  const JobId id = *rig.submit(small_job());
  const ReplicaId first = rig.load_with(a, {1, 1});
  rig.say(a, ReplicaFailed{first, ReplicaFailure::kTrainerExited, ""});
  const ReplicaId second = rig.load_with(b, {2, 2});
  EXPECT_TRUE(is_live(rig.state(), second));
  EXPECT_EQ(rig.job(id).data, (Digest{2, 2}));
}

// a trains and is out of reach; b, which has another file, is asked to take its place.
struct ReaderIsAbsent : Readers {
  ReaderIsAbsent() {
    JobSpec spec = small_job();
    spec.swarm.min_replicas = 1;
    const auto a = join("a");
    id = *submit(spec);
    first = load_with(a, {1, 1});
    wait(seconds(20));
    b = join("b");
    load_b();
  }
  void load_b() { second = load_with(b, {2, 2}); }
  ReplicaState first_is() const { return state().replicas.at(first).state; }
  void stay(int beats) {
    for (int i = 0; i < beats; ++i) wait(seconds(2)), say(b, Heartbeat{});
  }
  void come_back() {
    const ConnectionId a = join("a", Incarnation{1}, {first});
    say(a, Loaded{.replica = first,
                  .key = {id, 0, 0},
                  .anchor = {1, 2},
                  .momentum = {3, 4},
                  .value_count = 1000,
                  .address = "127.0.0.1:7100",
                  .data = {1, 1}});
  }
  JobId id;
  ConnectionId b;
  ReplicaId first, second;
};

TEST(SameData, ItIsKeptWhileItsReaderIsOutOfReach) {
  ReaderIsAbsent rig;
  ASSERT_EQ(rig.first_is(), ReplicaState::kAbsent);
  EXPECT_EQ(rig.replicas_.at(rig.second).failure, ReplicaFailure::kDataInvalid);
  rig.stay(5);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled) << "nobody else can load it, yet";
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kWaitingForAbsent);
  rig.come_back();
  EXPECT_EQ(rig.first_is(), ReplicaState::kServing);
  EXPECT_EQ(rig.job(rig.id).data, (Digest{1, 1}));
}

TEST(SameData, AReaderThatIsBackTooLateIsJudgedAgain) {
  ReaderIsAbsent rig;
  const ReplicaId refused = rig.second;
  rig.stay(60);
  ASSERT_NE(rig.last<Assign>(rig.b)->replica, refused) << "a was waited for in vain";
  rig.load_b();
  EXPECT_TRUE(is_live(rig.state(), rig.second));
  EXPECT_EQ(rig.job(rig.id).data, (Digest{2, 2}));
  ASSERT_TRUE(is_live(rig.state(), rig.first)) << "nothing is committed yet";
  rig.come_back();
  EXPECT_EQ(rig.replicas_.at(rig.first).failure, ReplicaFailure::kDataInvalid);
}

// Nobody but a person can mend that, so the job says what is wrong.
TEST(SameData, AJobThatLacksReplicasForItSaysSo) {
  Readers rig;
  ConnectionId a = rig.join("a"), b = rig.join("b");
  const JobId id = *rig.submit(small_job());
  const ReplicaId rep_a = rig.load_with(a, {1, 1}), rep_b = rig.load_with(b, {1, 1});
  rig.wait(seconds(3));
  const RoundKey key{id, 0, 1};
  rig.report(a, rep_a, key), rig.report(b, rep_b, key);
  rig.vote(a, rep_a, key, 1), rig.vote(b, rep_b, key, 1);
  rig.applied(a, rep_a, key, {11, 11}), rig.applied(b, rep_b, key, {11, 11});
  rig.say(b, Goodbye{"stopped"});
  const ConnectionId c = rig.join("c");
  const Assign assign = *rig.last<Assign>(c);
  rig.say(c, Loaded{.replica = assign.replica,
                    .key = assign.source.key,
                    .anchor = {11, 11},
                    .momentum = {9, 9},
                    .value_count = 1000,
                    .address = "127.0.0.1:7103",
                    .data = {2, 2}});
  EXPECT_EQ(rig.job(id).phase, JobPhase::kStalled);
  EXPECT_EQ(rig.job(id).reason, JobReason::kDataInvalid);
  EXPECT_THAT(rig.job(id).detail, HasSubstr("1 of 2 replicas; data.train on c is another file"));
}

}  // namespace
}  // namespace shoal::coordinator
