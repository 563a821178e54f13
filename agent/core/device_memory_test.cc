#include "agent/core/device_memory.h"

#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr Bytes kTotal = mebibytes(64'000);
constexpr Instant kStart = from_unix_ms(1'000'000);

TEST(DeviceMemory, AChangeOfASixtyFourthOfTheTotalIsNews) {
  EXPECT_FALSE(is_news(mebibytes(60'000), mebibytes(60'999), kTotal));
  EXPECT_TRUE(is_news(mebibytes(60'000), mebibytes(61'000), kTotal));
  EXPECT_TRUE(is_news(mebibytes(60'000), mebibytes(59'000), kTotal));
  EXPECT_FALSE(is_news(mebibytes(6'400), mebibytes(6'499), Bytes())) << "the total is not known";
  EXPECT_TRUE(is_news(mebibytes(6'400), mebibytes(6'500), Bytes()));
  EXPECT_FALSE(is_news(Bytes(), Bytes(), Bytes()));
}

TEST(DeviceMemory, ProcessorsGiveFourFifthsOfTheRoomOrWhatIsDeclared) {
  EXPECT_EQ(usable_of_host(Bytes(1000), Bytes()), Bytes(800));
  EXPECT_EQ(usable_of_host(Bytes(1000), Bytes(900)), Bytes(900));
  EXPECT_EQ(usable_of_host(Bytes(1000), Bytes(2000)), Bytes(1000));
}

TEST(GpuMemory, ListedProcessesOfOthersLowerIt) {
  GpuMemory memory{mebibytes(1'000)};
  EXPECT_TRUE(memory.wants_list(kStart));
  memory.take(kStart, kTotal, mebibytes(21'000), true, mebibytes(5'000));
  EXPECT_EQ(memory.used_here(), mebibytes(5'000));
  EXPECT_EQ(memory.used_elsewhere(), mebibytes(16'000));
  EXPECT_EQ(memory.usable(), mebibytes(48'000));
  memory.take(kStart + seconds(60), kTotal, mebibytes(6'000), true, mebibytes(5'000));
  EXPECT_EQ(memory.usable(), mebibytes(63'000)) << "it rises again";
}

TEST(GpuMemory, ProcessesAreListedOnceAMinuteAndOnlyAfterAChange) {
  GpuMemory memory{Bytes()};
  memory.take(kStart, kTotal, mebibytes(2'000), true, Bytes());
  EXPECT_FALSE(memory.wants_list(kStart + seconds(3'600))) << "nothing has changed";
  memory.take(kStart + seconds(10), kTotal, mebibytes(9'000), false, std::nullopt);
  EXPECT_EQ(memory.used_here(), mebibytes(7'000)) << "the trainers', until the list says otherwise";
  EXPECT_FALSE(memory.wants_list(kStart + seconds(59)));
  EXPECT_TRUE(memory.wants_list(kStart + seconds(60)));
}

TEST(GpuMemory, WhereNoProcessIsSeenOthersHoldWhatWasUsedAtTheStart) {
  GpuMemory memory{mebibytes(3'000)};
  memory.take(kStart, kTotal, mebibytes(30'000), true, std::nullopt);
  EXPECT_EQ(memory.used_here(), mebibytes(27'000));
  EXPECT_EQ(memory.usable(), mebibytes(61'000));
  memory.take(kStart, kTotal, mebibytes(2'000), true, std::nullopt);
  EXPECT_EQ(memory.usable(), mebibytes(62'000)) << "others gave some back";
}

TEST(GpuMemory, NumbersThatContradictEachOtherStayInBounds) {
  GpuMemory memory{Bytes()};
  memory.take(kStart, mebibytes(10), mebibytes(20), true, mebibytes(99));
  EXPECT_EQ(memory.used_here(), mebibytes(10));
  EXPECT_EQ(memory.usable(), mebibytes(10));
}

// ---- in the core

Options named_devices() {
  Options options = test_options();
  for (Device& device : options.devices) {
    device.uuid = "GPU-" + std::to_string(device.index);
    device.total = kDeviceMemory;
  }
  return options;
}

class DeviceMemoryTest : public AgentFixture {
 protected:
  DeviceMemoryTest() : AgentFixture(named_devices()) {}
  void measure(const std::string& uuid, Bytes memory) {
    step(HostMeasured{.resident = {}, .memory = {{uuid, memory}}});
  }
};

TEST_F(DeviceMemoryTest, ItIsToldWhenItFallsAndWhenItRises) {
  serve();
  measure("GPU-1", mebibytes(1024));
  ASSERT_THAT(said<DeviceMeasured>(), SizeIs(1));
  const Device told = said<DeviceMeasured>()[0].device;
  EXPECT_EQ(told.index, 1);
  EXPECT_EQ(told.uuid, "GPU-1");
  EXPECT_EQ(told.memory, mebibytes(1024));
  EXPECT_EQ(told.gflops, 50) << "as its trainer measured it";
  measure("GPU-1", mebibytes(1024 + 63));
  EXPECT_THAT(said<DeviceMeasured>(), IsEmpty());
  measure("GPU-1", kDeviceMemory);
  ASSERT_THAT(said<DeviceMeasured>(), SizeIs(1));
  EXPECT_EQ(said<DeviceMeasured>()[0].device.memory, kDeviceMemory);
}

TEST_F(DeviceMemoryTest, TheFirstHelloHasWhatWasReadBefore) {
  measure("GPU-0", mebibytes(512));
  boot();
  const auto devices = one<OpenLink>().hello.devices;
  EXPECT_EQ(devices[0].memory, mebibytes(512));
  EXPECT_EQ(devices[1].memory, kDeviceMemory);
}

// The trainers that were left hold memory; what they measure does not lower it.
TEST_F(DeviceMemoryTest, ARestartWhileItsTrainersLiveChangesNothing) {
  measure("GPU-0", mebibytes(3000));
  const TrainerIdentity none{};
  step(Booted{{{{0, 4}, 0, none}, {{1, 4}, 1, none}}});
  for (const std::int32_t slot : {0, 1}) {
    const Device low{slot, DeviceKind::kCuda, "gpu", mebibytes(100), 50, false};
    step(TrainerAttached{{slot, 4}, {slot, low, "10.0.0.4:7100", "libtorch"}});
  }
  const auto devices = one<OpenLink>().hello.devices;
  EXPECT_EQ(devices[0].memory, mebibytes(3000));
  EXPECT_EQ(devices[0].gflops, 50);
  EXPECT_EQ(devices[0].uuid, "GPU-0");
  EXPECT_EQ(devices[0].total, kDeviceMemory);
  EXPECT_EQ(devices[1].memory, mebibytes(100)) << "its driver was not read";
}

TEST_F(DeviceMemoryTest, WhatChangedWhileTheLinkWasDownIsToldByTheNextHello) {
  serve();
  lose_link();
  measure("GPU-0", mebibytes(1024));
  EXPECT_THAT(said<DeviceMeasured>(), IsEmpty());
  while (all<OpenLink>().empty()) ASSERT_TRUE(wake());
  EXPECT_EQ(one<OpenLink>().hello.devices[0].memory, mebibytes(1024));
}

}  // namespace
}  // namespace shoal::agent
