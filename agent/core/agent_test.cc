// Link, trainers, replicas and the end of the daemon. Checkpoints have their own file.
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
  step(MemoryMeasured{Bytes(55)});
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

TEST_F(AgentTest, ATrainerOfAnotherProtocolIsNotUsed) {
  boot();
  connect();
  hear(assign(1));
  std::vector<ReplicaFailed> failed;
  for (std::uint64_t generation = 1; failed.empty() && generation < 100; ++generation) {
    step(TrainerAttached{{0, generation}, {0, {}, "", "", kProtocolVersion - 1}});
    EXPECT_TRUE(one<KillTrainer>().hard);
    EXPECT_THAT(one<KillTrainer>().because, HasSubstr("speaks protocol 2"));
    EXPECT_THAT(all<SendTrainer>(), IsEmpty());
    step(TrainerExited{{0, generation}, {}});
    while (all<StartTrainer>().empty() && failed.empty() && wake()) failed = said<ReplicaFailed>();
  }
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_THAT(failed[0].detail,
              HasSubstr("it speaks protocol 2, shoal-agent 0.1.0 speaks protocol 3 (install both"));
}

TEST_F(AgentTest, AWrongTokenEndsTheProcessWithItsOwnCode) {
  boot();
  step(LinkDown{
      link_, {Code::kUnauthenticated, "the token is not known", "--token-file", "copy it again"}});
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
  attach(1);
  EXPECT_THAT(said<DeviceMeasured>(), SizeIs(1));
  EXPECT_EQ(reconnect().hello.devices[1].gflops, 50);
}

// ---- trainers

TEST_F(AgentTest, ATrainerThatExitsIsStartedAgainWithBackoff) {
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

TEST_F(AgentTest, ATrainerThatLivedLongStartsItsBackoffAnew) {
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

TEST_F(AgentTest, ATrainerThatDoesNotAttachIsKilled) {
  boot();
  connect();
  attach(1);
  advance(seconds(60));
  EXPECT_TRUE(one<KillTrainer>().hard);
  EXPECT_EQ(one<KillTrainer>().trainer, (TrainerId{0, 1}));
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_EQ(agent_.view().trainers[0], TrainerState::kDown);
}

TEST_F(AgentTest, ATrainerWhoseStreamEndedWithoutAReplicaIsKilled) {
  boot();
  connect();
  attach(0);
  step(TrainerDetached{{0, 1}});
  advance(seconds(1));
  EXPECT_EQ(one<KillTrainer>().trainer.slot, 0);
}

// What it holds may be all that there is of a stage.
TEST_F(AgentTest, ATrainerThatHangsIsKilledWhenItsReplicaIsLetGo) {
  serve();
  step(TrainerDetached{{0, 1}});
  hear(ToReplica<CloseRound>{ReplicaId(1), {key(1)}});
  EXPECT_THAT(all<SendTrainer>(), IsEmpty());
  advance(seconds(1));
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kFrozen);
  EXPECT_THAT(said<ReplicaFailed>()[0].detail, HasSubstr("its stream ended"));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
  advance(seconds(50));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  EXPECT_TRUE(one<KillTrainer>().hard);
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty()) << "it was let go";
}

TEST_F(AgentTest, ATrainerThatHangsIsNotWaitedForForEver) {
  serve();
  step(TrainerDetached{{0, 1}});
  advance(seconds(1));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
  advance(seconds(60));
  EXPECT_EQ(one<KillTrainer>().trainer.slot, 0);
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kTrainerExited);
}

