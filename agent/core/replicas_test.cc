// What becomes of a replica here: given to its trainer, waited for, released; what is said of it.
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using ReplicasTest = AgentFixture;

TEST_F(ReplicasTest, AnAssignGoesToItsTrainerOnce) {
  boot();
  connect();
  attach(0);
  hear(assign(1));
  ASSERT_THAT(told<LoadReplica>(0), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(0)[0].assign, assign(1));
  hear(assign(1));
  EXPECT_THAT(effects_, IsEmpty());
}

TEST_F(ReplicasTest, ATrainerGetsTheNameOfTheJobFromTheSignedRecord) {
  boot();
  connect();
  attach(0);
  attach(1);
  Assign signed_one = assign(1, 0), unsigned_one = assign(2, 1);
  signed_one.spec.name = unsigned_one.spec.name = "";
  signed_one.record.proof.job_name = "kjv";
  hear(signed_one);
  ASSERT_THAT(told<LoadReplica>(0), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(0)[0].assign.spec.name, "kjv");
  hear(unsigned_one);
  ASSERT_THAT(told<LoadReplica>(1), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(1)[0].assign.spec.name, "job-1");
}

// A joiner that is behind is named the newer round, also once it has said that it loaded; what it
// holds then is kept with the record of that round.
TEST_F(ReplicasTest, AJoinersAssignIsPassedOnAgain) {
  boot();
  connect();
  attach(0);
  Assign join = assign(1);
  join.source.kind = SourceKind::kPeer;
  join.source.key = join.record.key = key(3);
  hear(join);
  trainer_says(0, loaded(1));
  join.source.key = join.record.key = key(4);
  join.sources = {{ReplicaId(7), "10.0.0.7:7100"}};
  hear(join);
  ASSERT_THAT(told<LoadReplica>(0), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(0)[0].assign, join);
  Loaded newer = loaded(1);
  newer.key = key(4);
  trainer_says(0, newer);
  const std::vector<HeldReplica> held = reconnect().hello.replicas;
  ASSERT_THAT(held, SizeIs(1));
  EXPECT_EQ(held[0].key, key(4));
  EXPECT_EQ(held[0].address, newer.address);
}

// The repetition crosses the trainer's word: it would begin the replica again.
TEST_F(ReplicasTest, WhatFailedAfterARepeatedLoadIsLetGo) {
  boot();
  connect();
  attach(0);
  Assign join = assign(1);
  join.source.kind = SourceKind::kPeer;
  hear(join);
  hear(join);
  trainer_says(0, ReplicaFailed{ReplicaId(1), ReplicaFailure::kSourceLost, "gone"});
  EXPECT_THAT(told<Release>(0), SizeIs(1));
  hear(assign(2));
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty());
  trainer_says(0, TrainerReady{});
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(ReplicasTest, AnAssignWaitsForItsTrainer) {
  boot();
  connect();
  hear(assign(1));
  EXPECT_THAT(effects_, IsEmpty());
  attach(0);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(ReplicasTest, AnAssignIsNotSaidToATrainerWhoseStreamEnded) {
  boot();
  connect();
  attach(0);
  step(TrainerDetached{{0, 1}});
  hear(assign(1));
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty());
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  while (all<StartTrainer>().empty()) ASSERT_TRUE(wake());
  attach(0, 2);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1)) << "the next one hears of it";
}

TEST_F(ReplicasTest, AnAssignDoesNotWaitForever) {
  boot();
  connect();
  hear(assign(1));
  step(TrainerExited{{0, 1}, {1, 0, "no libtorch"}});
  std::vector<ReplicaFailed> failures;
  while (failures.empty() && wake()) failures = said<ReplicaFailed>();
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_THAT(failures[0].detail, HasSubstr("no libtorch"));
  EXPECT_LE(now_, from_unix_ms(1'000'000) + seconds(90));
  hear(assign(1));
  EXPECT_THAT(agent_.view().replicas, IsEmpty()) << "a late repetition does not revive it";
}

TEST_F(ReplicasTest, AnAssignForNoDeviceFails) {
  boot();
  connect();
  hear(assign(1, 2));
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_THAT(said<ReplicaFailed>()[0].detail, HasSubstr("no device 2"));
}

TEST_F(ReplicasTest, ATrainerThatDoesNotLoadIsKilled) {
  boot();
  connect();
  attach(0);
  attach(1);
  hear(assign(1));
  std::vector<KillTrainer> kills;
  while (kills.empty() && wake()) kills = all<KillTrainer>();
  EXPECT_EQ(kills[0].trainer.slot, 0);
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_THAT(said<ReplicaFailed>(), SizeIs(1));
}

