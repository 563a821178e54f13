// The agent as a whole: its start, its link, what survives a lost one, and its end.
#include "agent/core/agent.h"

#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using AgentTest = AgentFixture;

// ---- boot and link

TEST_F(AgentTest, BootOpensTheLinkAndStartsATrainerPerDevice) {
  step(Booted{});
  const Hello hello = one<OpenLink>().hello;
  EXPECT_EQ(hello.incarnation.n, 0u);
  EXPECT_EQ(hello.uid, std::string(32, 'a'));
  EXPECT_THAT(hello.devices, SizeIs(2));
  EXPECT_THAT(hello.replicas, IsEmpty());
  EXPECT_THAT(all<StartTrainer>(), SizeIs(2));
}

TEST_F(AgentTest, HeartbeatsFollowTheWelcome) {
  boot();
  connect();
  step(HostMeasured{Bytes(55)});
  advance(seconds(2));
  EXPECT_THAT(said<Heartbeat>(), ElementsAre(Heartbeat{1, Bytes(55)}));
  advance(milliseconds(1999));
  EXPECT_THAT(said<Heartbeat>(), IsEmpty());
  advance(milliseconds(1));
  EXPECT_THAT(said<Heartbeat>(), ElementsAre(Heartbeat{2, Bytes(55)}));
}

TEST_F(AgentTest, ReconnectsWithGrowingWaitsAndItsIncarnation) {
  serve();
  Duration longest{};
  for (int i = 0; i < 20; ++i) {
    const Instant lost = now_;
    const auto open = reconnect();
    EXPECT_EQ(open.hello.incarnation.n, 3u);
    EXPECT_THAT(open.hello.replicas,
                ElementsAre(testing::Field(&HeldReplica::replica, ReplicaId(1))));
    EXPECT_GE(now_ - lost, milliseconds(50));
    longest = std::max(longest, now_ - lost);
  }
  EXPECT_GT(longest, seconds(2));
  EXPECT_LE(longest, seconds(3));
  connect({ReplicaId(1)});
  const Instant lost = now_;
  reconnect();
  EXPECT_LE(now_ - lost, milliseconds(500)) << "a Welcome resets the back-off";
}

TEST_F(AgentTest, ALinkThatIsNotWelcomedInTimeIsClosed) {
  boot();
  step(LinkUp{link_});
  advance(seconds(20));
  EXPECT_EQ(one<CloseLink>().link, link_);
  EXPECT_EQ(agent_.view().link, LinkState::kDown);
}

TEST_F(AgentTest, NewsOfAnOldLinkIsDropped) {
  boot();
  connect();
  const LinkId old = link_;
  reconnect();
  step(LinkDown{old, {}});
  step(CoordinatorSaid{old, assign(1)});
  EXPECT_EQ(agent_.view().link, LinkState::kOpening);
  EXPECT_THAT(agent_.view().replicas, IsEmpty());
  EXPECT_EQ(agent_.view().messages_dropped, 2);
}

TEST_F(AgentTest, NothingIsObeyedBeforeTheWelcome) {
  boot();
  attach(0);
  step(LinkUp{link_});
  hear(assign(1));
  EXPECT_THAT(effects_, IsEmpty());
}

TEST_F(AgentTest, RefusedEndsTheProcess) {
  boot();
  step(LinkUp{link_});
  hear(Refused{{Code::kIncompatible, "protocol 1 is too old", "protocol", "update the agent"}});
  const auto exit = one<ExitProcess>();
  EXPECT_EQ(exit.code, 1);
  EXPECT_THAT(exit.message, HasSubstr("protocol 1 is too old (update the agent)"));
  EXPECT_THAT(all<KillTrainer>(), SizeIs(2));
  EXPECT_FALSE(agent_.next_deadline());
}

TEST_F(AgentTest, AWrongTokenEndsTheProcessWithItsOwnCode) {
  boot();
  step(LinkDown{
      link_, {Code::kUnauthenticated, "the token is not known", "--join-token", "copy it again"}});
  EXPECT_EQ(one<ExitProcess>().code, 4);
}

TEST_F(AgentTest, NothingComesOutAfterTheEnd) {
  boot();
  step(LinkDown{link_, {Code::kIncompatible, "x", "", ""}});
  ASSERT_THAT(all<ExitProcess>(), SizeIs(1));
  attach(0);
  EXPECT_THAT(effects_, IsEmpty());
}

// ---- messages survive a lost link

