// Trainers that the last start of the daemon left, those that lost their stream, and the hand-over.
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class AdoptionTest : public AgentFixture {
 protected:
  explicit AdoptionTest(Options options = test_options()) : AgentFixture(std::move(options)) {}

  // The roster names the replica, if there is one.
  static LeftTrainer left(std::int32_t slot, std::int32_t device, std::uint64_t replica = 0) {
    const JobId job(replica == 0 ? 0 : 1);
    return {{slot, 4}, device, TrainerIdentity{{}, ReplicaId(replica), job, 0}};
  }
  static LeftTrainer left_by_an_earlier_version(std::int32_t slot) { return {{slot, 4}, slot, {}}; }
  static Assign assign_program(std::uint64_t replica) {
    Assign message = assign(replica);
    message.spec.trainer = {TrainerKind::kPython, "train.py", "sha256:" + std::string(64, 'c')};
    return message;
  }
  void boot_with(std::vector<LeftTrainer> trainers) {
    step(Booted{std::move(trainers)});
    EXPECT_THAT(all<OpenLink>(), IsEmpty());
  }
  void attach_again(std::int32_t slot, std::optional<Assign> holds, std::uint64_t generation = 4,
                    std::int32_t protocol = kProtocolVersion) {
    const Device measured{slot, DeviceKind::kCpu, "cpu", kDeviceMemory, 50, false};
    TrainerReady ready{slot, measured, "10.0.0.4:7100", "libtorch"};
    ready.protocol = protocol;
    ready.holds = std::move(holds);
    step(TrainerAttached{{slot, generation}, std::move(ready)});
  }
  void expect_killed_for(const Assign& pretended) {
    boot_with({left(0, 0, 1), left(1, 1)});
    attach_again(0, pretended);
    EXPECT_THAT(one<KillTrainer>().because, HasSubstr("another job, stage or program"));
    EXPECT_THAT(agent_.view().replicas, IsEmpty());
  }
  std::vector<std::uint64_t> named(const OpenLink& open) const {
    std::vector<std::uint64_t> ids;
    for (const HeldReplica& held : open.hello.replicas) ids.push_back(held.replica.n);
    return ids;
  }
};

TEST_F(AdoptionTest, TheFirstHelloNamesWhatLeftTrainersHold) {
  boot_with({left(0, 0, 1), left(1, 1)});
  EXPECT_THAT(all<StartTrainer>(), IsEmpty());
  attach_again(0, assign(1));
  EXPECT_THAT(all<OpenLink>(), IsEmpty()) << "what it holds is said next";
  trainer_says(0, loaded(1), 4);
  EXPECT_THAT(all<OpenLink>(), IsEmpty()) << "the other one has not come";
  attach_again(1, std::nullopt);
  const auto open = one<OpenLink>();
  EXPECT_THAT(named(open), ElementsAre(1));
  EXPECT_EQ(open.hello.incarnation.n, 0u);
  EXPECT_EQ(open.hello.devices[0].gflops, 50) << "as it was measured";
  link_ = open.link;
  connect({ReplicaId(1)});
  EXPECT_THAT(said<Loaded>(), ElementsAre(loaded(1)));
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty());
  const ToReplica<OpenRound> round{ReplicaId(1), {key(1), Steps(0), Steps(50), {{0, 600}}}};
  hear(round);
  EXPECT_THAT(told<ToReplica<OpenRound>>(0), ElementsAre(round));
  EXPECT_EQ(agent_.view().replicas[0].state, ReplicaState::kServing);
}

// The agent that left it has told what it had refused by then.
TEST_F(AdoptionTest, WhatALeftTrainerHasRefusedCountsFromNowOn) {
  boot_with({left(0, 0), left(1, 1)});
  attach_again(0, std::nullopt);
  attach_again(1, std::nullopt);
  link_ = one<OpenLink>().link;
  connect();
  trainer_says(0, PortRefusals{{{RefusalReason::kForeign, 70}}}, 4);
  trainer_says(0, PortRefusals{{{RefusalReason::kForeign, 72}}}, 4);
  advance(seconds(2));
  EXPECT_THAT(said<Heartbeat>().at(0).refusals,
              ElementsAre(RefusalCount{RefusalReason::kForeign, 2}));
}