TEST_F(ReplicasTest, ALoadThatMovesIsNotKilledHoweverLongItTakes) {
  boot();
  connect();
  attach(0);
  attach(1);
  hear(assign(1));
  for (std::int64_t done = 1; done < 100; ++done) {
    advance(seconds(100));
    ASSERT_THAT(all<KillTrainer>(), IsEmpty());
    trainer_says(0, LoadProgress{ReplicaId(1), Bytes(done), Bytes(100)});
    EXPECT_THAT(said<LoadProgress>(), SizeIs(1));
  }
  while (all<KillTrainer>().empty() && wake()) {
  }
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("makes no progress"));
}

TEST_F(ReplicasTest, ALoadThatStandsStillWhileTheAgentStopsIsLeftToTheStop) {
  boot();
  connect();
  attach(0);
  attach(1);
  hear(assign(1));
  step(StopRequested{});
  step(TrainerExited{{0, 1}, {0, 0, ""}});
  for (int i = 0; i < 20 && wake(); ++i) {
  }
  for (const KillTrainer& kill : all<KillTrainer>()) EXPECT_NE(kill.trainer.slot, 0);
}

// Its compute thread hangs: it hears no Release.
TEST_F(ReplicasTest, ATrainerThatDoesNotLetGoIsKilled) {
  serve();
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  EXPECT_THAT(told<Release>(0), SizeIs(1));
  hear(assign(2));
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty()) << "it may never hear of it";
  const Instant released = now_;
  while (all<KillTrainer>().empty() && wake()) {
  }
  EXPECT_EQ(now_ - released, test_options().release_limit);
  EXPECT_TRUE(one<KillTrainer>().hard);
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("did not release"));
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty()) << "the next one waits for the next process";
  while (all<StartTrainer>().empty() && wake()) {
  }
  attach(0, 2);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(ReplicasTest, ATrainerThatIsReadyAgainGetsTheNextReplica) {
  serve();
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  hear(assign(2));
  trainer_says(0, TrainerReady{});
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
  advance(test_options().release_limit);
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
}

TEST_F(ReplicasTest, RoundMessagesPassInBothDirections) {
  serve();
  const ToReplica<OpenRound> open{ReplicaId(1), {key(1), Steps(0), Steps(50), {{0, 600}}}};
  hear(open);
  EXPECT_THAT(told<ToReplica<OpenRound>>(0), ElementsAre(open));
  trainer_says(0, report(1, 1));
  EXPECT_THAT(said<FromReplica<RoundReport>>(), SizeIs(1));
}

TEST_F(ReplicasTest, MessagesForAnUnknownReplicaAreFromThePast) {
  serve();
  hear(ToReplica<CloseRound>{ReplicaId(9), {key(1)}});
  EXPECT_THAT(effects_, IsEmpty());
  trainer_says(0, report(9, 1));
  EXPECT_THAT(effects_, IsEmpty());
  trainer_says(1, report(1, 1));
  EXPECT_THAT(effects_, IsEmpty()) << "another device's replica";
  EXPECT_EQ(agent_.view().messages_dropped, 3);
}

TEST_F(ReplicasTest, ReleaseIsForwardedAndRemembered) {
  serve();
  hear(Release{ReplicaId(1), ReleaseReason::kCompleted});
  EXPECT_THAT(told<Release>(0), ElementsAre(Release{ReplicaId(1), ReleaseReason::kCompleted}));
  EXPECT_EQ(agent_.view().messages_kept, 0);
  hear(assign(1));
  EXPECT_THAT(effects_, IsEmpty());
  hear(Release{ReplicaId(2), ReleaseReason::kCancelled});  // overtook its Assign
  hear(assign(2));
  EXPECT_THAT(effects_, IsEmpty());
}

TEST_F(ReplicasTest, AFailureOfTheTrainerIsPassedOn) {
  serve();
  const ReplicaFailed failed{ReplicaId(1), ReplicaFailure::kOutOfMemory, "80 GiB wanted"};
  trainer_says(0, failed);
  EXPECT_THAT(said<ReplicaFailed>(), ElementsAre(failed));
  EXPECT_THAT(agent_.view().replicas, IsEmpty());
}

}  // namespace
}  // namespace shoal::agent
