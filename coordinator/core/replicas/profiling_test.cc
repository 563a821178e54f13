// Which devices are asked to measure a block, and how long the job waits, up to its plan.
#include "coordinator/core/replicas/profiling.h"

#include <gmock/gmock.h>

#include "coordinator/core/pipelines_test_util.h"
#include "coordinator/core/state/blocks.h"
#include "coordinator/core/used_gpu_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

struct ProfilingTest : testing::Test {
  ProfilingTest() {
    rig.options.measure_limit = seconds(10);
    rig.protocol = kMeasuresLinesSince - 1;  // line_probes_test.cc is about those that do
    rig.restart();
  }
  void submit(const JobSpec& spec) { ASSERT_TRUE(rig.submit(spec).ok()); }
  const JobRecord& job() const { return rig.job(JobId(1)); }
  Digest shape() const { return shape_of(two_stages()); }
  std::size_t asked(ConnectionId agent) {
    return static_cast<std::size_t>(std::ranges::count_if(
        rig.sent[agent], [](const ToAgent& m) { return std::holds_alternative<MeasureBlock>(m); }));
  }
  void answer(ConnectionId agent, std::int64_t block_ms) {
    rig.say(agent, BlockMeasured{0, shape(), {milliseconds(block_ms), {}, {}}});
  }
  bool is_placed(ConnectionId agent) { return rig.last<Assign>(agent).has_value(); }
  // While the agents stay connected.
  void pass(Duration d, const std::vector<ConnectionId>& agents) {
    for (Duration passed; passed < d; passed = passed + seconds(1)) {
      rig.wait(seconds(1));
      for (const auto agent : agents) rig.say(agent, Heartbeat{});
    }
  }
  std::size_t told() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        rig.events, [](const EventRecord& e) { return e.kind == "block_not_measured"; }));
  }

  Rig rig;
};

TEST_F(ProfilingTest, APipelineWaitsForItsBlocks) {
  const auto a = rig.join("a"), b = rig.join("b");
  submit(two_stages());
  ASSERT_EQ(asked(a), 1u);
  EXPECT_EQ(rig.last<MeasureBlock>(a)->shape, block_shape(two_stages()));
  EXPECT_EQ(rig.last<MeasureBlock>(a)->layers, 2);
  EXPECT_EQ(asked(b), 1u);
  EXPECT_EQ(job().reason, JobReason::kMeasuring);
  EXPECT_EQ(job().detail, "2 devices measure a block of its model");
  answer(a, 10);
  pass(seconds(4), {a, b});
  EXPECT_EQ(job().detail, "1 device measures a block of its model");
  EXPECT_FALSE(is_placed(a)) << "the window for late devices is over, but b still measures";
  answer(b, 12);
  EXPECT_TRUE(is_placed(a) && is_placed(b)) << "planned at once";
  EXPECT_EQ(asked(a), 1u);
  const AgentRecord& first = rig.state().agents.at(AgentId(1));
  EXPECT_EQ(block_of(first, first.devices[0], shape())->block, milliseconds(10));
}

TEST_F(ProfilingTest, ALateDeviceIsPlannedByItsMatrixProduct) {
  const auto a = rig.join("a"), b = rig.join("b");
  submit(two_stages());
  answer(a, 10);
  pass(seconds(9), {a, b});
  EXPECT_FALSE(is_placed(b));
  pass(seconds(2), {a, b});
  EXPECT_TRUE(is_placed(a) && is_placed(b));
  answer(b, 12);
  const AgentRecord& second = rig.state().agents.at(AgentId(2));
  EXPECT_TRUE(block_of(second, second.devices[0], shape())) << "for the next job";
}

TEST_F(ProfilingTest, AnErrorEndsTheWaitAndIsTold) {
  const auto a = rig.join("a"), b = rig.join("b");
  submit(two_stages());
  pass(seconds(3), {a, b});
  answer(a, 10);
  rig.say(b, BlockMeasured{0, shape(), {}, "out of memory"});
  EXPECT_TRUE(is_placed(a) && is_placed(b));
  EXPECT_EQ(asked(b), 1u);
  ASSERT_EQ(told(), 1u);
  EXPECT_TRUE(std::ranges::any_of(rig.events, [](const EventRecord& e) {
    return e.message.find("device 0 of b") != std::string::npos &&
           e.message.find("out of memory") != std::string::npos;
  }));
}

TEST_F(ProfilingTest, AKnownBlockIsNotAskedAgain) {
  const auto a = rig.join("a"), b = rig.join("b");
  submit(two_stages());
  answer(a, 10);
  answer(b, 12);
  pass(seconds(3), {a, b});
  ASSERT_TRUE(is_placed(a) && is_placed(b));
  rig.input(CancelJob{RequestId{2}, JobId(1)});
  JobSpec next = two_stages();
  next.name = "next";
  submit(next);
  pass(seconds(3), {a, b});
  EXPECT_EQ(asked(a) + asked(b), 2u);
  EXPECT_EQ(rig.last<Assign>(a)->job, JobId(2));
}