TEST_F(AdoptionTest, DevicesWithoutALeftTrainerGetOneAtOnce) {
  boot_with({left(1, 1)});
  ASSERT_THAT(all<StartTrainer>(), SizeIs(1));
  EXPECT_EQ(one<StartTrainer>().trainer, (TrainerId{0, 1}));
  attach_again(1, std::nullopt);
  EXPECT_THAT(all<OpenLink>(), SizeIs(1)) << "nobody waits for one that was started just now";
}

class VacantNumberTest : public AdoptionTest {
 protected:
  static Options without_device_0() {
    Options options = test_options();
    options.vacant = {0};
    return options;
  }
  VacantNumberTest() : AdoptionTest(without_device_0()) {}
};

TEST_F(VacantNumberTest, HasNoTrainerAndIsNotTold) {
  boot_with({left(1, 1, 2)});
  EXPECT_THAT(all<StartTrainer>(), IsEmpty());
  attach_again(1, assign(2, 1));
  trainer_says(1, loaded(2), 4);
  const auto open = one<OpenLink>();
  ASSERT_THAT(open.hello.devices, SizeIs(1));
  EXPECT_EQ(open.hello.devices[0].index, 1);
  EXPECT_EQ(open.hello.devices[0].uuid, "cpu-1");
  EXPECT_THAT(named(open), ElementsAre(2));
  link_ = open.link;
  connect({ReplicaId(2)});
  EXPECT_THAT(said<DeviceMeasured>(), IsEmpty()) << "the hello has said it";
  hear(assign(3, 0));
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].detail, "this agent has no device 0");
}

TEST_F(VacantNumberTest, EndsATrainerThatHadIt) {
  step(Booted{{left(0, 0, 1)}});
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("no such device"));
  EXPECT_EQ(one<StartTrainer>().trainer.slot, 1);
}

TEST_F(AdoptionTest, OneThatDoesNotComeIsKilledAndTheLinkIsOpened) {
  boot_with({left(0, 0), left(1, 1, 2)});
  attach_again(1, assign(2, 1));
  trainer_says(1, loaded(2), 4);
  advance(milliseconds(4'999));
  EXPECT_THAT(effects_, IsEmpty());
  advance(milliseconds(1));
  EXPECT_THAT(named(one<OpenLink>()), ElementsAre(2));
  EXPECT_EQ(one<KillTrainer>().trainer, (TrainerId{0, 4}));
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("did not attach again within 5 s"));
  step(TrainerExited{{0, 4}, {.known = false}});
  while (all<StartTrainer>().empty()) ASSERT_TRUE(wake());
  EXPECT_EQ(one<StartTrainer>().trainer, (TrainerId{0, 5}));
}

TEST_F(AdoptionTest, OneThatEndsIsNotWaitedFor) {
  boot_with({left(0, 0)});
  attach(1);
  step(TrainerExited{{0, 4}, {.known = false}});
  EXPECT_THAT(named(one<OpenLink>()), IsEmpty());
}

TEST_F(AdoptionTest, OneThatEndsWithItsReplicaIsSaidSo) {
  boot_with({left(0, 0, 1), left(1, 1)});
  attach_again(0, assign(1));
  trainer_says(0, loaded(1), 4);
  step(TrainerExited{{0, 4}, {.known = false}});
  attach_again(1, std::nullopt);
  link_ = one<OpenLink>().link;
  connect();
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].detail, "the trainer of device 0 ended");
}

TEST_F(AdoptionTest, OneThatStillLoadsIsWaitedForAndNamed) {
  boot_with({left(0, 0, 1)});
  attach_again(0, assign(1));
  while (all<OpenLink>().empty()) ASSERT_TRUE(wake());
  const auto open = one<OpenLink>();
  EXPECT_THAT(named(open), ElementsAre(1));
  link_ = open.link;
  connect({ReplicaId(1)});
  EXPECT_EQ(agent_.view().replicas[0].state, ReplicaState::kLoading);
  trainer_says(0, loaded(1), 4);
  EXPECT_THAT(said<Loaded>(), SizeIs(1));
}

TEST_F(AdoptionTest, FurtherTrainersOfADeviceComeBackIntoTheirSlots) {
  boot_with({left(0, 0, 1), left(3, 1, 2)});
  attach_again(0, assign(1));
  trainer_says(0, loaded(1), 4);
  Assign beside = assign(2, 1);
  attach_again(3, beside);
  EXPECT_EQ(agent_.view().trainers[3], TrainerState::kReady);
  trainer_says(3, loaded(2), 4);
  link_ = one<OpenLink>().link;
  connect({ReplicaId(1), ReplicaId(2)});
  hear(Release{ReplicaId(2), ReleaseReason::kCompleted});
  EXPECT_THAT(told<StopTrainer>(3), SizeIs(1)) << "as one of this start";
}

