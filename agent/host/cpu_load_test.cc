#include "agent/host/cpu_load.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

struct CpuLoadTest : testing::Test {
  CpuLoadTest() {
    write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n");
    ticks("1000 0 0 9000 0 0 0 0");
  }
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = folder.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void ticks(const std::string& numbers) { write("/proc/stat", "cpu  " + numbers + " 0 0\n"); }

  TestFolder folder;
  CpuLoad load{folder.path()};
};

TEST_F(CpuLoadTest, IsTheShareOfTheTimeSinceTheLastSample) {
  EXPECT_EQ(load.sample({}).use->busy, 0) << "there was none";
  ticks("1400 0 100 9300 100 0 0 100");
  const DeviceSample sample = load.sample({});
  EXPECT_EQ(sample.answer, DeviceAnswer::kWhole);
  EXPECT_DOUBLE_EQ(sample.use->busy, 0.6);
  EXPECT_DOUBLE_EQ(sample.use->stolen, 0.1);
}

TEST_F(CpuLoadTest, LoadOfOthersIsWhatThisAgentAndAHypervisorLeave) {
  (void)load.sample({}, 4'000);
  ticks("1400 0 100 9300 100 0 0 100");
  const DeviceSample sample = load.sample({}, 4'200);
  EXPECT_DOUBLE_EQ(sample.use->busy, 0.6);
  EXPECT_DOUBLE_EQ(sample.use->busy_elsewhere, 0.3) << "0.1 is stolen, and 0.2 its own";
  ticks("2400 0 100 9300 100 0 0 100");
  EXPECT_DOUBLE_EQ(load.sample({}, 3'000).use->busy_elsewhere, 1) << "one of its own has ended";
}

TEST_F(CpuLoadTest, LoadOfOthersOnProcessorsThatThisAgentDoesNotWantIsNone) {
  CpuLoad half{folder.path(), 0.5};
  (void)half.sample({});
  ticks("1400 0 100 9300 100 0 0 100");
  EXPECT_DOUBLE_EQ(half.sample({}).use->busy_elsewhere, 0) << "half of the host is 0.5 busy";
  ticks("2200 0 100 9500 100 0 0 100");
  EXPECT_DOUBLE_EQ(half.sample({}).use->busy_elsewhere, 0.6) << "others take 0.8 of the host";
}

TEST_F(CpuLoadTest, MemoryIsThatOfThisAgentAndOfOthers) {
  const DeviceSample sample = load.sample(mebibytes(1024));
  EXPECT_EQ(sample.use->used_here, mebibytes(1024));
  EXPECT_EQ(sample.use->used_elsewhere, mebibytes(3072));
}

TEST_F(CpuLoadTest, TheHottestZoneCounts) {
  EXPECT_FALSE(load.sample({}).climate);
  write("/sys/class/thermal/thermal_zone0/temp", "41000\n");
  write("/sys/class/thermal/thermal_zone1/temp", "72400\n");
  write("/sys/class/thermal/thermal_zone2/temp", "no\n");
  write("/sys/class/thermal/cooling_device0/temp", "99000\n");
  EXPECT_EQ(load.sample({}).climate->celsius, 72);
}

TEST_F(CpuLoadTest, SmallChangesAreNoNews) {
  (void)load.sample(mebibytes(1024));
  ticks("1500 0 0 9500 0 0 0 0");
  const DeviceSample before = load.sample(mebibytes(1024));
  ticks("2010 0 0 9990 0 0 0 0");
  EXPECT_EQ(load.sample(mebibytes(1030)), before);
}

TEST_F(CpuLoadTest, CountersThatGoBackwardsTellNothing) {
  (void)load.sample({});
  ticks("500 0 0 9100 0 0 0 0");
  EXPECT_EQ(load.sample({}).use->busy, 0);
}

TEST_F(CpuLoadTest, WhatCannotBeReadIsNamed) {
  std::filesystem::remove(folder.path() + "/proc/stat");
  const DeviceSample sample = load.sample({});
  EXPECT_EQ(sample.answer, DeviceAnswer::kPartial);
  EXPECT_EQ(sample.error, "/proc/stat cannot be read");
}

}  // namespace
}  // namespace shoal::agent