TEST_F(ProfilingTest, DeviceThatOthersUse_IsNotMeasured) {
  const auto a = rig.join("a");
  const ConnectionId b{77};
  rig.input(AgentHello{b, hello_of_used_gpu()});
  rig.say(b, heartbeat_of_used_gpu());
  submit(two_stages());
  EXPECT_EQ(asked(a), 1u);
  EXPECT_EQ(asked(b), 0u);
}

TEST_F(ProfilingTest, ADryRunDisturbsNobody) {
  const auto a = rig.join("a"), b = rig.join("b");
  rig.input(SubmitJob{RequestId{1}, two_stages(), true});
  EXPECT_EQ(asked(a) + asked(b), 0u);
  ASSERT_TRUE(rig.replies.back().plan != nullptr);
  EXPECT_EQ(rig.replies.back().plan->forecast.speeds_assumed, 2);
}

TEST_F(ProfilingTest, JobsOfOneStageProgramsAndOldAgentsAreNotMeasured) {
  const auto a = rig.join("a");
  JobSpec whole = small_job("whole");
  whole.swarm.min_replicas = whole.swarm.max_replicas = 1;
  submit(whole);
  EXPECT_EQ(asked(a), 0u);
  EXPECT_TRUE(is_placed(a));
  rig.protocol = kMeasuresBlocksSince - 1;
  const auto b = rig.join("b"), c = rig.join("c");
  submit(two_stages());
  pass(seconds(3), {a, b, c});
  EXPECT_EQ(asked(b) + asked(c), 0u);
  EXPECT_TRUE(is_placed(b) && is_placed(c));
}

TEST_F(ProfilingTest, ACoordinatorThatIsStartedAgainAsksAgain) {
  auto a = rig.join("a"), b = rig.join("b");
  submit(two_stages());
  answer(a, 10);
  rig.restart();
  a = rig.join("a", {1}), b = rig.join("b", {1});
  pass(seconds(1), {a, b});  // until it plans again
  EXPECT_EQ(asked(a), 0u) << "its answer was kept";
  EXPECT_EQ(asked(b), 1u);
  EXPECT_EQ(job().reason, JobReason::kMeasuring);
  pass(seconds(3), {a, b});
  answer(b, 12);
  EXPECT_TRUE(is_placed(a) && is_placed(b));
}

TEST_F(ProfilingTest, AnAgentThatReturnsIsAskedAgain) {
  const auto a = rig.join("a");
  auto b = rig.join("b");
  submit(two_stages());
  answer(a, 10);
  rig.input(AgentHungUp{b});
  b = rig.join("b", {1});
  pass(seconds(1), {a, b});  // until it plans again
  EXPECT_EQ(asked(b), 1u);
  answer(b, 12);
  pass(seconds(3), {a, b});
  EXPECT_TRUE(is_placed(a) && is_placed(b));
}

TEST_F(ProfilingTest, AnAnswerNobodyAskedForIsIgnored) {
  const auto a = rig.join("a");
  answer(a, 10);
  EXPECT_TRUE(rig.state().agents.at(AgentId(1)).blocks.empty());
}

TEST_F(ProfilingTest, ADeviceThatMeasuresAnotherModelIsAskedAfterwards) {
  const auto a = rig.join("a"), b = rig.join("b");
  submit(two_stages());
  JobSpec other = two_stages();
  other.name = "other";
  other.model.hidden = 64;
  other.swarm.priority = 40;
  submit(other);
  EXPECT_EQ(asked(a), 1u);
  rig.input(CancelJob{RequestId{2}, JobId(1)});
  answer(a, 10);
  answer(b, 10);
  pass(seconds(2), {a, b});
  EXPECT_EQ(asked(a), 2u);
  EXPECT_EQ(rig.last<MeasureBlock>(a)->shape.hidden, 64);
}

TEST_F(ProfilingTest, AnotherVersionOfTheAgentForgetsItsBlocks) {
  const auto a = rig.join("a");
  rig.join("b");
  submit(two_stages());
  answer(a, 10);
  Hello hello{.uid = "uid-a", .name = "a", .version = "9.9.9", .host = "127.0.0.1"};
  hello.devices = rig.state().agents.at(AgentId(1)).devices;
  rig.input(AgentHello{ConnectionId{99}, hello});
  EXPECT_TRUE(rig.state().agents.at(AgentId(1)).blocks.empty());
}

}  // namespace
}  // namespace shoal::coordinator