TEST_F(AdoptionTest, OneOfAnotherProtocolIsKilled) {
  boot_with({left(0, 0)});
  attach_again(0, assign(1), 4, kProtocolVersionMin - 1);
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("speaks protocol"));
  EXPECT_THAT(agent_.view().replicas, IsEmpty());
  EXPECT_THAT(all<OpenLink>(), SizeIs(1));
}

TEST_F(AdoptionTest, ATrainerOfProtocol4IsReplacedBeforeItLoadsACheckpoint) {
  boot_with({left(0, 0, 1), left(1, 1)});
  attach_again(0, assign(1), 4, 4);
  trainer_says(0, loaded(1), 4);
  attach_again(1, std::nullopt);
  link_ = one<OpenLink>().link;
  connect({ReplicaId(1)});
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  trainer_says(0, TrainerReady{}, 4);
  Assign again = assign(2);
  again.source = {.kind = SourceKind::kCheckpoint, .checkpoint = CheckpointId(5)};
  hear(again);
  EXPECT_THAT(told<StopTrainer>(0), SizeIs(1));
  step(CheckpointFetched{one<FetchCheckpoint>().part});
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty());
  step(TrainerExited{{0, 4}, {.known = true}});
  while (all<StartTrainer>().empty()) ASSERT_TRUE(wake());
  attach(0, one<StartTrainer>().trainer.generation);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(AdoptionTest, OneThatFitsNoDeviceIsKilled) {
  step(Booted{{left(0, 1), left(5, 2), left(-1, 0), left(99, 0)}});
  EXPECT_THAT(all<KillTrainer>(), SizeIs(4));
  EXPECT_THAT(all<StartTrainer>(), SizeIs(2));
  EXPECT_THAT(all<OpenLink>(), SizeIs(1));
}

TEST_F(AdoptionTest, WhatTheCoordinatorDoesNotKeepIsReleased) {
  boot_with({left(0, 0, 1)});
  attach_again(0, assign(1));
  trainer_says(0, loaded(1), 4);
  link_ = one<OpenLink>().link;
  connect();
  EXPECT_THAT(told<Release>(0), ElementsAre(Release{ReplicaId(1), ReleaseReason::kReplaced}));
}

TEST_F(AdoptionTest, AStopWhileTheyAreAwaitedEndsThem) {
  boot_with({left(0, 0)});
  step(StopRequested{});
  EXPECT_THAT(all<KillTrainer>(), SizeIs(2));
  step(TrainerExited{{0, 4}, {.known = false}});
  step(TrainerExited{{1, 1}, {0, 15, ""}});
  EXPECT_EQ(one<ExitProcess>().code, 0);
}

// ---- which replica a process is: what the agent gave it, never what it says

TEST_F(AdoptionTest, OneThatSaysItIsAnotherReplicaIsKilledAndCounted) {
  boot_with({left(0, 0, 1), left(1, 1, 2)});
  attach_again(0, assign(1));
  trainer_says(0, loaded(1), 4);
  Assign pretended = assign(1);
  pretended.device = 1;
  attach_again(1, pretended);
  EXPECT_EQ(one<KillTrainer>().trainer, (TrainerId{1, 4}));
  EXPECT_EQ(one<KillTrainer>().because, "it says that it is rep_1, and this agent gave it rep_2");
  EXPECT_THAT(all<IdentifyTrainer>(), IsEmpty());
  ASSERT_THAT(agent_.view().replicas, SizeIs(1)) << "nothing of it was taken over";
  EXPECT_EQ(agent_.view().replicas[0].slot, 0);
  link_ = one<OpenLink>().link;
  connect({ReplicaId(1)});
  advance(seconds(2));
  EXPECT_THAT(said<Heartbeat>().at(0).refusals,
              ElementsAre(RefusalCount{RefusalReason::kOtherMember, 1}));
}

TEST_F(AdoptionTest, OneThatNamesAnotherJobForItsReplicaIsKilled) {
  Assign pretended = assign(1);
  pretended.job = JobId(2);
  expect_killed_for(pretended);
}

TEST_F(AdoptionTest, OneThatNamesAnotherStageForItsReplicaIsKilled) {
  Assign pretended = assign(1);
  pretended.stage = 1;
  expect_killed_for(pretended);
}