TEST_F(AgentTest, TheNewestOfEachKindIsSaidAgainAfterTheWelcome) {
  serve();
  trainer_says(0, report(1, 1));
  EXPECT_THAT(said<FromReplica<RoundReport>>(), ElementsAre(report(1, 1)));
  reconnect();
  trainer_says(0, report(1, 2));
  trainer_says(0, Progress{.replica = ReplicaId(1)});
  EXPECT_THAT(effects_, IsEmpty());
  connect({ReplicaId(1)});
  EXPECT_THAT(said<Loaded>(), ElementsAre(loaded(1)));
  EXPECT_THAT(said<FromReplica<RoundReport>>(), ElementsAre(report(1, 2)));
  EXPECT_THAT(said<Progress>(), IsEmpty());
}

TEST_F(AgentTest, ProgressPassesWhileTheLinkIsActive) {
  serve();
  trainer_says(0, Progress{.replica = ReplicaId(1), .step = Steps(4)});
  EXPECT_THAT(said<Progress>(), SizeIs(1));
  EXPECT_EQ(agent_.view().messages_kept, 1) << "only Loaded";
}

TEST_F(AgentTest, AFailureDuringALostLinkIsToldLater) {
  serve();
  reconnect();
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  connect();
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kTrainerExited);
}

TEST_F(AgentTest, ReplicasThatAreNotKeptAreReleased) {
  serve();
  hear(assign(2, 1));
  trainer_says(1, loaded(2));
  reconnect();
  connect({ReplicaId(2)});
  EXPECT_THAT(told<Release>(0), ElementsAre(Release{ReplicaId(1), ReleaseReason::kReplaced}));
  EXPECT_THAT(told<Release>(1), IsEmpty());
  EXPECT_THAT(said<Loaded>(), ElementsAre(loaded(2)));
}

TEST_F(AgentTest, MeasuredDevicesAreTold) {
  boot();
  attach(0);
  step(LinkUp{link_});
  hear(Welcome{AgentId(7), {3}, seconds(2), seconds(10), {}});
  ASSERT_THAT(said<DeviceMeasured>(), SizeIs(1));
  EXPECT_EQ(said<DeviceMeasured>()[0].device.gflops, 50);
  EXPECT_EQ(said<DeviceMeasured>()[0].device.memory, kDeviceMemory)
      << "the smaller of probed and measured";
  EXPECT_EQ(said<DeviceMeasured>()[0].device.uuid, "cpu-0") << "of which the trainer knows nothing";
  attach(1);
  EXPECT_THAT(said<DeviceMeasured>(), SizeIs(1));
  EXPECT_EQ(reconnect().hello.devices[1].gflops, 50);
}

// ---- the end

TEST_F(AgentTest, StopDrains) {
  serve();
  step(StopRequested{});
  EXPECT_THAT(told<StopTrainer>(0), SizeIs(1));
  EXPECT_THAT(told<StopTrainer>(1), SizeIs(1));
  EXPECT_THAT(said<Goodbye>(), SizeIs(1));
  step(TrainerExited{{0, 1}, {0, 0, ""}});
  EXPECT_THAT(effects_, IsEmpty()) << "no failure is reported, no trainer started";
  step(TrainerExited{{1, 1}, {0, 0, ""}});
  EXPECT_EQ(one<ExitProcess>().code, 0);
  EXPECT_THAT(all<CloseLink>(), SizeIs(1));
}

TEST_F(AgentTest, StopWithoutTrainersIsAtOnce) {
  serve();
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  step(TrainerExited{{1, 1}, {0, 9, ""}});
  step(StopRequested{});
  EXPECT_THAT(said<Goodbye>(), SizeIs(1));
  EXPECT_EQ(one<ExitProcess>().code, 0) << "none of them is started again";
}

