// Several replicas on one device: each has a trainer of its own, and together they must fit.
#include "agent/core/agent_test_util.h"
#include "base/number_text.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SharingTest : public AgentFixture {
 protected:
  using AgentFixture::AgentFixture;
  // Replicas 1 and 2 serve on device 0, in the slots 0 and 2.
  void share() {
    serve();
    hear(assign(2));
    attach(2, 1, 0);
    trainer_says(2, loaded(2));
  }
};

TEST_F(SharingTest, ASecondReplicaGetsATrainerOfItsOwn) {
  serve();
  hear(assign(2));
  const auto start = one<StartTrainer>();
  EXPECT_EQ(start.trainer.slot, 2) << "0 and 1 are the devices";
  EXPECT_EQ(start.device, 0);
  EXPECT_EQ(start.beside, 1);
  attach(2, 1, 0);
  EXPECT_THAT(told<LoadReplica>(2), SizeIs(1));
  trainer_says(2, loaded(2));
  EXPECT_THAT(said<Loaded>(), SizeIs(1));
  hear(ToReplica<CloseRound>{ReplicaId(2), {key(1)}});
  EXPECT_THAT(told<ToReplica<CloseRound>>(2), SizeIs(1));
}

TEST_F(SharingTest, WhatItMeasuresBesideAnotherIsNotTheDevice) {
  serve();
  hear(assign(2));
  attach(2, 1, 0);
  EXPECT_THAT(said<DeviceMeasured>(), IsEmpty());
  EXPECT_THAT(reconnect().hello.devices, SizeIs(2));
}

TEST_F(SharingTest, ADeadTrainerTakesOnlyItsOwnReplica) {
  share();
  step(TrainerExited{{2, 1}, {0, 11, "terminate called"}});
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].replica, ReplicaId(2));
  EXPECT_THAT(said<ReplicaFailed>()[0].detail, HasSubstr("device 0 was ended by SIGSEGV"));
  EXPECT_THAT(agent_.view().replicas, SizeIs(1));
  while (wake() && now_ < from_unix_ms(1'100'000)) EXPECT_THAT(all<StartTrainer>(), IsEmpty());
  hear(assign(3));
  EXPECT_EQ(one<StartTrainer>().trainer, (TrainerId{2, 2})) << "its slot is used again";
}

TEST_F(SharingTest, TheFirstTrainerMayDieAsWell) {
  share();
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].replica, ReplicaId(1));
  while (all<StartTrainer>().empty()) ASSERT_TRUE(wake());
  EXPECT_EQ(one<StartTrainer>().trainer, (TrainerId{0, 2}));
  step(
      TrainerAttached{{0, 2}, {0, {0, DeviceKind::kCpu, "cpu", kDeviceMemory, 20, false}, "", ""}});
  EXPECT_EQ(said<DeviceMeasured>()[0].device.gflops, 50) << "it was measured beside another";
}

// Slot 2 is down for good, and device 1 is another one: it measures alone again.
TEST_F(SharingTest, WhatItMeasuresAfterTheOtherHasEndedIsTheDevice) {
  share();
  hear(Release{ReplicaId(2), ReleaseReason::kReplaced});
  step(TrainerExited{{2, 1}, {0, 0, ""}});
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  while (all<StartTrainer>().empty()) ASSERT_TRUE(wake());
  step(
      TrainerAttached{{0, 2}, {0, {0, DeviceKind::kCpu, "cpu", kDeviceMemory, 20, false}, "", ""}});
  EXPECT_EQ(said<DeviceMeasured>()[0].device.gflops, 20);
}

TEST_F(SharingTest, AFurtherTrainerThatStopsIsNotStoppedTwice) {
  share();
  hear(Release{ReplicaId(2), ReleaseReason::kReplaced});
  ASSERT_THAT(told<StopTrainer>(2), SizeIs(1));
  trainer_says(2, ReplicaFailed{ReplicaId(2), ReplicaFailure::kInternal, "late"});
  EXPECT_THAT(told<StopTrainer>(2), IsEmpty());
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  EXPECT_THAT(told<StopTrainer>(0), IsEmpty()) << "the first one of a device stays";
}

TEST_F(SharingTest, ARetiredTrainerIsStoppedAndKilledWhenItStays) {
  share();
  hear(Release{ReplicaId(2), ReleaseReason::kReplaced});
  EXPECT_THAT(told<Release>(2), SizeIs(1));
  EXPECT_THAT(told<StopTrainer>(2), SizeIs(1));
  EXPECT_EQ(agent_.view().trainers[2], TrainerState::kStopping);
  hear(assign(3));
  EXPECT_EQ(one<StartTrainer>().trainer.slot, 3) << "one that stops takes nothing new";
  step(TrainerExited{{2, 1}, {0, 0, ""}});
  EXPECT_EQ(agent_.view().trainers[2], TrainerState::kDown);
  hear(Release{ReplicaId(3), ReleaseReason::kReplaced});
  EXPECT_EQ(one<KillTrainer>().hard, false) << "it had not attached yet";
  std::vector<KillTrainer> kills;
  while (kills.empty() && wake()) kills = all<KillTrainer>();
  EXPECT_EQ(kills[0].trainer.slot, 3);
  EXPECT_TRUE(kills[0].hard);
}

TEST_F(SharingTest, TrainersOfADeviceAreBounded) {
  serve();
  for (std::uint64_t replica = 2; replica <= 8; ++replica) hear(assign(replica));
  EXPECT_THAT(agent_.view().replicas, SizeIs(8));
  hear(assign(9));
  EXPECT_THAT(said<ReplicaFailed>()[0].detail, HasSubstr("already runs 8 trainers"));
  hear(assign(10, 1));
  EXPECT_THAT(agent_.view().replicas, SizeIs(9)) << "the other device has room";
}

// ---- memory

Options with_memory(Bytes memory) {
  Options options = test_options();
  options.devices.pop_back();
  options.devices[0].memory = memory;
  return options;
}

Bytes whole_need() {
  const swarm::CostModel model(JobSpec{}, swarm::cost_options(JobSpec{}));
  return model.memory(model.whole());
}

class RoomForOne : public SharingTest {
 protected:
  RoomForOne() : SharingTest(with_memory(whole_need() + whole_need() - Bytes(1))) {}
};

TEST_F(RoomForOne, WhatDoesNotFitBesideTheOthersIsRefused) {
  boot();
  connect();
  attach(0);
  hear(assign(1));
  hear(assign(2));
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kOutOfMemory);
  EXPECT_THAT(said<ReplicaFailed>()[0].detail,
              HasSubstr(size_text(static_cast<double>(whole_need().count())) + " is in use"));
  EXPECT_THAT(all<StartTrainer>(), IsEmpty());
  hear(assign(2));
  EXPECT_THAT(effects_, IsEmpty()) << "a late repetition";
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  hear(assign(3));
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty()) << "there is room again";
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty()) << "when its trainer has released it";
  trainer_says(0, TrainerReady{});
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

}  // namespace
}  // namespace shoal::agent
