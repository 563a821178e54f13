// Jobs that train with a program of their own (trainer.kind = "python").
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Options options_with_programs() {
  Options options = test_options();
  options.runs_programs = true;
  return options;
}

class ProgramsTest : public AgentFixture {
 protected:
  ProgramsTest() : AgentFixture(options_with_programs()) {
    boot();
    connect();
    attach(0);
    attach(1);
  }
  static Assign assign_program(std::uint64_t replica, const std::string& entry = "train.py") {
    Assign message = assign(replica);
    message.spec.trainer = {TrainerKind::kPython, entry};
    return message;
  }
  // The process of slot 0 ends as told, and the next one starts.
  StartTrainer replace(std::uint64_t generation) {
    step(TrainerExited{{0, generation}, {0, 0, ""}});
    if (all<StartTrainer>().empty()) advance({});
    return one<StartTrainer>();
  }
  // Replica 1 is served by the program.
  void serve_program() {
    hear(assign_program(1));
    replace(1);
    attach(0, 2);
    trainer_says(0, loaded(1), 2);
  }
};

TEST_F(ProgramsTest, AProgramTakesThePlaceOfTheTrainer) {
  hear(assign_program(1));
  EXPECT_THAT(told<StopTrainer>(0), SizeIs(1));
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty()) << "the trainer does not get it";
  const StartTrainer start = replace(1);
  EXPECT_EQ(start.entry, "train.py");
  EXPECT_EQ(start.replica, ReplicaId(1));
  EXPECT_EQ(start.trainer, (TrainerId{0, 2}));
  attach(0, 2);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
  EXPECT_THAT(said<DeviceMeasured>(), IsEmpty()) << "the trainer has measured the device";
}

TEST_F(ProgramsTest, TheTrainerComesBackWhenTheReplicaWasReleased) {
  serve_program();
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  EXPECT_THAT(told<Release>(0), SizeIs(1));
  EXPECT_THAT(told<StopTrainer>(0), SizeIs(1));
  step(TrainerDetached{{0, 2}});
  advance(seconds(20));
  EXPECT_THAT(all<KillTrainer>(), IsEmpty()) << "it may do something of its own";
  EXPECT_EQ(replace(2).entry, "");
}

TEST_F(ProgramsTest, AProgramThatDoesNotEndIsKilled) {
  serve_program();
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  advance(seconds(60));
  EXPECT_EQ(one<KillTrainer>().trainer, (TrainerId{0, 2}));
}

TEST_F(ProgramsTest, EachReplicaGetsAProcessOfItsOwn) {
  serve_program();
  hear(Release{ReplicaId(1), ReleaseReason::kReplaced});
  hear(assign_program(2, "other.py"));
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty());
  EXPECT_EQ(replace(2).entry, "other.py");
  attach(0, 3);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(ProgramsTest, ACrashFailsItsReplicaWithTheLastLineAlsoBeforeItIsLoaded) {
  hear(assign_program(1));
  replace(1);
  step(TrainerExited{{0, 2}, {1, 0, "ModuleNotFoundError: No module named 'model'"}});
  const auto failed = said<ReplicaFailed>();
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].failure, ReplicaFailure::kTrainerExited);
  EXPECT_THAT(failed[0].detail, HasSubstr("No module named 'model'"));
  while (all<StartTrainer>().empty() && wake()) {
  }
  EXPECT_EQ(one<StartTrainer>().entry, "");
}

TEST_F(ProgramsTest, AnAgentThatFindsAProgramAgainReplacesItAfterwards) {
  serve_program();
  Agent next(options_with_programs());
  Effects effects;
  next.step(now_, Booted{{{{0, 2}, 0}}}, effects);
  TrainerReady ready{0, {0, DeviceKind::kCpu, "cpu", kDeviceMemory, 1, false}, "10.0.0.4:7100", ""};
  ready.holds = assign_program(1);
  next.step(now_, TrainerAttached{{0, 2}, ready}, effects);
  effects.clear();
  next.step(now_, TrainerExited{{0, 2}, {1, 0, ""}}, effects);
  EXPECT_EQ(next.view().replicas.size(), 0u);
}

TEST(ProgramsRefused, ByAnAgentWithoutARoot) {
  class Refusing : public AgentFixture {
   public:
    void TestBody() override {}
    std::string answer() {
      boot();
      connect();
      attach(0);
      Assign message = assign(1);
      message.spec.trainer = {TrainerKind::kPython, "train.py"};
      hear(message);
      const auto failed = said<ReplicaFailed>();
      return failed.empty() ? "" : failed[0].detail;
    }
  } agent;
  EXPECT_THAT(agent.answer(), HasSubstr("--trainer-root"));
}

}  // namespace
}  // namespace shoal::agent
