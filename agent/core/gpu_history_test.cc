#include "agent/core/gpu_history.h"

#include <numeric>

#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Instant kStart = from_unix_ms(1'000'000);

GpuReading reading() {
  GpuReading reading{.uuid = "GPU-aa11"};
  reading.has_memory = reading.has_load = reading.has_climate = reading.has_counters = true;
  reading.memory_total = mebibytes(80'000).count();
  reading.memory_used = mebibytes(640).count();
  reading.celsius = 34;
  reading.watts = 70;
  reading.watts_limit = 700;
  reading.mhz = 350;
  reading.mhz_max = 1980;
  reading.ecc_corrected = 5;
  return reading;
}

class GpuHistoryTest : public testing::Test {
 protected:
  void answer(const GpuReading& said) { history_.answered(now_, said, false, std::nullopt); }
  DeviceSample sample() { return history_.sample(now_).value(); }
  void wait(Duration duration) { now_ = now_ + duration; }

  GpuHistory history_{"GPU-aa11", mebibytes(640)};
  Instant now_ = kStart;
};

TEST_F(GpuHistoryTest, ASampleHasWhatTheDriverAnswered) {
  EXPECT_FALSE(history_.sample(now_)) << "it was not asked yet";
  answer(reading());
  EXPECT_EQ(sample().answer, DeviceAnswer::kWhole);
  EXPECT_EQ(sample().use->used_elsewhere, mebibytes(640));
  EXPECT_EQ(sample().climate->celsius, 34);
  EXPECT_EQ(sample().climate->watts_limit, 700);
  EXPECT_EQ(sample().errors->ecc_corrected, 5);
  EXPECT_EQ(history_.usable_memory(), mebibytes(80'000 - 640));
}

TEST_F(GpuHistoryTest, AnIdleGpuHasNoNews) {
  answer(reading());
  const DeviceSample before = sample();
  GpuReading next = reading();
  next.celsius = 35;
  next.watts = 78;
  next.busy = 0.04;
  next.memory_used += 1 << 20;
  wait(seconds(10));
  answer(next);
  EXPECT_FALSE(is_news(before, sample()));
  next.celsius = 36;
  answer(next);
  EXPECT_TRUE(is_news(before, sample()));
}

TEST_F(GpuHistoryTest, HalfAnAnswerIsPartialAndNamesTheFirstQuestion) {
  GpuReading half = reading();
  half.has_climate = false;
  half.error = "power: Unknown Error";
  answer(half);
  EXPECT_EQ(sample().answer, DeviceAnswer::kPartial);
  EXPECT_EQ(sample().error, "power: Unknown Error");
  EXPECT_FALSE(sample().climate);
  EXPECT_TRUE(sample().use);
}

TEST_F(GpuHistoryTest, AQuestionThatWasNeverAnsweredIsNoFault) {
  GpuReading without_power = reading();
  without_power.has_climate = false;
  without_power.error = "power: Unknown Error";
  without_power.questions = {{"utilization", ""}, {"power", "Unknown Error"}};
  answer(without_power);
  EXPECT_EQ(sample().answer, DeviceAnswer::kWhole);
  EXPECT_EQ(sample().error, "it has never answered: power (Unknown Error)");
  const DeviceSample told = sample();
  wait(seconds(10));
  answer(without_power);
  EXPECT_FALSE(is_news(told, sample())) << "it is told once";

  GpuReading half = without_power;
  half.error = "utilization: Timeout";
  half.questions[0].error = "Timeout";
  answer(half);
  EXPECT_EQ(sample().answer, DeviceAnswer::kPartial) << "this one was answered before";
  EXPECT_EQ(sample().error, "utilization: Timeout");

  GpuReading whole = reading();
  whole.questions = {{"utilization", ""}, {"power", ""}};
  answer(whole);
  EXPECT_EQ(sample().error, "");
  answer(without_power);
  EXPECT_EQ(sample().answer, DeviceAnswer::kPartial) << "it was answered since";
}

TEST_F(GpuHistoryTest, AQuestionThatIsAskedLaterMayNeverBeAnsweredEither) {
  GpuReading first = reading();
  first.questions = {{"temperature", "Timeout"}};
  answer(first);
  first.questions = {{"temperature", ""}, {"power", "Unknown Error"}};
  answer(first);
  EXPECT_EQ(sample().answer, DeviceAnswer::kWhole);
  EXPECT_EQ(sample().error, "it has never answered: power (Unknown Error)");
}

TEST_F(GpuHistoryTest, ACounterThatGoesBackKeepsItsHighestValue) {
  answer(reading());
  GpuReading back = reading();
  back.ecc_corrected = 3;
  answer(back);
  EXPECT_EQ(sample().errors->ecc_corrected, 5);
  EXPECT_EQ(sample().answer, DeviceAnswer::kPartial);
  EXPECT_EQ(sample().error, "ecc_corrected went back from 5 to 3");
  answer(reading());
  EXPECT_EQ(sample().answer, DeviceAnswer::kWhole);
}

TEST_F(GpuHistoryTest, XidsAreCountedEachAndKnowTheirAge) {
  answer(reading());
  history_.reported(now_, {13, 79});
  wait(seconds(10));
  history_.reported(now_, {13});
  wait(seconds(5));
  EXPECT_THAT(sample().errors->xids,
              ElementsAre(XidCount{13, 2, seconds(5)}, XidCount{79, 1, seconds(15)}));
  const DeviceSample told = sample();
  wait(seconds(5));
  EXPECT_FALSE(is_news(told, sample())) << "time has passed, nothing else";
  history_.reported(now_, {13});
  EXPECT_TRUE(is_news(told, sample()));
}

TEST_F(GpuHistoryTest, XidsOfAGpuThatFellOffItsBusCount) {
  history_.reported(now_, {79});
  history_.failed(now_, "GPU is lost", true);
  EXPECT_EQ(sample().answer, DeviceAnswer::kLost);
  EXPECT_THAT(sample().errors->xids, ElementsAre(XidCount{79, 1, {}}));
}

TEST_F(GpuHistoryTest, ASilentOneKeepsItsValuesAndTellsTheirAge) {
  answer(reading());
  wait(seconds(15));
  history_.failed(now_, "no answer within 5 s", false);
  EXPECT_EQ(sample().answer, DeviceAnswer::kSilent);
  EXPECT_EQ(sample().age, seconds(15));
  EXPECT_EQ(sample().climate->celsius, 34);
  const DeviceSample told = sample();
  wait(seconds(15));
  EXPECT_FALSE(is_news(told, sample()));
  wait(seconds(1));
  EXPECT_TRUE(is_news(told, sample())) << "its age has doubled";
  answer(reading());
  EXPECT_EQ(sample().age, Duration());
  EXPECT_EQ(sample().error, "");
}

TEST_F(GpuHistoryTest, ASilentOneIsAskedAgainAfterEverLongerRests) {
  for (const int rest : {10, 20, 40, 80, 160, 320, 600, 600}) {
    history_.failed(now_, "no answer", rest == 600);
    wait(seconds(rest) - nanoseconds(1));
    EXPECT_FALSE(history_.is_due(now_)) << rest;
    wait(nanoseconds(1));
    EXPECT_TRUE(history_.is_due(now_)) << rest;
  }
  EXPECT_TRUE(history_.is_lost());
  answer(reading());
  EXPECT_TRUE(history_.is_due(now_));
  history_.failed(now_, "no answer", false);
  wait(seconds(10));
  EXPECT_TRUE(history_.is_due(now_)) << "it starts over";
}

TEST_F(GpuHistoryTest, WhatADriverInventsStaysInBounds) {
  GpuReading wild = reading();
  wild.busy = 99;
  wild.celsius = -5;
  wild.recovery = 77;
  wild.memory_total = wild.memory_used = -1;
  wild.throttled.assign(40, "sw_power_cap");
  std::vector<std::int32_t> xids(100);
  std::iota(xids.begin(), xids.end(), 1);
  history_.reported(now_, xids);
  wild.error = std::string(1000, 'x') + "\n\x01";
  answer(wild);
  EXPECT_EQ(sample().use->busy, 1);
  EXPECT_EQ(sample().climate->celsius, 0);
  EXPECT_EQ(sample().errors->recovery, RecoveryAction::kResetGpu) << "it wants something";
  EXPECT_THAT(sample().climate->throttled, SizeIs(kThrottleReasonsMax));
  EXPECT_THAT(sample().errors->xids, SizeIs(kXidsMax));
  EXPECT_LE(sample().error.size(), kDeviceErrorBytesMax);
  EXPECT_FALSE(history_.usable_memory());
}

// ---- in the core

class NewsTest : public AgentFixture {
 protected:
  std::vector<DeviceSample> beat(const std::vector<DeviceSample>& samples) {
    step(HostMeasured{.resident = {}, .samples = samples});
    while (said<Heartbeat>().empty()) EXPECT_TRUE(wake());
    return said<Heartbeat>()[0].samples;
  }
};

TEST_F(NewsTest, HeartbeatsTellOnlyWhatHasChanged) {
  serve();
  DeviceSample sample{.uuid = "GPU-aa11", .answer = DeviceAnswer::kWhole};
  sample.errors = DeviceErrors{.xids = {{79, 1, seconds(1)}}};
  EXPECT_THAT(beat({sample}), ElementsAre(sample));
  sample.errors->xids[0].ago = seconds(9);
  EXPECT_THAT(beat({sample}), IsEmpty());
  sample.errors->xids[0].count = 2;
  EXPECT_THAT(beat({sample}), ElementsAre(sample));
  reconnect();
  connect({ReplicaId(1)});
  EXPECT_THAT(beat({sample}), ElementsAre(sample)) << "the session is a new one";
}

}  // namespace
}  // namespace shoal::agent
