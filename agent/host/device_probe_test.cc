#include "agent/host/device_probe.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace shoal::agent {
namespace {

TEST(DeviceProbe, GpusOfTheManagementLibrary) {
  const auto devices = probe_devices("auto", FAKE_NVML);
  ASSERT_TRUE(devices.ok()) << to_string(devices.error());
  const std::vector<Device> expected{
      {0, DeviceKind::kCuda, "NVIDIA H200", Bytes(149'000'000'000), 0, true},
      {1, DeviceKind::kCuda, "Tesla V100", Bytes(15'000'000'000), 0, false}};
  EXPECT_EQ(*devices, expected);
}

TEST(DeviceProbe, WithoutTheLibraryTheProcessorIsTheDevice) {
  const auto devices = probe_devices("auto", "/nonexistent/libnvidia-ml.so.1");
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_EQ((*devices)[0].kind, DeviceKind::kCpu);
  EXPECT_FALSE((*devices)[0].name.empty());
  EXPECT_GT((*devices)[0].memory.count(), 0);
}

TEST(DeviceProbe, AHostWhoseDriverDoesNotStartIsNotTakenForOneWithoutGpus) {
  ::setenv("FAKE_NVML_INIT", "18", 1);
  const auto mismatch = probe_devices("auto", FAKE_NVML);
  const auto chosen = probe_devices("cpu", FAKE_NVML);
  ::setenv("FAKE_NVML_INIT", "9", 1);
  const auto not_loaded = probe_devices("auto", FAKE_NVML);
  ::unsetenv("FAKE_NVML_INIT");
  ASSERT_FALSE(mismatch.ok());
  EXPECT_EQ(to_string(mismatch.error()),
            "--devices: the driver of the GPUs cannot be used: Driver/library version mismatch "
            "(look at nvidia-smi, or give --devices cpu)");
  EXPECT_TRUE(chosen.ok());
  ASSERT_TRUE(not_loaded.ok());
  EXPECT_EQ(not_loaded->front().kind, DeviceKind::kCpu);
}

TEST(DeviceProbe, CpuDevicesShareTheMemory) {
  const auto one = probe_devices("cpu", FAKE_NVML);
  const auto four = probe_devices("cpu:4", FAKE_NVML);
  ASSERT_TRUE(one.ok() && four.ok());
  ASSERT_EQ(four->size(), 4u);
  EXPECT_EQ((*four)[3].index, 3);
  const auto whole = static_cast<double>((*one)[0].memory.count());
  EXPECT_NEAR(static_cast<double>((*four)[0].memory.count()) / whole, 0.25, 0.1);
}

TEST(DeviceProbe, OtherChoicesAreRefusedByName) {
  for (const char* choice : {"", "gpu", "cpu:", "cpu:0", "cpu:65", "cpu:x", "cpu:2x", "cpu:-1"}) {
    const auto devices = probe_devices(choice, FAKE_NVML);
    ASSERT_FALSE(devices.ok()) << choice;
    EXPECT_EQ(devices.error().field, "--devices");
  }
}

}  // namespace
}  // namespace shoal::agent