TEST_F(AgentTest, ATrainerThatExitsFailsItsReplicas) {
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

TEST_F(AgentTest, NewsOfAnOldTrainerIsDropped) {
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

// ---- replicas

TEST_F(AgentTest, AnAssignGoesToItsTrainerOnce) {
  boot();
  connect();
  attach(0);
  hear(assign(1));
  ASSERT_THAT(told<LoadReplica>(0), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(0)[0].assign, assign(1));
  hear(assign(1));
  EXPECT_THAT(effects_, IsEmpty());
}

TEST_F(AgentTest, AnAssignWaitsForItsTrainer) {
  boot();
  connect();
  hear(assign(1));
  EXPECT_THAT(effects_, IsEmpty());
  attach(0);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(AgentTest, AnAssignIsNotSaidToATrainerWhoseStreamEnded) {
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

TEST_F(AgentTest, AnAssignDoesNotWaitForever) {
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

TEST_F(AgentTest, AnAssignForNoDeviceFails) {
  boot();
  connect();
  hear(assign(1, 2));
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_THAT(said<ReplicaFailed>()[0].detail, HasSubstr("no device 2"));
}

TEST_F(AgentTest, ATrainerThatDoesNotLoadIsKilled) {
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

TEST_F(AgentTest, ALoadThatMovesIsNotKilledHoweverLongItTakes) {
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
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("stands still"));
}

// Its compute thread hangs: it hears no Release.
TEST_F(AgentTest, ATrainerThatDoesNotLetGoIsKilled) {
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
  EXPECT_THAT(one<KillTrainer>().because, HasSubstr("let go"));
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty()) << "the next one waits for the next process";
  while (all<StartTrainer>().empty() && wake()) {
  }
  attach(0, 2);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(AgentTest, ATrainerThatIsReadyAgainGetsTheNextReplica) {
  serve();
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  hear(assign(2));
  trainer_says(0, TrainerReady{});
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
  advance(test_options().release_limit);
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
}

TEST_F(AgentTest, RoundMessagesPassInBothDirections) {
  serve();
  const ToReplica<OpenRound> open{ReplicaId(1), {key(1), Steps(0), Steps(50), {{0, 600}}}};
  hear(open);
  EXPECT_THAT(told<ToReplica<OpenRound>>(0), ElementsAre(open));
  trainer_says(0, report(1, 1));
  EXPECT_THAT(said<FromReplica<RoundReport>>(), SizeIs(1));
}

TEST_F(AgentTest, MessagesForAnUnknownReplicaAreFromThePast) {
  serve();
  hear(ToReplica<CloseRound>{ReplicaId(9), {key(1)}});
  EXPECT_THAT(effects_, IsEmpty());
  trainer_says(0, report(9, 1));
  EXPECT_THAT(effects_, IsEmpty());
  trainer_says(1, report(1, 1));
  EXPECT_THAT(effects_, IsEmpty()) << "another device's replica";
  EXPECT_EQ(agent_.view().messages_dropped, 3);
}

TEST_F(AgentTest, ReleaseIsForwardedAndRemembered) {
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

TEST_F(AgentTest, AFailureOfTheTrainerIsPassedOn) {
  serve();
  const ReplicaFailed failed{ReplicaId(1), ReplicaFailure::kOutOfMemory, "80 GiB wanted"};
  trainer_says(0, failed);
  EXPECT_THAT(said<ReplicaFailed>(), ElementsAre(failed));
  EXPECT_THAT(agent_.view().replicas, IsEmpty());
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
  step(MemoryMeasured{Bytes(1)});
  EXPECT_NE(agent_.digest(), before);
}

TEST_F(AgentTest, TransitionsAreCounted) {
  serve();
  EXPECT_EQ(agent_.transitions().at("trainer down start"), 2);
  EXPECT_EQ(agent_.transitions().at("replica loading loaded"), 1);
  EXPECT_EQ(agent_.transitions().at("link greeting welcome"), 1);
}

TEST(AgentOptions, AreChecked) {
  EXPECT_THAT(validate(test_options()), IsEmpty());
  Options options = test_options();
  options.uid = "x";
  options.devices[1].index = 5;
  options.reconnect_cap = milliseconds(1);
  options.replicas_max = 0;
  std::vector<std::string> pointers;
  for (const auto& error : validate(options)) pointers.push_back(error.pointer);
  EXPECT_THAT(pointers, ElementsAre("/uid", "/devices", "/reconnect_cap", "/replicas_max"));
}

TEST(AgentOptions, EachIsRefusedByItsName) {
  const auto refused = [](auto&& change) {
    Options options = test_options();
    change(options);
    const auto errors = validate(options);
    return errors.size() == 1 ? errors[0].pointer : std::to_string(errors.size()) + " errors";
  };
  EXPECT_EQ(refused([](Options& o) { o.name.clear(); }), "/name");
  EXPECT_EQ(refused([](Options& o) { o.data_dir.clear(); }), "/data_dir");
  EXPECT_EQ(refused([](Options& o) { o.devices.clear(); }), "/devices");
  EXPECT_EQ(refused([](Options& o) { o.uid[31] = 'G'; }), "/uid");
  EXPECT_EQ(refused([](Options& o) { o.drain_limit = {}; }), "/drain_limit");
  EXPECT_EQ(refused([](Options& o) { o.load_limit = Duration{1}; }), "0 errors");
  EXPECT_EQ(refused([](Options& o) { o.restart_cap = milliseconds(1); }), "/restart_cap");
  EXPECT_EQ(refused([](Options& o) { o.upload_cap = milliseconds(1); }), "/upload_cap");
  EXPECT_EQ(refused([](Options& o) { o.restart_cap = o.restart_first; }), "0 errors");
  EXPECT_EQ(refused([](Options& o) { o.transfer_limit = {}; }), "/transfer_limit");
}

}  // namespace
}  // namespace shoal::agent
