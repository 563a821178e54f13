// Whole pipelines in one process over loopback, with devices that wait a millisecond: rounds,
// evaluation, losses in the middle, joiners, slow lines. The devices check what they are given.
#include <numeric>

#include <gtest/gtest.h>

#include "swarm/pipeline/local_pipeline.h"

namespace shoal::swarm {
namespace {

constexpr Duration kPatience = seconds(60);

LocalOptions options(std::int32_t stages) {
  LocalOptions o;
  o.stages = stages;
  o.shape = {.sequences = 2, .context = 4, .hidden = 48, .vocab = 50};
  o.forward = milliseconds(1);
  o.backward = milliseconds(2);
  return o;
}

void add_all(LocalPipeline& pipeline, std::int32_t stages, int replicas) {
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    for (int i = 0; i < replicas; ++i) pipeline.add(stage);
  }
  pipeline.tell_view();
}

// Tokens whose gradients a stage took in the inner step.
std::int64_t tokens_of(LocalPipeline& pipeline, StageIndex stage, std::int64_t step) {
  std::int64_t sum = 0;
  for (const ReplicaId id : pipeline.of(stage)) {
    const LocalNews news = pipeline.at(id).news();
    for (std::size_t i = 0; i < news.steps.size(); ++i) {
      if (news.steps[i] == step) sum += news.step_tokens[i].count();
    }
  }
  return sum;
}

std::int64_t drawn(LocalPipeline& pipeline) {
  std::int64_t sum = 0;
  for (const ReplicaId id : pipeline.of(0)) {
    sum += pipeline.at(id).news().boundaries.back().drawn;
  }
  return sum;
}

void expect_forgotten(LocalPipeline& pipeline) {
  for (const ReplicaId id : pipeline.ids()) EXPECT_EQ(pipeline.at(id).tasks(), 0u) << id.n;
}

class RuntimeSchedules : public testing::TestWithParam<PipelineSchedule> {};

TEST_P(RuntimeSchedules, EveryMicrobatchIsTrainedOnceAtEveryStage) {
  LocalOptions o = options(3);
  o.schedule = GetParam();
  LocalPipeline pipeline(o);
  add_all(pipeline, 3, 2);
  for (int round = 0; round < 2; ++round) {
    pipeline.open(3, 24);
    ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
    EXPECT_EQ(drawn(pipeline), 3 * 24);
    pipeline.commit();
  }
  EXPECT_EQ(pipeline.step(), 6);
  for (std::int64_t step = 0; step < 6; ++step) {
    for (StageIndex stage = 0; stage < 3; ++stage) {
      EXPECT_EQ(tokens_of(pipeline, stage, step), 24 * 8) << step << " " << stage;
    }
  }
  for (const ReplicaId id : pipeline.of(0)) {
    EXPECT_DOUBLE_EQ(pipeline.at(id).news().last_loss, TimedCompute::kLoss);
  }
  expect_forgotten(pipeline);
}

INSTANTIATE_TEST_SUITE_P(All, RuntimeSchedules,
                         testing::Values(PipelineSchedule::kFlush,
                                         PipelineSchedule::kOneForwardOneBackward,
                                         PipelineSchedule::kTwoBufferedWeights),
                         [](const auto& info) { return "S" + std::string(to_string(info.param)); });

TEST(Runtime, EveryCodecAndALongLine) {
  for (const auto codec : {ActivationCodec::kFp32, ActivationCodec::kInt8}) {
    LocalOptions o = options(2);
    o.codec = codec;
    o.link = {.up_bytes_per_s = 50e6,
              .down_bytes_per_s = 50e6,
              .rtt = milliseconds(20),
              .jitter = milliseconds(2)};
    LocalPipeline pipeline(o);
    add_all(pipeline, 2, 2);
    pipeline.open(2, 16);
    ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
    EXPECT_EQ(drawn(pipeline), 2 * 16);
  }
}

TEST(Runtime, EntropyCodingMakesTrafficLess) {
  std::int64_t sent[2] = {0, 0};
  for (const bool coding : {false, true}) {
    LocalOptions o = options(2);
    o.entropy_coding = coding;
    LocalPipeline pipeline(o);
    add_all(pipeline, 2, 1);
    pipeline.open(2, 16);
    ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
    EXPECT_EQ(drawn(pipeline), 2 * 16);
    for (const LinkStats& link : pipeline.at(pipeline.of(0)[0]).stats().links) {
      sent[coding ? 1 : 0] += link.sent.count() + link.received.count();
    }
  }
  EXPECT_LT(static_cast<double>(sent[1]), 0.9 * static_cast<double>(sent[0]));
}

TEST(Runtime, OneStageNeedsNobody) {
  LocalPipeline pipeline(options(1));
  add_all(pipeline, 1, 1);
  pipeline.open(3, 4);
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  EXPECT_EQ(tokens_of(pipeline, 0, 2), 4 * 8);
  EXPECT_DOUBLE_EQ(pipeline.at(pipeline.of(0)[0]).news().last_loss, TimedCompute::kLoss);
}

TEST(Runtime, EvaluationIsPartOfTheNextRound) {
  LocalPipeline pipeline(options(3));
  add_all(pipeline, 3, 2);
  pipeline.open(1, 4);
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  pipeline.commit();
  const auto routers = pipeline.of(0);
  for (std::size_t i = 0; i < routers.size(); ++i) {
    const EvalSlice slice{static_cast<std::int64_t>(i), 2, 5};
    pipeline.at(routers[i]).tell([slice](StageRuntime& runtime) {
      runtime.evaluate({JobId(1), 0, 1}, slice);
    });
  }
  pipeline.open(2, 8);
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  std::int64_t tokens = 0;
  double loss = 0;
  for (const ReplicaId id : routers) {
    const auto evaluations = pipeline.at(id).news().evaluations;
    ASSERT_EQ(evaluations.size(), 1u);
    tokens += evaluations[0].tokens.count();
    loss += evaluations[0].loss_sum;
  }
  EXPECT_EQ(tokens, 5 * 2 * 8);  // batches of two microbatches
  EXPECT_DOUBLE_EQ(loss, TimedCompute::kLoss * static_cast<double>(tokens));
  expect_forgotten(pipeline);
}

// Kills a replica of `stage` when it has done some of the second step, and sees the round through.
void lose_one_of(StageIndex stage, PipelineSchedule schedule = PipelineSchedule::kFlush) {
  LocalOptions o = options(3);
  o.schedule = schedule;
  LocalPipeline pipeline(o);
  add_all(pipeline, 3, 2);
  pipeline.open(4, 40);
  const ReplicaId victim = pipeline.of(stage)[0];
  ASSERT_TRUE(pipeline.wait(kPatience, [&] { return !pipeline.at(victim).news().steps.empty(); }));
  pipeline.kill(victim);
  pipeline.tell_view();
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << stage << ": " << pipeline.failures();
  EXPECT_EQ(drawn(pipeline), stage == 0 ? 4 * 20 : 4 * 40);
  for (StageIndex each = 0; each < 3; ++each) {  // after the loss, nothing is lost any more
    EXPECT_GE(tokens_of(pipeline, each, 3), (stage == 0 ? 20 : 40) * 8) << each;
  }
  pipeline.commit();
  pipeline.open(1, 8);
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << stage << ": " << pipeline.failures();
  EXPECT_EQ(drawn(pipeline), 8);
  expect_forgotten(pipeline);
}

TEST(Runtime, ALostRouterTakesItsOwnMicrobatchesOnly) { lose_one_of(0); }
TEST(Runtime, ALostReplicaInTheMiddleIsReplaced) { lose_one_of(1); }
TEST(Runtime, ALostReplicaAtTheEndIsReplaced) { lose_one_of(2); }

TEST(Runtime, ALostReplicaWithTwoVersionsIsReplaced) {
  for (const StageIndex stage : {0, 1, 2}) {
    lose_one_of(stage, PipelineSchedule::kTwoBufferedWeights);
  }
}

// The next round is open meanwhile: its first step waits.
TEST(Runtime, ARouterSamplesFromTheCommittedParameters) {
  for (const std::int32_t stages : {1, 3}) {
    LocalPipeline pipeline(options(stages));
    add_all(pipeline, stages, stages == 1 ? 1 : 2);
    pipeline.open(1, 4);
    ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
    pipeline.commit();
    LocalReplica& router = pipeline.at(pipeline.of(0)[0]);
    router.tell([](StageRuntime& runtime) { runtime.sample({3, 4, 5, 6}); });
    pipeline.open(2, 8);
    ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
    EXPECT_EQ(router.news().sampled, (std::vector<std::uint32_t>{7, 8, 9, 10, 11, 12, 13, 14}));
    EXPECT_EQ(drawn(pipeline), 2 * 8);
    expect_forgotten(pipeline);
  }
}

TEST(Runtime, SamplingCanBeEndedAtAnyTime) {
  LocalOptions o = options(2);
  o.sample_tokens = 1'000'000;
  LocalPipeline pipeline(o);
  add_all(pipeline, 2, 1);
  pipeline.open(1, 4);
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  pipeline.commit();
  LocalReplica& router = pipeline.at(pipeline.of(0)[0]);
  router.tell([](StageRuntime& runtime) { runtime.sample({3, 4, 5, 6}); });
  pipeline.open(2, 8);
  ASSERT_TRUE(pipeline.wait(kPatience, [&] { return router.news().sampled.size() > 20; }));
  EXPECT_EQ(router.news().steps.size(), 1u) << "of the round before";
  router.tell([](StageRuntime& runtime) { runtime.end_sample(); });
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  expect_forgotten(pipeline);
}

TEST(Runtime, ALossIsFoundWithoutTheCoordinator) {
  LocalPipeline pipeline(options(2));
  add_all(pipeline, 2, 2);
  pipeline.open(3, 20);
  const ReplicaId victim = pipeline.of(1)[1];
  ASSERT_TRUE(pipeline.wait(kPatience, [&] { return !pipeline.at(victim).news().steps.empty(); }));
  pipeline.kill(victim);  // the view still has it
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  EXPECT_EQ(drawn(pipeline), 3 * 20);
}

TEST(Runtime, WhoHasNobodyToSendToWaits) {
  LocalOptions o = options(2);
  o.unreachable_limit = milliseconds(500);
  LocalPipeline pipeline(o);
  add_all(pipeline, 2, 1);
  pipeline.open(1000, 10);
  const ReplicaId router = pipeline.of(0)[0], other = pipeline.of(1)[0];
  ASSERT_TRUE(pipeline.wait(kPatience, [&] { return !pipeline.at(other).news().steps.empty(); }));
  pipeline.kill(other);
  ASSERT_TRUE(
      pipeline.wait(kPatience, [&] { return !pipeline.at(router).news().cut_off.empty(); }));
  const std::string why = pipeline.at(router).news().cut_off[0];
  EXPECT_NE(why.find(to_string(other)), std::string::npos) << why;
  const std::size_t steps = pipeline.at(router).news().steps.size();
  pipeline.add(1);
  pipeline.tell_view();
  pipeline.open(1000, 10);
  EXPECT_TRUE(pipeline.wait(kPatience, [&] {
    return pipeline.at(router).news().steps.size() > steps + 1;
  })) << pipeline.failures();
  EXPECT_FALSE(pipeline.at(router).news().failure.has_value());
}

TEST(Runtime, AJoinerTakesPartInTheNextRound) {
  LocalPipeline pipeline(options(2));
  add_all(pipeline, 2, 1);
  pipeline.open(2, 10);
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  pipeline.commit();
  const ReplicaId joiner = pipeline.add(1), router = pipeline.add(0);
  pipeline.tell_view();
  pipeline.open(2, 40);
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  EXPECT_EQ(pipeline.at(router).news().boundaries.back().drawn, 40);
  EXPECT_GT(pipeline.at(joiner).news().boundaries.back().tokens.count(), 0);
  for (StageIndex stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(tokens_of(pipeline, stage, 3), 40 * 8);
  }
}

TEST(Runtime, StatsTellTheTraffic) {
  LocalPipeline pipeline(options(2));
  add_all(pipeline, 2, 1);
  pipeline.open(3, 20);
  ASSERT_TRUE(pipeline.wait_for_boundary(kPatience)) << pipeline.failures();
  const PipelineStats stats = pipeline.at(pipeline.of(0)[0]).stats();
  EXPECT_EQ(stats.step, 3);
  EXPECT_EQ(stats.microbatches, 60);
  EXPECT_EQ(stats.dropped, 0);
  EXPECT_GT(stats.busy, 0.1);
  EXPECT_LE(stats.busy, 1.0);
  ASSERT_EQ(stats.links.size(), 1u);
  EXPECT_EQ(stats.links[0].to, pipeline.of(1)[0]);
  EXPECT_EQ(stats.links[0].microbatches, 60);
  EXPECT_GT(stats.links[0].sent.count(), 60 * 2 * 4 * 48 * 2);  // rows x hidden x bf16
  EXPECT_GT(stats.links[0].received.count(), 60 * 2 * 4 * 48 * 2);
}

}  // namespace
}  // namespace shoal::swarm
