// Jobs that train with a program of their own (trainer.kind = "python").
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Options options_with_programs() {
  Options options = test_options();
  options.programs = {true, {"ada", "bob"}};
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
  EXPECT_EQ(start.identity.runs.entry, "train.py");
  EXPECT_EQ(start.identity.replica, ReplicaId(1));
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
  EXPECT_EQ(replace(2).identity.runs.entry, "");
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
  EXPECT_EQ(replace(2).identity.runs.entry, "other.py");
  attach(0, 3);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(ProgramsTest, AProgramThatTakesTooMuchIsKilledAndItsReplicaSaysWhy) {
  serve_program();
  step(TrainerExceeded{{0, 1}, "of the process before"});
  EXPECT_THAT(all<KillTrainer>(), IsEmpty());
  step(TrainerExceeded{{0, 2}, "it takes 9 GB of memory"});
  EXPECT_TRUE(one<KillTrainer>().hard);
  step(TrainerExited{{0, 2}, {0, 9, ""}});
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].detail,
            "the program train.py on device 0 was killed: it takes 9 GB of memory");
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
  EXPECT_EQ(one<StartTrainer>().identity.runs.entry, "");
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

// ---- code that came with the job

const std::string kCode = "sha256:" + std::string(64, 'c');

class CodeTest : public ProgramsTest {
 protected:
  static Assign assign_code(std::uint64_t replica, const std::string& owner = "ada",
                            std::int32_t device = 0) {
    Assign message = assign(replica, device);
    message.spec.trainer = {TrainerKind::kPython, "train.py", kCode};
    message.owner = owner;
    return message;
  }
};

TEST_F(CodeTest, IsFetchedBeforeItsProgramIsStarted) {
  hear(assign_code(1));
  EXPECT_EQ(one<FetchCode>().code, kCode);
  EXPECT_EQ(one<FetchCode>().replica, ReplicaId(1));
  EXPECT_THAT(one<FetchCode>().in_use, testing::ElementsAre(kCode));
  EXPECT_THAT(told<StopTrainer>(0), IsEmpty()) << "the trainer stays until then";
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty());
  advance(options_with_programs().assign_limit);
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty()) << "a fetch has a deadline of its own";
  step(CodeFetchMoved{kCode, Bytes(10), Bytes(100)});
  EXPECT_THAT(said<LoadProgress>(), SizeIs(1));
  step(CodeFetched{kCode});
  EXPECT_THAT(told<StopTrainer>(0), SizeIs(1));
  const TrainerSpec runs = replace(1).identity.runs;
  EXPECT_EQ(runs.entry, "train.py");
  EXPECT_EQ(runs.code, kCode);
  attach(0, 2);
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

TEST_F(CodeTest, ATrainerThatRestartsMeanwhileDoesNotGetTheReplica) {
  hear(assign_code(1));
  step(TrainerExited{{0, 1}, {1, 0, ""}});
  while (all<StartTrainer>().empty() && wake()) {
  }
  EXPECT_EQ(one<StartTrainer>().identity.runs, TrainerSpec());
  attach(0, 2);
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty());
}

TEST_F(CodeTest, IsFetchedOnceForAllReplicas) {
  hear(assign_code(1));
  hear(assign_code(2, "ada", 1));
  EXPECT_THAT(all<FetchCode>(), IsEmpty());
  step(CodeFetched{kCode});
  EXPECT_THAT(told<StopTrainer>(0), SizeIs(1));
  EXPECT_THAT(told<StopTrainer>(1), SizeIs(1));
}

TEST_F(CodeTest, AFetchThatBreaksGoesOnAndAWrongHashDoesNot) {
  hear(assign_code(1));
  step(CodeFetchFailed{kCode, {Code::kUnavailable, "gone", "", ""}});
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty());
  while (all<FetchCode>().empty() && wake()) {
  }
  EXPECT_THAT(all<FetchCode>(), SizeIs(1));
  step(CodeFetchFailed{kCode, {Code::kDataLoss, "it has another hash", "", ""}});
  const auto failed = said<ReplicaFailed>();
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].failure, ReplicaFailure::kDigestMismatch);
  EXPECT_THAT(failed[0].detail, HasSubstr("it has another hash"));
  hear(assign_code(2));
  EXPECT_THAT(all<FetchCode>(), SizeIs(1)) << "the next replica asks again";
}

TEST_F(CodeTest, AFetchInWhichNothingMovesIsGivenUp) {
  hear(assign_code(1));
  step(CodeFetchMoved{kCode, Bytes(1), Bytes(100)});
  int wakes = 0;
  while (said<ReplicaFailed>().empty() && ++wakes < 1000 && wake()) {
    if (!all<OpenLink>().empty()) break;
  }
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kSourceLost);
}

TEST_F(CodeTest, OfOtherOwnersIsRefusedByNameAndOption) {
  hear(assign_code(1, "eve"));
  EXPECT_THAT(all<FetchCode>(), IsEmpty());
  const auto failed = said<ReplicaFailed>();
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_THAT(failed[0].detail, HasSubstr("code of eve"));
  EXPECT_THAT(failed[0].detail, HasSubstr("--allow-code-from eve"));
  hear(assign_code(2, ""));
  EXPECT_THAT(all<FetchCode>(), IsEmpty()) << "of a job whose owner nobody knows";
}

TEST(ProgramsOfReducers, AreTheReducer) {
  class Reducer : public AgentFixture {
   public:
    Reducer() : AgentFixture(reducer_options()) {}
    void TestBody() override {}
    static Options reducer_options() {
      Options options = test_options();
      options.devices = {{0, DeviceKind::kReducer, "reducer", kDeviceMemory, 0, false}};
      return options;
    }
    std::size_t loads() {
      boot();
      connect();
      Device device{0, DeviceKind::kReducer, "reducer", kDeviceMemory, 0, false};
      step(TrainerAttached{{0, 1}, {0, device, "10.0.0.4:7100", ""}});
      Assign message = assign(1);
      message.spec.trainer = {TrainerKind::kPython, "train.py", kCode};
      hear(message);
      return told<LoadReplica>(0).size();
    }
  } reducer;
  EXPECT_EQ(reducer.loads(), 1u);
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
