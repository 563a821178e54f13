// With the real helper process and the stand-in for NVML. Each test ends as soon as it has seen
// what it waits for.
#include "agent/host/gpu_watch.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <unistd.h>

#include "agent/host/fake_gpus_test_util.h"
#include "threads/clock.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GpuWatchTest : public testing::Test {
 protected:
  void watch(DriverOptions driver = FakeGpus::driver()) {
    std::vector<GpuWatch::Gpu> gpus;
    for (const char* name : {"a", "b", "c"})
      gpus.push_back({std::string("GPU-") + name, Bytes(1'000'000'000)});
    watch_.emplace(std::move(driver), gpus, std::set<pid_t>(), milliseconds(10));
    ASSERT_TRUE(watch_->wait_for(1, seconds(60)));
  }
  DeviceSample sample(const std::string& name) {
    for (const DeviceSample& each : watch_->samples()) {
      if (each.uuid == "GPU-" + name) return each;
    }
    return {};
  }
  DeviceAnswer answer(const std::string& name) { return sample(name).answer; }
  template <typename Predicate>
  bool eventually(Predicate is_so) {
    const Instant until = steady_now() + seconds(60);
    while (steady_now() < until) {
      const int seen = watch_->rounds();
      if (is_so()) return true;
      watch_->wait_for(seen + 1, seconds(60));
    }
    return false;
  }
  std::int64_t xids(const std::string& name, std::int32_t xid) {
    const DeviceSample now = sample(name);
    if (!now.errors) return 0;
    const auto found = std::ranges::find(now.errors->xids, xid, &XidCount::xid);
    return found == now.errors->xids.end() ? 0 : found->count;
  }

  FakeGpus gpus_{"a", "b", "c"};
  std::optional<GpuWatch> watch_;
};

TEST_F(GpuWatchTest, KnowsEachGpuAndFollowsIt) {
  gpus_.set("b/temperature", "64");
  watch();
  EXPECT_EQ(answer("a"), DeviceAnswer::kWhole);
  EXPECT_EQ(sample("b").climate->celsius, 64);
  EXPECT_EQ(sample("c").errors->recovery, RecoveryAction::kNone);
  gpus_.set("b/throttle", "64");  // asked after the temperature
  gpus_.set("b/temperature", "90");
  gpus_.set("c/230", "2");
  EXPECT_TRUE(eventually([&] { return sample("b").climate->celsius == 90; }));
  EXPECT_TRUE(
      eventually([&] { return sample("c").errors->recovery == RecoveryAction::kRebootHost; }));
  EXPECT_THAT(sample("b").climate->throttled, ElementsAre("hw_thermal_slowdown"));
}

TEST_F(GpuWatchTest, OneThatHangsCostsItselfOnly) {
  gpus_.set("b/temperature", "64");
  watch();
  gpus_.set("b/hang", "60");
  ASSERT_TRUE(eventually([&] { return answer("b") == DeviceAnswer::kSilent; }));
  EXPECT_EQ(sample("b").error, "no answer within 2 s");
  EXPECT_EQ(sample("b").climate->celsius, 64) << "as it was";
  EXPECT_GE(sample("b").age, seconds(2));
  gpus_.set("c/temperature", "78");
  EXPECT_TRUE(eventually([&] { return sample("c").climate->celsius == 78; }));
  EXPECT_EQ(answer("a"), DeviceAnswer::kWhole);
  EXPECT_EQ(answer("b"), DeviceAnswer::kSilent);
}

TEST_F(GpuWatchTest, OneThatHangsFromTheStartCostsItselfOnly) {
  gpus_.set("a/hang", "60");
  watch();
  EXPECT_EQ(answer("a"), DeviceAnswer::kSilent);
  EXPECT_EQ(answer("b"), DeviceAnswer::kWhole);
  EXPECT_EQ(answer("c"), DeviceAnswer::kWhole);
}

TEST_F(GpuWatchTest, OneThatEndsItsCallerCostsItselfOnly) {
  gpus_.set("c/abort", "");
  watch();
  EXPECT_EQ(answer("c"), DeviceAnswer::kSilent);
  EXPECT_THAT(sample("c").error, HasSubstr("(Aborted)"));
  EXPECT_EQ(answer("a"), DeviceAnswer::kWhole);
  EXPECT_EQ(answer("b"), DeviceAnswer::kWhole);
}

TEST_F(GpuWatchTest, OneThatFellOffItsBusIsLostWithWhatItReported) {
  watch();
  gpus_.set("b/xid", "79");
  ASSERT_TRUE(eventually([&] { return xids("b", 79) == 1; }));
  gpus_.set("b/gone", "");
  ASSERT_TRUE(eventually([&] { return answer("b") == DeviceAnswer::kLost; }));
  EXPECT_EQ(sample("b").error, "GPU is lost");
  EXPECT_EQ(xids("b", 79), 1);
}

// GPU 0 of 3 is lost, and the driver starts anew with two, which it numbers from 0.
TEST_F(GpuWatchTest, ThoseThatAreNumberedAnewAreFoundByTheirUuids) {
  watch();
  gpus_.set("a/gone", "");
  ASSERT_TRUE(eventually([&] { return answer("a") == DeviceAnswer::kLost; }));
  gpus_.set("c/abort", "");  // ends the helper
  ASSERT_TRUE(eventually([&] { return answer("c") == DeviceAnswer::kSilent; }));
  gpus_.set("b/temperature", "80");
  EXPECT_TRUE(eventually([&] { return sample("b").climate->celsius == 80; }));
  EXPECT_EQ(answer("a"), DeviceAnswer::kLost);
}

TEST_F(GpuWatchTest, XidsAreCountedOnceEachAlsoAcrossHelpers) {
  watch();
  gpus_.set("a/xid", "79 13");
  ASSERT_TRUE(eventually([&] { return xids("a", 79) == 1 && xids("a", 13) == 1; }));
  gpus_.set("c/abort", "");
  ASSERT_TRUE(eventually([&] { return answer("c") == DeviceAnswer::kSilent; }));
  gpus_.set("a/xid", "79");
  ASSERT_TRUE(eventually([&] { return xids("a", 79) == 2; }));
  EXPECT_EQ(xids("a", 13), 1);
  EXPECT_EQ(xids("b", 79), 0);
}

TEST_F(GpuWatchTest, OneThatAnswersHalfOrCountsBackwardsSaysSo) {
  gpus_.set("b/5", "5");
  gpus_.set("c/partial", "fields");
  watch();
  gpus_.set("a/partial", "power");
  ASSERT_TRUE(eventually([&] { return answer("a") == DeviceAnswer::kPartial; }));
  EXPECT_EQ(sample("a").error, "power: Unknown Error");
  EXPECT_FALSE(sample("a").climate);
  gpus_.set("b/5", "3");
  ASSERT_TRUE(eventually([&] { return answer("b") == DeviceAnswer::kPartial; }));
  EXPECT_EQ(sample("b").error, "ecc_corrected went back from 5 to 3");
  EXPECT_EQ(sample("b").errors->ecc_corrected, 5);
  EXPECT_EQ(answer("c"), DeviceAnswer::kWhole) << "it has never answered that question";
  EXPECT_EQ(sample("c").error, "it has never answered: error counts (Unknown Error)");
}

TEST_F(GpuWatchTest, ADriverThatDoesNotStartSilencesAllAndHoldsUpNothing) {
  gpus_.set("init_hang", "60");
  DriverOptions driver = FakeGpus::driver();
  driver.start_limit = milliseconds(200);
  watch(driver);
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(answer(name), DeviceAnswer::kSilent);
    EXPECT_EQ(sample(name).error, "no answer within 200 ms");
  }
  EXPECT_THAT(watch_->memory(), IsEmpty());
}

TEST_F(GpuWatchTest, MemoryIsTheTotalLessWhatOthersHold) {
  gpus_.set("a/used", "12000000000");
  gpus_.set("a/processes", std::to_string(getpid()) + " 9000000000\n1 2000000000\n");
  gpus_.set("b/used", "12000000000");  // no process is seen, as in a container
  gpus_.set("c/used", "12000000000");
  gpus_.set("c/processes", "1 12000000000\n");
  watch();
  std::vector<Bytes> memory;
  for (const MeasuredMemory& each : watch_->memory()) memory.push_back(each.memory);
  EXPECT_THAT(memory,
              ElementsAre(Bytes(147'000'000'000), Bytes(149'000'000'000), Bytes(138'000'000'000)));
  EXPECT_NEAR(static_cast<double>(sample("a").use->used_here.count()), 9e9, 64 << 20);
}

}  // namespace
}  // namespace shoal::agent
