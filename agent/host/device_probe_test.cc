#include "agent/host/device_probe.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "agent/host/fake_gpus_test_util.h"

namespace shoal::agent {
namespace {

const Device kH200{0,    DeviceKind::kCuda, "NVIDIA H200",         Bytes(149'000'000'000), 0,
                   true, "GPU-aa11",        Bytes(150'000'000'000)};
const Device kV100{0,     DeviceKind::kCuda, "Tesla V100",         Bytes(15'000'000'000), 0,
                   false, "GPU-aa22",        Bytes(16'000'000'000)};

Device at(std::int32_t index, Device device) {
  device.index = index;
  return device;
}

Result<ProbedDevices> probe(const std::string& choice,
                            const std::optional<std::string>& visible = std::nullopt) {
  return probe_devices(choice, visible, FakeGpus::driver());
}

// The library has a third GPU, which this user may not open.
TEST(DeviceProbe, GpusOfTheManagementLibrary) {
  const auto probed = probe("auto");
  ASSERT_TRUE(probed.ok()) << to_string(probed.error());
  EXPECT_EQ(probed->devices, (std::vector<Device>{kH200, at(1, kV100)}));
  EXPECT_EQ(probed->gpus, (std::vector<std::string>{"GPU-aa11", "GPU-aa22"}));
}

TEST(DeviceProbe, OnlyTheGpusThatAreVisible) {
  for (const char* visible : {"1", "GPU-aa2"}) {
    const auto probed = probe("auto", visible);
    ASSERT_TRUE(probed.ok()) << to_string(probed.error());
    EXPECT_EQ(probed->devices, std::vector<Device>{kV100}) << visible;
    EXPECT_EQ(probed->gpus, std::vector<std::string>{"GPU-aa22"});
  }
  for (const char* none : {"", "-1"}) {
    const auto probed = probe("auto", none);
    ASSERT_TRUE(probed.ok());
    EXPECT_EQ(probed->devices.front().kind, DeviceKind::kCpu);
    EXPECT_TRUE(probed->gpus.empty());
  }
}

TEST(DeviceProbe, ChosenGpusInTheirOrder) {
  const auto probed = probe("gpu:1,GPU-aa11", "");
  ASSERT_TRUE(probed.ok()) << to_string(probed.error());
  EXPECT_EQ(probed->devices, (std::vector<Device>{kV100, at(1, kH200)}));
  EXPECT_EQ(probed->gpus, (std::vector<std::string>{"GPU-aa22", "GPU-aa11"}));
}

TEST(DeviceProbe, NamesThatFitNoGpuAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {
      {"gpu:2", "'2' is no GPU"},       {"gpu:", "'' is no GPU"},       {"gpu:0,", "'' is no GPU"},
      {"gpu:0,0", "'0' is named"},      {"gpu:GPU-aa", "fits several"}, {"gpu:MIG-1", "is no GPU"},
      {"gpu:0,GPU-aa11", "named twice"}};
  for (const auto& [choice, text] : wrong) {
    const auto probed = probe(choice);
    ASSERT_FALSE(probed.ok()) << choice;
    EXPECT_EQ(probed.error().field, "--devices");
    EXPECT_THAT(probed.error().message, testing::HasSubstr(text)) << choice;
  }
  const auto visible = probe("auto", "0,5");
  ASSERT_FALSE(visible.ok());
  EXPECT_EQ(visible.error().field, "CUDA_VISIBLE_DEVICES");
}

TEST(DeviceProbe, WithoutTheLibraryTheProcessorIsTheDevice) {
  DriverOptions driver = FakeGpus::driver();
  driver.library = "/nonexistent/libnvidia-ml.so.1";
  const auto probed = probe_devices("auto", "0", driver);
  ASSERT_TRUE(probed.ok());
  ASSERT_EQ(probed->devices.size(), 1u);
  EXPECT_EQ(probed->devices[0].kind, DeviceKind::kCpu);
  EXPECT_FALSE(probed->devices[0].name.empty());
  EXPECT_GT(probed->devices[0].memory.count(), 0);
}

TEST(DeviceProbe, AHostWhoseDriverDoesNotStartIsNotTakenForOneWithoutGpus) {
  ::setenv("FAKE_NVML_INIT", "18", 1);
  const auto mismatch = probe("auto");
  const auto chosen = probe("cpu");
  ::setenv("FAKE_NVML_INIT", "9", 1);
  const auto not_loaded = probe("auto");
  ::unsetenv("FAKE_NVML_INIT");
  ASSERT_FALSE(mismatch.ok());
  EXPECT_EQ(to_string(mismatch.error()),
            "--devices: the driver of the GPUs cannot be used: Driver/library version mismatch "
            "(look at nvidia-smi, or give --devices cpu)");
  EXPECT_TRUE(chosen.ok());
  ASSERT_TRUE(not_loaded.ok());
  EXPECT_EQ(not_loaded->devices.front().kind, DeviceKind::kCpu);
}

TEST(DeviceProbe, AGpuThatDoesNotAnswerCostsOnlyItself) {
  for (const std::string call : {"handle", "uuid", "name", "memory", "capability"}) {
    ::setenv("FAKE_NVML_SILENT", (call + ":1").c_str(), 1);
    const auto all = probe("auto"), other = probe("gpu:0"), both = probe("gpu:1,0");
    const auto alone = probe("gpu:1");
    ::unsetenv("FAKE_NVML_SILENT");
    ASSERT_TRUE(all.ok() && other.ok() && both.ok()) << call;
    EXPECT_EQ(all->devices, std::vector<Device>{kH200}) << call;
    ASSERT_EQ(all->silent.size(), 1u) << call;
    EXPECT_THAT(all->silent[0], testing::HasSubstr("does not answer its driver (Driver/library"));
    EXPECT_THAT(other->silent, testing::IsEmpty()) << "it was not chosen";
    EXPECT_EQ(both->gpus, std::vector<std::string>{"GPU-aa11"}) << call;
    ASSERT_FALSE(alone.ok()) << call << ": nothing is left";
    EXPECT_EQ(alone.error().code, Code::kUnavailable);
    EXPECT_THAT(alone.error().message, testing::StartsWith("GPU 1"));
  }
}

TEST(DeviceProbe, AGpuThatHangsOrEndsItsCallerCostsOnlyItself) {
  const std::pair<const char*, const char*> faults[] = {
      {"hang", "(no answer within 2 s)"},
      {"abort", "(the driver ended the process that asked it (Aborted))"},
      {"gone", ""}};  // and is not listed
  for (const auto& [file, text] : faults) {
    const FakeGpus gpus{"a", "b", "c"};
    gpus.set(std::string("a/") + file, "60");
    const auto probed = probe("auto");
    ASSERT_TRUE(probed.ok()) << file << to_string(probed.error());
    EXPECT_EQ(probed->gpus, (std::vector<std::string>{"GPU-b", "GPU-c"})) << file;
    EXPECT_EQ(probed->devices[1].uuid, "GPU-c") << file;
    EXPECT_EQ(probed->devices[1].index, 1) << file;
    ASSERT_EQ(probed->silent.size(), *text == '\0' ? 0u : 1u) << file;
    if (!probed->silent.empty()) {
      EXPECT_THAT(probed->silent[0], testing::HasSubstr(text));
    }
  }
}

TEST(DeviceProbe, AUuidThatTheDriverDoesNotListCostsOnlyItself) {
  const auto one = probe("gpu:GPU-bb33,1");
  ASSERT_TRUE(one.ok()) << to_string(one.error());
  EXPECT_EQ(one->gpus, std::vector<std::string>{"GPU-aa22"});
  EXPECT_EQ(one->silent, std::vector<std::string>{
                             "GPU-bb33 does not answer its driver (which does not list it)"});
  const auto none = probe("gpu:GPU-bb33");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_FALSE(probe("gpu:GPU-bb33,GPU-bb33").ok()) << "it is named twice";
}

TEST(DeviceProbe, ADriverThatHangsOrEndsItsCallerIsNamed) {
  const FakeGpus gpus{"a"};
  DriverOptions driver = FakeGpus::driver();
  driver.start_limit = milliseconds(100);
  gpus.set("init_hang", "60");
  const auto hung = probe_devices("auto", std::nullopt, driver);
  gpus.set("init_abort", "");
  const auto aborted = probe("auto");
  ASSERT_FALSE(hung.ok() || aborted.ok());
  EXPECT_EQ(to_string(hung.error()),
            "--devices: the driver of the GPUs cannot be used: no answer within 100 ms (look at "
            "nvidia-smi, or give --devices cpu)");
  EXPECT_THAT(aborted.error().message, testing::HasSubstr("(Aborted)"));
}

TEST(DeviceProbe, CpuDevicesTakeWhatIsDeclared) {
  const auto two = probe_devices("cpu:2", std::nullopt, {}, mebibytes(64));
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->devices[1].memory, mebibytes(32));
  const auto more = probe_devices("cpu", std::nullopt, {}, mebibytes(std::int64_t{1} << 40));
  ASSERT_TRUE(more.ok());
  EXPECT_LT(more->devices[0].memory, mebibytes(std::int64_t{1} << 30)) << "as far as it is free";
}

TEST(DeviceProbe, CpuDevicesShareTheMemory) {
  const auto one = probe("cpu"), four = probe("cpu:4");
  ASSERT_TRUE(one.ok() && four.ok());
  ASSERT_EQ(four->devices.size(), 4u);
  EXPECT_EQ(four->devices[3].index, 3);
  const auto whole = static_cast<double>(one->devices[0].memory.count());
  EXPECT_NEAR(static_cast<double>(four->devices[0].memory.count()) / whole, 0.25, 0.1);
}

TEST(DeviceProbe, OtherChoicesAreRefusedByName) {
  for (const char* choice : {"", "gpu", "cpu:", "cpu:0", "cpu:65", "cpu:x", "cpu:2x", "cpu:-1"}) {
    const auto probed = probe(choice);
    ASSERT_FALSE(probed.ok()) << choice;
    EXPECT_EQ(probed.error().field, "--devices");
  }
}

}  // namespace
}  // namespace shoal::agent