TEST_F(AdoptionTest, OneThatNamesAnotherProgramForItsReplicaIsKilled) {
  expect_killed_for(assign_program(1));
}

TEST_F(AdoptionTest, AProcessThatWasStartedJustNowHoldsNothing) {
  boot();
  connect();
  Assign pretended = assign(3);
  attach_again(0, pretended, 1);
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("this agent gave it no replica"));
}

TEST_F(AdoptionTest, OneThatSaysItIsAnotherReplicaAfterItsStreamBrokeIsKilled) {
  serve();
  step(TrainerDetached{{0, 1}});
  attach_again(0, assign(2), 1);
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("says that it is rep_2"));
}

// As the device's trainer it would be given the replicas of other jobs.
TEST_F(AdoptionTest, AProgramThatWasLeftDoesNotBecomeTheTrainerOfItsDevice) {
  LeftTrainer program = left(0, 0, 1);
  program.identity->runs = assign_program(1).spec.trainer;
  boot_with({program});
  attach(1);
  attach_again(0, std::nullopt);
  EXPECT_THAT(told<StopTrainer>(0), SizeIs(1));
  link_ = one<OpenLink>().link;
  connect();
  hear(assign(2));
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty());
  step(TrainerExited{{0, 4}, {.known = false}});
  while (all<StartTrainer>().empty()) ASSERT_TRUE(wake());
  EXPECT_EQ(one<StartTrainer>().identity.runs, TrainerSpec());
}

TEST_F(AdoptionTest, ATrainerIsIdentifiedBeforeItLoads) {
  boot();
  connect();
  attach(0);
  hear(assign(1));
  const TrainerIdentity expected{{}, ReplicaId(1), JobId(1), 0};
  EXPECT_EQ(one<IdentifyTrainer>().identity, expected);
  const auto is_identify = [](const Effect& e) {
    return std::holds_alternative<IdentifyTrainer>(e);
  };
  const auto is_load = [](const Effect& e) { return std::holds_alternative<SendTrainer>(e); };
  EXPECT_LT(std::ranges::find_if(effects_, is_identify), std::ranges::find_if(effects_, is_load));
}

TEST_F(AdoptionTest, ARequestForTheCertificateOfAnotherReplicaIsCounted) {
  serve();
  step(TrainerOverstepped{{0, 1}, ReplicaId(9)});
  step(TrainerOverstepped{{0, 7}, ReplicaId(9)});
  advance(seconds(2));
  EXPECT_THAT(said<Heartbeat>().at(0).refusals,
              ElementsAre(RefusalCount{RefusalReason::kOtherMember, 1}))
      << "of the processes that are there";
}

// ---- trainers of a version whose roster does not tell what they are

TEST_F(AdoptionTest, AnEarlierVersionsTrainerIsIdentifiedOnceTheCoordinatorKeepsIt) {
  boot_with({left_by_an_earlier_version(0), left(1, 1)});
  attach_again(1, std::nullopt);
  attach_again(0, assign(1));
  EXPECT_THAT(all<IdentifyTrainer>(), IsEmpty());
  trainer_says(0, loaded(1), 4);
  link_ = one<OpenLink>().link;
  connect({ReplicaId(1)});
  EXPECT_EQ(one<IdentifyTrainer>().identity.replica, ReplicaId(1));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
}

TEST_F(AdoptionTest, AnEarlierVersionsTrainerThatTheCoordinatorDoesNotKeepIsKilled) {
  boot_with({left_by_an_earlier_version(0), left(1, 1)});
  attach_again(1, std::nullopt);
  attach_again(0, assign(1));
  trainer_says(0, loaded(1), 4);
  link_ = one<OpenLink>().link;
  connect();
  EXPECT_EQ(one<KillTrainer>().trainer, (TrainerId{0, 4}));
  EXPECT_THAT(all<IdentifyTrainer>(), IsEmpty());
}

TEST_F(AdoptionTest, OfTwoOfAnEarlierVersionThatSayTheSameNeitherIsBelieved) {
  boot_with({left_by_an_earlier_version(0), left_by_an_earlier_version(1)});
  attach_again(0, assign(1));
  attach_again(1, assign(1, 1));
  EXPECT_THAT(all<KillTrainer>(), SizeIs(2));
}

TEST_F(AdoptionTest, OneOfAnEarlierVersionThatHoldsNothingIsReplaced) {
  boot_with({left_by_an_earlier_version(0), left(1, 1)});
  attach_again(0, std::nullopt);
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("an earlier version"));
}

