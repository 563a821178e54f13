// How trainers are started, waited for, killed and started again.
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using TrainersTest = AgentFixture;

TEST_F(TrainersTest, ATrainerThatExitsIsStartedAgainWithBackoff) {
  boot();
  Duration longest{};
  for (std::uint64_t generation = 1; generation < 20; ++generation) {
    step(TrainerExited{{0, generation}, {1, 0, ""}});
    const Instant died = now_;
    while (all<StartTrainer>().empty() && wake()) {
    }
    EXPECT_EQ(one<StartTrainer>().trainer.generation, generation + 1);
    EXPECT_GE(now_ - died, milliseconds(50));
    longest = std::max(longest, now_ - died);
    step(TrainerAttached{{1, 1}, {}});
  }
  EXPECT_GT(longest, seconds(5));
  EXPECT_LE(longest, seconds(30));
}

TEST_F(TrainersTest, ATrainerThatLivedLongStartsItsBackoffAnew) {
  boot();
  connect();
  attach(1);
  for (std::uint64_t generation = 1; generation < 10; ++generation) {
    step(TrainerExited{{0, generation}, {1, 0, ""}});
    while (all<StartTrainer>().empty() && wake()) {
    }
  }
  attach(0, 10);
  advance(seconds(60));
  step(TrainerExited{{0, 10}, {1, 0, ""}});
  const Instant died = now_;
  while (all<StartTrainer>().empty() && wake()) {
  }
  EXPECT_LE(now_ - died, milliseconds(500));
}

// Sums over trainers and their starts, which heartbeats report.
TEST_F(TrainersTest, WhatTheirPortsRefuseIsTold) {
  boot();
  connect();
  attach(0);
  attach(1);
  const auto foreign = [](std::int64_t count) {
    return std::vector<RefusalCount>{{RefusalReason::kForeign, count}};
  };
  trainer_says(0, PortRefusals{foreign(2)});
  trainer_says(0, PortRefusals{foreign(5)});
  trainer_says(1, PortRefusals{foreign(1)});
  advance(seconds(2));
  EXPECT_EQ(said<Heartbeat>().at(0).refusals, foreign(6));
  step(TrainerExited{{0, 1}, {1, 0, ""}});
  while (all<StartTrainer>().empty() && wake()) {
  }
  attach(0, 2);
  trainer_says(0, PortRefusals{foreign(2)}, 2);
  while (said<Heartbeat>().empty() && wake()) {
  }
  EXPECT_EQ(said<Heartbeat>().at(0).refusals, foreign(8));
}

TEST_F(TrainersTest, ATrainerThatDoesNotStartIsToldUntilItDoes) {
  boot();
  connect();
  attach(1);
  const auto failures = [&] {
    advance(seconds(3));
    return said<Heartbeat>().back().failures;
  };
  const auto starts = [&] {
    while (all<StartTrainer>().empty() && wake()) {
    }
  };
  step(TrainerExited{{0, 1}, {1, 0, "no driver"}});
  starts();
  EXPECT_THAT(failures(), IsEmpty()) << "once is by chance";
  step(TrainerExited{{0, 2}, {1, 0, "no driver"}});
  starts();
  EXPECT_EQ(failures(), (std::vector<DeviceFailure>{{0, "exited with code 1: no driver"}}));
  attach(0, 3);
  EXPECT_THAT(failures(), IsEmpty());
  step(TrainerExited{{0, 3}, {0, 9, ""}});
  EXPECT_THAT(failures(), IsEmpty()) << "it had started";
}

TEST_F(TrainersTest, ATrainerThatDoesNotAttachIsKilled) {
  boot();
  connect();
  attach(1);
  advance(seconds(60));
  EXPECT_TRUE(one<KillTrainer>().hard);
  EXPECT_EQ(one<KillTrainer>().trainer, (TrainerId{0, 1}));
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_EQ(agent_.view().trainers[0], TrainerState::kDown);
}

TEST_F(TrainersTest, ATrainerWhoseStreamEndedWithoutAReplicaIsKilled) {
  boot();
  connect();
  attach(0);
  step(TrainerDetached{{0, 1}});
  advance(seconds(1));
  EXPECT_EQ(one<KillTrainer>().trainer.slot, 0);
}

// It may hold the only state of a stage.
TEST_F(TrainersTest, ATrainerThatHangsIsKilledWhenItsReplicaIsLetGo) {
  serve();
  step(TrainerDetached{{0, 1}});
  hear(ToReplica<CloseRound>{ReplicaId(1), {key(1)}});
  EXPECT_THAT(all<SendTrainer>(), IsEmpty());
  advance(seconds(1));
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kUnresponsive);
  EXPECT_THAT(said<ReplicaFailed>()[0].detail, HasSubstr("its stream ended"));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
  advance(seconds(50));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  EXPECT_TRUE(one<KillTrainer>().hard);
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty()) << "it was released";
}

