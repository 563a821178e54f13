#include "agent/host/nvml.h"

#include <gmock/gmock.h>

#include "agent/host/fake_gpus_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NvmlTest, WithoutALibraryOrADriverThereAreNoGpus) {
  for (const char* library : {"/nonexistent/libnvidia-ml.so.1", "libc.so.6"}) {
    const Nvml none(library);
    EXPECT_EQ(none.driver().count, -1) << library;
    EXPECT_EQ(none.driver().error, "") << library;
  }
  const FakeGpus gpus{"a"};
  gpus.set("init", "9");  // NVML_ERROR_DRIVER_NOT_LOADED
  EXPECT_EQ(Nvml(FAKE_NVML).driver().error, "");
  gpus.set("init", "999");
  EXPECT_EQ(Nvml(FAKE_NVML).driver().error, "Unknown Error");
}

TEST(NvmlTest, ReadsWhatTheDriverAnswers) {
  const FakeGpus gpus{"a"};
  for (const auto& [file, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"busy", "80"},
           {"temperature", "71"},
           {"power", "650500"},
           {"power_limit", "700000"},
           {"clock", "1410"},
           {"clock_max", "1980"},
           {"throttle", "69"},
           {"5", "12"},
           {"6", "1"},
           {"38", "1"},
           {"45", "2"},
           {"52", "3"},
           {"59", "4"},
           {"94", "7"},
           {"142", "2"},
           {"143", "3"},
           {"144", "1"},
           {"145", "0"},
           {"230", "1"},
           {"used", "3000000000"},
           {"total", "80000000000"},
           {"processes", "41 1000\n42 2000\n"}}) {
    gpus.set(std::string("a/") + file, text);
  }
  Nvml nvml(FAKE_NVML);
  ASSERT_EQ(nvml.driver().count, 1);
  const GpuReading reading = nvml.read(0, true);
  EXPECT_EQ(reading.code, 0);
  EXPECT_EQ(reading.uuid, "GPU-a");
  EXPECT_EQ(reading.error, "");
  EXPECT_TRUE(reading.has_memory && reading.has_load && reading.has_climate &&
              reading.has_counters && reading.listed);
  EXPECT_EQ(reading.memory_used, 3'000'000'000);
  EXPECT_EQ(reading.memory_total, 80'000'000'000);
  EXPECT_DOUBLE_EQ(reading.busy, 0.8);
  EXPECT_EQ(reading.celsius, 71);
  EXPECT_DOUBLE_EQ(reading.watts, 650.5);
  EXPECT_EQ(reading.watts_limit, 700);
  EXPECT_EQ(reading.mhz, 1410);
  EXPECT_EQ(reading.mhz_max, 1980);
  EXPECT_THAT(reading.throttled, ElementsAre("sw_power_cap", "hw_thermal_slowdown"))
      << "an idle GPU (bit 0) is not slowed down";
  EXPECT_EQ(reading.ecc_corrected, 12);
  EXPECT_EQ(reading.ecc_uncorrected, 1);
  EXPECT_EQ(reading.nvlink_errors, 10);
  EXPECT_EQ(reading.pcie_replays, 7);
  EXPECT_EQ(reading.rows_remapped, 5);
  EXPECT_TRUE(reading.remap_pending);
  EXPECT_FALSE(reading.remap_failed);
  EXPECT_EQ(reading.recovery, 1);
  ASSERT_EQ(reading.processes.size(), 2u);
  EXPECT_EQ(reading.processes[1].pid, 42);
  EXPECT_EQ(reading.processes[1].bytes, 2000);
  EXPECT_THAT(nvml.read(0, false).processes, IsEmpty()) << "they were not asked for";
}

TEST(NvmlTest, WhatAnOldGpuDoesNotHaveIsNoFailure) {
  Nvml nvml(FAKE_NVML);
  ASSERT_EQ(nvml.driver().count, 3);
  const GpuReading old = nvml.read(1, false);
  EXPECT_TRUE(old.has_counters) << "it has no row remapper";
  EXPECT_EQ(old.error, "");
  EXPECT_EQ(nvml.find(2).code, kNvmlNoPermission);
}

TEST(NvmlTest, AQuestionThatFailsTakesItsGroupOnly) {
  const FakeGpus gpus{"a"};
  gpus.set("a/partial", "power fields");
  Nvml nvml(FAKE_NVML);
  const GpuReading half = nvml.read(0, false);
  EXPECT_EQ(half.error, "power: Unknown Error");
  std::vector<std::string> failed;
  for (const GpuQuestion& question : half.questions) {
    if (!question.error.empty()) failed.push_back(question.name + ": " + question.error);
  }
  EXPECT_THAT(failed, ElementsAre("power: Unknown Error", "error counts: Unknown Error"));
  EXPECT_GT(half.questions.size(), failed.size());
  EXPECT_TRUE(half.has_memory && half.has_load);
  EXPECT_FALSE(half.has_climate || half.has_counters);
}

TEST(NvmlTest, XidsAreTakenOnceFromTheFirstReadingOn) {
  const FakeGpus gpus{"a", "b"};
  Nvml nvml(FAKE_NVML);
  gpus.set("a/xid", "79 13\n");
  EXPECT_THAT(nvml.take_xids(0), IsEmpty());
  EXPECT_EQ(nvml.read(0, false).error, "");
  EXPECT_THAT(nvml.take_xids(0), ElementsAre(79, 13));
  EXPECT_THAT(nvml.take_xids(0), IsEmpty());
  EXPECT_THAT(nvml.take_xids(1), IsEmpty());
  gpus.set("a/gone", "");
  gpus.set("a/xid", "79");
  EXPECT_EQ(nvml.read(0, false).code, kNvmlGpuLost);
  EXPECT_THAT(nvml.take_xids(0), ElementsAre(79)) << "it said so before it was gone";
}

}  // namespace
}  // namespace shoal::agent