// ---- a stream that broke while the daemon lives

TEST_F(AdoptionTest, AStreamThatComesAgainInTimeSavesTheTrainer) {
  serve();
  step(TrainerDetached{{0, 1}});
  attach_again(0, assign(1), 1);
  EXPECT_THAT(all<CloseLink>(), SizeIs(1));
  const auto open = one<OpenLink>();
  EXPECT_THAT(named(open), ElementsAre(1)) << "the coordinator repeats what was said meanwhile";
  link_ = open.link;
  connect({ReplicaId(1)});
  advance(seconds(3));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
}

TEST_F(AdoptionTest, ATrainerThatHungAndComesAgainGoesOn) {
  serve();
  step(TrainerDetached{{0, 1}});
  advance(seconds(30));
  attach_again(0, assign(1), 1);
  const auto open = one<OpenLink>();
  EXPECT_THAT(named(open), ElementsAre(1));
  link_ = open.link;
  connect({ReplicaId(1)});
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty()) << "it does not hang any more";
  advance(seconds(3700));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
}

TEST_F(AdoptionTest, ALoadThatWasOnItsWayIsSaidAgain) {
  boot();
  connect();
  attach(0);
  attach(1);
  hear(assign(1));
  step(TrainerDetached{{0, 1}});
  attach_again(0, std::nullopt, 1);
  ASSERT_THAT(told<LoadReplica>(0), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(0)[0].assign, assign(1));
}

TEST_F(AdoptionTest, AReplicaThatWasLostMeanwhileFailsWithItsReason) {
  serve();
  step(TrainerDetached{{0, 1}});
  attach_again(0, std::nullopt, 1);
  link_ = one<OpenLink>().link;
  connect({ReplicaId(1)});
  const ReplicaFailed failed{ReplicaId(1), ReplicaFailure::kOutOfMemory, "80 GiB wanted"};
  trainer_says(0, failed);
  EXPECT_THAT(said<ReplicaFailed>(), ElementsAre(failed));
}

TEST_F(AdoptionTest, AReplicaThatWasLostWithoutAWordFailsSoon) {
  serve();
  step(TrainerDetached{{0, 1}});
  attach_again(0, std::nullopt, 1);
  link_ = one<OpenLink>().link;
  connect({ReplicaId(1)});
  advance(seconds(2));
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_THAT(said<ReplicaFailed>()[0].detail, HasSubstr("returned without the replica"));
}

TEST_F(AdoptionTest, AReplicaThatWasReleasedMeanwhileIsReleasedAgain) {
  serve();
  step(TrainerDetached{{0, 1}});
  hear(Release{ReplicaId(1), ReleaseReason::kCompleted});
  EXPECT_THAT(told<Release>(0), IsEmpty());
  attach_again(0, assign(1), 1);
  EXPECT_THAT(told<Release>(0), ElementsAre(Release{ReplicaId(1), ReleaseReason::kReplaced}));
}

TEST_F(AdoptionTest, OneThatWasToldToStopIsToldAgain) {
  serve();
  step(StopRequested{});
  step(TrainerDetached{{0, 1}});
  attach_again(0, assign(1), 1);
  EXPECT_THAT(told<StopTrainer>(0), SizeIs(1));
}

// ---- the hand-over

TEST_F(AdoptionTest, AHandOverLeavesTheTrainersAndSaysNothing) {
  serve();
  step(HandOverRequested{});
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
  EXPECT_THAT(all<SendTrainer>(), IsEmpty());
  EXPECT_THAT(said<Goodbye>(), IsEmpty());
  EXPECT_THAT(all<CloseLink>(), SizeIs(1));
  EXPECT_EQ(one<ExitProcess>().code, 0);
  EXPECT_TRUE(one<ExitProcess>().leaves_trainers);
}

TEST_F(AdoptionTest, AStopIsNotTakenBackByAHandOver) {
  serve();
  step(StopRequested{});
  step(HandOverRequested{});
  EXPECT_THAT(effects_, IsEmpty());
}

TEST_F(AdoptionTest, AHandOverWithoutALink) {
  boot();
  lose_link();
  step(HandOverRequested{});
  EXPECT_THAT(all<CloseLink>(), IsEmpty());
  EXPECT_TRUE(one<ExitProcess>().leaves_trainers);
}

}  // namespace
}  // namespace shoal::agent