TEST_F(AgentTest, StopWaitsTenSecondsThenKills) {
  serve();
  step(StopRequested{});
  advance(milliseconds(9'999));
  EXPECT_THAT(effects_, IsEmpty());
  advance(milliseconds(1));
  EXPECT_THAT(all<KillTrainer>(), SizeIs(2));
  EXPECT_TRUE(all<KillTrainer>()[0].hard);
  EXPECT_EQ(one<ExitProcess>().code, 0);
}

TEST_F(AgentTest, TheSecondStopIsNow) {
  serve();
  step(StopRequested{});
  step(StopRequested{});
  EXPECT_THAT(all<KillTrainer>(), SizeIs(2));
  EXPECT_EQ(one<ExitProcess>().code, 0);
}

TEST_F(AgentTest, StopWithoutALink) {
  boot();
  step(StopRequested{});
  EXPECT_THAT(all<CloseLink>(), SizeIs(1));
  EXPECT_THAT(all<KillTrainer>(), SizeIs(2));
  EXPECT_FALSE(all<KillTrainer>()[0].hard) << "not attached yet: a signal instead of a message";
  step(TrainerExited{{0, 1}, {0, 15, ""}});
  step(TrainerExited{{1, 1}, {0, 15, ""}});
  EXPECT_EQ(one<ExitProcess>().code, 0);
}

TEST_F(AgentTest, ALinkLostWhileDrainingStaysDown) {
  serve();
  step(StopRequested{});
  lose_link();
  ASSERT_TRUE(wake());
  EXPECT_THAT(all<OpenLink>(), IsEmpty());
  EXPECT_EQ(one<ExitProcess>().code, 0);
}

// ---- load of others

class GpuLoadTest : public AgentFixture {
 protected:
  static Options gpus() {
    Options options = test_options();
    for (Device& device : options.devices) {
      device.kind = DeviceKind::kCuda;
      device.uuid = "GPU-" + std::to_string(device.index);
    }
    return options;
  }
  GpuLoadTest() : AgentFixture(gpus()) {}

  // Both GPUs are half busy. What was told of the load of others, by device.
  std::vector<double> told_of_others() {
    HostMeasured measured{Bytes(1)};
    for (const char* uuid : {"GPU-0", "GPU-1"}) {
      DeviceSample sample{.uuid = uuid, .answer = DeviceAnswer::kWhole};
      sample.use = DeviceUse{.busy = 0.5};
      measured.samples.push_back(sample);
    }
    step(measured);
    advance(seconds(2));
    for (const Heartbeat& heartbeat : said<Heartbeat>()) {
      for (const DeviceSample& sample : heartbeat.samples)
        told_[sample.uuid == "GPU-1"] = sample.use->busy_elsewhere;
    }
    return told_;
  }

  std::vector<double> told_{-1, -1};
};

TEST_F(GpuLoadTest, IsThatOfOthersWhereThisAgentHasHadNoWorkForAWhile) {
  serve();
  EXPECT_THAT(told_of_others(), ElementsAre(0, 0))
      << "the trainers have just measured their devices";
  advance(seconds(30));
  EXPECT_THAT(told_of_others(), ElementsAre(0, 0.5)) << "replica 1 works on device 0";
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  EXPECT_THAT(told_of_others(), ElementsAre(0, 0.5)) << "its trainer still ends it";
  trainer_says(0, TrainerReady{0, {}, "10.0.0.4:7100", "libtorch"});
  advance(seconds(20));
  EXPECT_THAT(told_of_others(), ElementsAre(0, 0.5)) << "samples may still show its work";
  advance(seconds(30));
  EXPECT_THAT(told_of_others(), ElementsAre(0.5, 0.5));
  hear(MeasureBlock{1, {}, 2, 1});
  EXPECT_THAT(told_of_others(), ElementsAre(0.5, 0));
}

// ---- determinism

TEST_F(AgentTest, EqualInputsGiveEqualDigests) {
  Agent other(test_options());
  Effects effects;
  const std::vector<Input> inputs{Booted{}, LinkUp{LinkId{1}}, TrainerExited{{0, 1}, {1, 0, ""}},
                                  LinkDown{LinkId{1}, {Code::kUnavailable, "", "", ""}}, Tick{}};
  for (const Input& input : inputs) {
    now_ = now_ + milliseconds(700);
    step(input);
    other.step(now_, input, effects);
    EXPECT_EQ(agent_.digest(), other.digest());
    EXPECT_EQ(agent_.next_deadline(), other.next_deadline());
  }
  const Digest before = agent_.digest();
  step(HostMeasured{Bytes(1)});
  EXPECT_NE(agent_.digest(), before);
}

TEST_F(AgentTest, TransitionsAreCounted) {
  serve();
  EXPECT_EQ(agent_.transitions().at("trainer down start"), 2);
  EXPECT_EQ(agent_.transitions().at("replica loading loaded"), 1);
  EXPECT_EQ(agent_.transitions().at("link greeting welcome"), 1);
}

}  // namespace
}  // namespace shoal::agent