TEST_F(TrainersTest, ATrainerThatHangsIsNotWaitedForForEver) {
  serve();
  step(TrainerDetached{{0, 1}});
  advance(seconds(1));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
  advance(seconds(60));
  EXPECT_EQ(one<KillTrainer>().trainer.slot, 0);
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kTrainerExited);
}

TEST_F(TrainersTest, ATrainerThatExitsFailsItsReplicas) {
  serve();
  hear(assign(2, 1));
  step(TrainerExited{{0, 1}, {0, 11, "terminate called"}});
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].replica, ReplicaId(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kTrainerExited);
  EXPECT_EQ(said<ReplicaFailed>()[0].detail,
            "the trainer of device 0 was ended by SIGSEGV: terminate called");
  EXPECT_THAT(agent_.view().replicas, SizeIs(1));
}

// The trainer of device 0 begins again, and is killed once it holds a replica of this job.
struct KilledTrainers : TrainersTest {
  ReplicaFailure kill(bool for_memory) {
    step(TrainerExited{{0, generation_}, {.signal = 9, .for_memory = for_memory}});
    const auto failed = said<ReplicaFailed>();
    EXPECT_THAT(failed, SizeIs(1));
    detail_ = failed.empty() ? "" : failed[0].detail;
    return failed.empty() ? ReplicaFailure::kInternal : failed[0].failure;
  }
  void begin_again() {
    while (all<StartTrainer>().empty() && wake()) {
    }
    generation_ = one<StartTrainer>().trainer.generation;
    attach(0, generation_);
    hear(assign(++replica_));
    trainer_says(0, loaded(replica_), generation_);
  }
  std::uint64_t generation_ = 1, replica_ = 10;
  std::string detail_;
};

TEST_F(KilledTrainers, TwiceForMemoryAtTheSamePlaceRanOut) {
  serve();
  EXPECT_EQ(kill(true), ReplicaFailure::kTrainerExited) << "once may be another's fault";
  begin_again();
  EXPECT_EQ(kill(true), ReplicaFailure::kOutOfMemory);
  EXPECT_THAT(detail_, HasSubstr("was ended by SIGKILL, again, while the kernel ended processes"));
  begin_again();
  EXPECT_EQ(kill(true), ReplicaFailure::kTrainerExited) << "it counts anew";
}

TEST_F(KilledTrainers, BySomebodyElseDoNotRunOut) {
  serve();
  EXPECT_EQ(kill(true), ReplicaFailure::kTrainerExited);
  begin_again();
  EXPECT_EQ(kill(false), ReplicaFailure::kTrainerExited);
}

TEST_F(KilledTrainers, ARoundThatWasCommittedMeanwhileSaysThatItFits) {
  serve();
  EXPECT_EQ(kill(true), ReplicaFailure::kTrainerExited);
  begin_again();
  CommitRound commit;
  commit.record.key = key(1);
  hear(ToReplica<CommitRound>{ReplicaId(replica_), commit});
  trainer_says(0, FromReplica<Applied>{ReplicaId(replica_), {.key = key(1)}}, generation_);
  EXPECT_EQ(kill(true), ReplicaFailure::kTrainerExited);
}

TEST_F(TrainersTest, NewsOfAnOldTrainerIsDropped) {
  serve();
  step(TrainerExited{{0, 1}, {3, 0, ""}});
  EXPECT_EQ(said<ReplicaFailed>()[0].detail, "the trainer of device 0 exited with code 3");
  while (all<StartTrainer>().empty() && wake()) {
  }
  trainer_says(0, report(1, 1), 1);
  step(TrainerExited{{0, 1}, {3, 0, ""}});
  for (const std::int32_t slot : {-1, 2, 5}) step(TrainerExited{{slot, 1}, {3, 0, ""}});
  EXPECT_THAT(effects_, IsEmpty());
  EXPECT_EQ(agent_.view().trainers[0], TrainerState::kStarting);
}

TEST_F(TrainersTest, ATrainerOfAnotherProtocolIsNotUsed) {
  boot();
  connect();
  hear(assign(1));
  std::vector<ReplicaFailed> failed;
  for (std::uint64_t generation = 1; failed.empty() && generation < 100; ++generation) {
    step(TrainerAttached{{0, generation}, {0, {}, "", "", kProtocolVersionMin - 1}});
    EXPECT_TRUE(one<KillTrainer>().hard);
    EXPECT_THAT(one<KillTrainer>().because, HasSubstr("speaks protocol 3"));
    EXPECT_THAT(all<SendTrainer>(), IsEmpty());
    step(TrainerExited{{0, generation}, {}});
    while (all<StartTrainer>().empty() && failed.empty() && wake()) failed = said<ReplicaFailed>();
  }
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_THAT(
      failed[0].detail,
      HasSubstr("it speaks protocol 3, shoal-agent 0.1.0 speaks protocol 4 to 8 (install both"));
}

}  // namespace
}  // namespace shoal::agent
