// When host lines are measured, how many at a time, and how jobs wait for them.
#include "coordinator/core/replicas/line_probes.h"

#include <gmock/gmock.h>

#include "coordinator/core/pipelines_test_util.h"
#include "coordinator/core/state/blocks.h"
#include "coordinator/core/state/measured_lines.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct LineProbes : testing::Test {
  LineProbes() {
    rig.options.measure_limit = seconds(10);
    rig.restart();
  }
  // The stream of the line was measured.
  void answer(ConnectionId agent, HostLine line = {1e6, 2e6, microseconds(100)}) {
    rig.input(HostLineMeasured{agent, line});
  }
  void answer_block(ConnectionId agent) {
    rig.say(agent, BlockMeasured{0, shape_of(two_stages()), {milliseconds(10), {}, {}}});
  }
  void pass(Duration d, const std::vector<ConnectionId>& agents) {
    for (Duration passed; passed < d; passed = passed + seconds(1)) {
      rig.wait(seconds(1));
      for (const auto agent : agents) rig.say(agent, Heartbeat{});
    }
  }
  void submit() { ASSERT_TRUE(rig.submit(two_stages()).ok()); }
  const HostLine& line(std::uint64_t agent) const {
    return rig.state().agents.at(AgentId(agent)).line;
  }
  bool is_placed(ConnectionId agent) { return rig.last<Assign>(agent).has_value(); }
  Forecast planned() {
    rig.input(SubmitJob{RequestId{9}, two_stages(), true});
    return rig.replies.back().plan->forecast;
  }

  Rig rig;
};

TEST_F(LineProbes, AnAgentIsMeasuredSoonAfterItHasConnected) {
  const auto a = rig.join("a");
  EXPECT_THAT(rig.lines, IsEmpty());
  rig.wait(kLineProbeAfter);
  ASSERT_THAT(rig.lines, ElementsAre(a));
  answer(a);
  EXPECT_EQ(line(1).up, 1e6);
  EXPECT_EQ(line(1).down, 2e6);
  EXPECT_EQ(line(1).round_trip, microseconds(100));
  EXPECT_EQ(line(1).measured_at, rig.now);
}

TEST_F(LineProbes, IdleAgentsAreMeasuredOneAtATimeAndNotTooOften) {
  const auto a = rig.join("a"), b = rig.join("b"), c = rig.join("c");
  pass(seconds(6), {a, b, c});
  EXPECT_THAT(rig.lines, ElementsAre(a)) << "it has not answered";
  answer(a);
  EXPECT_THAT(rig.lines, ElementsAre(a, b));
  answer(b);
  pass(seconds(2), {a, b, c});
  EXPECT_THAT(rig.lines, ElementsAre(a, b));
  pass(seconds(1), {a, b, c});
  EXPECT_THAT(rig.lines, ElementsAre(a, b, c));
}

TEST_F(LineProbes, AJobWaitsForTheLinesOfItsDevices) {
  const auto a = rig.join("a"), b = rig.join("b");
  submit();
  EXPECT_THAT(rig.lines, ElementsAre(a, b)) << "both at once";
  EXPECT_EQ(rig.job(JobId(1)).reason, JobReason::kMeasuring);
  EXPECT_EQ(rig.job(JobId(1)).detail,
            "2 devices measure a block of its model, the lines of 2 agents are measured");
  answer_block(a), answer_block(b);
  answer(a);
  pass(seconds(3), {a, b});
  EXPECT_FALSE(is_placed(a));
  EXPECT_EQ(rig.job(JobId(1)).detail, "the line of 1 agent is measured");
  answer(b);
  EXPECT_TRUE(is_placed(a) && is_placed(b)) << "planned at once";
  EXPECT_THAT(rig.lines, SizeIs(2)) << "what is known is not measured again";
}

TEST_F(LineProbes, AJobDoesNotWaitForever) {
  const auto a = rig.join("a"), b = rig.join("b");
  submit();
  answer_block(a), answer_block(b);
  answer(a);
  pass(seconds(9), {a, b});
  EXPECT_FALSE(is_placed(b));
  pass(seconds(2), {a, b});
  EXPECT_TRUE(is_placed(a) && is_placed(b));
  answer(b);
  EXPECT_EQ(line(2).up, 1e6) << "for the next job";
}

TEST_F(LineProbes, AreAFewAtATimeForAJob) {
  std::vector<ConnectionId> agents;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) agents.push_back(rig.join(name));
  submit();
  EXPECT_THAT(rig.lines, SizeIs(kLineProbesMax));
  answer(agents[1]);
  EXPECT_THAT(rig.lines, SizeIs(kLineProbesMax + 1));
  answer(agents[0]);
  EXPECT_EQ(rig.lines.back(), agents[5]);
}

