// Measuring a block: which trainer does it, and what is answered when it cannot.
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class BlocksTest : public AgentFixture {
 protected:
  static MeasureBlock asked(std::int32_t device, std::int64_t hidden = 64) {
    return {device, {.hidden = hidden, .heads = 4}, 2, 8};
  }
  static BlockMeasured measured(std::int64_t hidden = 64) {
    return {0, digest_of(asked(0, hidden).shape), {milliseconds(3), {}, milliseconds(1)}};
  }
  void idle() {
    boot();
    connect();
    attach(0);
    attach(1);
  }
  void expect_error(const std::string& text) {
    ASSERT_THAT(said<BlockMeasured>(), SizeIs(1));
    EXPECT_THAT(said<BlockMeasured>()[0].error, HasSubstr(text));
    EXPECT_EQ(said<BlockMeasured>()[0].times, BlockTimes());
  }
};

TEST_F(BlocksTest, TheTrainerOfTheDeviceMeasures) {
  idle();
  hear(asked(1));
  ASSERT_THAT(told<MeasureBlock>(1), SizeIs(1));
  EXPECT_EQ(told<MeasureBlock>(1)[0], asked(1));
  trainer_says(1, measured());
  ASSERT_THAT(said<BlockMeasured>(), SizeIs(1));
  EXPECT_EQ(said<BlockMeasured>()[0].device, 1) << "as the agent counts";
  EXPECT_EQ(said<BlockMeasured>()[0].times, measured().times);
  trainer_says(1, measured());
  EXPECT_THAT(said<BlockMeasured>(), IsEmpty()) << "nobody asked for it";
}

TEST_F(BlocksTest, AnAnswerIsForTheModelThatIsMeasured) {
  idle();
  hear(asked(0));
  trainer_says(0, measured(128));
  EXPECT_THAT(said<BlockMeasured>(), IsEmpty()) << "another model, of an earlier start";
  BlockMeasured unnamed = measured();
  unnamed.shape = {};
  trainer_says(0, unnamed);
  ASSERT_THAT(said<BlockMeasured>(), SizeIs(1));
  EXPECT_EQ(said<BlockMeasured>()[0].shape, measured().shape);
}

TEST_F(BlocksTest, ADeviceThatTrainsIsNotMeasured) {
  serve();
  hear(asked(0));
  EXPECT_THAT(told<MeasureBlock>(0), IsEmpty());
  expect_error("a replica is on it");
}

TEST_F(BlocksTest, ADeviceThatIsNotThereHasNoBlock) {
  idle();
  hear(asked(7));
  expect_error("no such device");
  hear(asked(-1));
  expect_error("no such device");
}

TEST_F(BlocksTest, ATrainerThatStartsIsNotReady) {
  boot();
  connect();
  hear(asked(0));
  expect_error("not ready");
}

TEST_F(BlocksTest, ATrainerOfAnOlderVersionIsNotAsked) {
  boot();
  connect();
  TrainerReady ready{0, test_options().devices[0], "10.0.0.4:7100", "libtorch"};
  ready.protocol = kMeasuresBlocksSince - 1;
  step(TrainerAttached{{0, 1}, ready});
  hear(asked(0));
  EXPECT_THAT(told<MeasureBlock>(0), IsEmpty());
  expect_error("older version");
}

TEST_F(BlocksTest, OneModelAtATimeIsMeasured) {
  idle();
  hear(asked(0));
  hear(asked(0));
  EXPECT_THAT(told<MeasureBlock>(0), IsEmpty()) << "the answer is on its way";
  EXPECT_THAT(said<BlockMeasured>(), IsEmpty());
  hear(asked(0, 128));
  expect_error("another model");
  trainer_says(0, measured());
  EXPECT_THAT(said<BlockMeasured>(), SizeIs(1));
  hear(asked(0, 128));
  EXPECT_THAT(told<MeasureBlock>(0), SizeIs(1));
}

TEST_F(BlocksTest, ATrainerThatDiesAnswersByItsEnd) {
  idle();
  hear(asked(0));
  step(TrainerExited{{0, 1}, {0, 9, "out of memory"}});
  expect_error("was ended by SIGKILL: out of memory");
}

TEST_F(BlocksTest, AnAnswerIsLostWhileTheLinkIsDown) {
  idle();
  hear(asked(0));
  lose_link();
  trainer_says(0, measured());
  EXPECT_THAT(said<BlockMeasured>(), IsEmpty());
  reconnect();
  connect();
  EXPECT_THAT(said<BlockMeasured>(), IsEmpty());
  hear(asked(0));
  EXPECT_THAT(told<MeasureBlock>(0), SizeIs(1)) << "it is asked again";
}

TEST_F(BlocksTest, AnAssignmentMeanwhileWaitsInTheTrainer) {
  idle();
  hear(asked(0));
  hear(assign(1));
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
  trainer_says(0, measured());
  EXPECT_THAT(said<BlockMeasured>(), SizeIs(1));
}

}  // namespace
}  // namespace shoal::agent