TEST_F(LineProbes, ThePlanSaysWhatItGoesBy) {
  const auto a = rig.join("a"), b = rig.join("b");
  EXPECT_EQ(planned().lines.assumed, 2);
  EXPECT_THAT(rig.lines, IsEmpty()) << "a dry run measures nothing";
  rig.wait(kLineProbeAfter);
  answer(a);
  rig.wait(kLineProbeEvery);
  answer(b);
  EXPECT_EQ(planned().lines.assumed, 0);
  EXPECT_EQ(planned().lines.to_coordinator, 2);
}

TEST_F(LineProbes, AFreshLineOutlivesTheCoordinatorAndTheStream) {
  auto a = rig.join("a");
  rig.wait(kLineProbeAfter);
  answer(a);
  rig.restart();
  a = rig.join("a", {1});
  pass(seconds(5), {a});
  EXPECT_THAT(rig.lines, IsEmpty());
  rig.now = rig.now + kLinkFresh;
  a = rig.join("a", {1});
  rig.wait(kLineProbeAfter);
  EXPECT_THAT(rig.lines, ElementsAre(a));
}

TEST_F(LineProbes, ALostStreamEndsTheMeasurement) {
  const auto a = rig.join("a"), b = rig.join("b"), c = rig.join("c");
  submit();
  for (const auto agent : {a, b, c}) answer_block(agent);
  answer(a), answer(b);
  pass(seconds(3), {a, b, c});
  EXPECT_FALSE(is_placed(a));
  rig.input(AgentHungUp{c});
  EXPECT_TRUE(is_placed(a) && is_placed(b));
  answer(c);
  EXPECT_EQ(line(3).up, 0) << "of an older stream";
}

TEST_F(LineProbes, AnAgentThatDidNotAnswerIsMeasuredAgain) {
  auto a = rig.join("a");
  rig.wait(kLineProbeAfter);
  answer(a, {.up = 2e4, .down = 2e4});
  EXPECT_EQ(line(1).up, 2e4) << "its line counts as slow meanwhile";
  rig.input(AgentHungUp{a});
  a = rig.join("a", {1});
  pass(seconds(4), {a});
  EXPECT_EQ(rig.lines.back(), a);
}

TEST_F(LineProbes, AnAgentThatDidNotAnswerIsMeasuredAgainOnTheSameStream) {
  const auto a = rig.join("a"), b = rig.join("b");
  rig.wait(kLineProbeAfter);
  answer(a, {.up = 2e4, .down = 2e4});
  pass(kLineProbeEvery, {a, b});
  answer(b);
  pass(kLineProbeAgain - kLineProbeEvery - seconds(1), {a, b});
  EXPECT_THAT(rig.lines, ElementsAre(a, b));
  pass(seconds(1), {a, b});
  ASSERT_THAT(rig.lines, ElementsAre(a, b, a));
  answer(a);
  EXPECT_EQ(line(1).up, 1e6);
  pass(kLineProbeAgain + seconds(1), {a, b});
  EXPECT_THAT(rig.lines, SizeIs(3)) << "it is known now";
}

TEST_F(LineProbes, ALostStreamEndsTheWaitForAnotherMeasurement) {
  const auto a = rig.join("a");
  rig.wait(kLineProbeAfter);
  answer(a, {.up = 2e4, .down = 2e4});
  rig.input(AgentHungUp{a});
  EXPECT_FALSE(rig.state().lines.idle_due);
  pass(kLineProbeAgain, {});
  EXPECT_THAT(rig.lines, SizeIs(1));
}

TEST_F(LineProbes, AnAnswerNobodyAskedForIsIgnored) {
  const auto a = rig.join("a");
  answer(a);
  EXPECT_EQ(line(1), HostLine());
}

TEST_F(LineProbes, OldAgentsAreNotAsked) {
  rig.protocol = kMeasuresLinesSince - 1;
  const auto a = rig.join("a"), b = rig.join("b");
  submit();
  answer_block(a), answer_block(b);
  pass(seconds(3), {a, b});
  EXPECT_THAT(rig.lines, IsEmpty());
  EXPECT_TRUE(is_placed(a) && is_placed(b));
}

TEST_F(LineProbes, AnAgentWithAnotherAddressHasAnotherLine) {
  const auto a = rig.join("a");
  rig.wait(kLineProbeAfter);
  answer(a);
  Hello hello{.uid = "uid-a", .name = "a", .host = "10.0.0.9"};
  hello.devices = rig.state().agents.at(AgentId(1)).devices;
  rig.input(AgentHello{ConnectionId{99}, hello});
  EXPECT_EQ(line(1), HostLine());
}

TEST_F(LineProbes, WithoutALimitNothingIsMeasured) {
  rig.options.measure_limit = {};
  rig.restart();
  const auto a = rig.join("a");
  pass(seconds(5), {a});
  EXPECT_THAT(rig.lines, IsEmpty());
}

}  // namespace
}  // namespace shoal::coordinator
