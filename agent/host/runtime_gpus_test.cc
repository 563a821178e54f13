// The whole host side with three GPUs of the stand-in for NVML, whose driver misbehaves.
#include <optional>

#include "agent/host/device_probe.h"
#include "agent/host/fake_gpus_test_util.h"
#include "agent/host/runtime_test_util.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class RuntimeGpusTest : public RuntimeTest {
 protected:
  HostOptions gpu_options() {
    HostOptions all = options();
    all.driver = FakeGpus::driver();
    auto probed = probe_devices("auto", std::nullopt, all.driver);
    EXPECT_TRUE(probed.ok());
    all.core.devices = probed->devices;
    all.gpus = probed->gpus;
    all.measure_every = all.sample_every = milliseconds(20);
    return all;
  }
  // The next sample of a GPU that says this; `heartbeats` counts those until then.
  template <typename Predicate>
  DeviceSample heard(const std::string& uuid, Predicate says) {
    for (heartbeats_ = 1; heartbeats_ < 2'000; ++heartbeats_) {
      for (const DeviceSample& sample : coordinator_.next<Heartbeat>().samples) {
        if (sample.uuid == uuid && says(sample)) return sample;
      }
    }
    ADD_FAILURE() << "it was never heard of " << uuid;
    return {};
  }
  DeviceSample heard(const std::string& uuid, DeviceAnswer answer) {
    return heard(uuid, [&](const DeviceSample& sample) { return sample.answer == answer; });
  }
  Device measured(std::int32_t index, Bytes memory) {
    for (int i = 0; i < 20; ++i) {
      const Device device = coordinator_.next<DeviceMeasured>().device;
      if (device.index == index && device.memory == memory) return device;
    }
    ADD_FAILURE() << "its memory was never told";
    return {};
  }

  FakeGpus gpus_{"a", "b", "c"};
  int heartbeats_ = 0;
};

TEST_F(RuntimeGpusTest, AGpuThatHangsHoldsUpNoHeartbeatAndNoOtherGpu) {
  start(gpu_options());
  join();
  heard("GPU-b", DeviceAnswer::kWhole);
  gpus_.set("b/hang", "60");
  const DeviceSample silent = heard("GPU-b", DeviceAnswer::kSilent);
  EXPECT_GE(heartbeats_, 10);
  EXPECT_EQ(silent.error, "no answer within 2 s");
  EXPECT_GE(silent.age, seconds(1));
  ASSERT_TRUE(silent.climate);
  EXPECT_EQ(silent.climate->celsius, 30) << "its last value";
  gpus_.set("c/temperature", "78");
  heard("GPU-c", [](const DeviceSample& sample) { return sample.climate->celsius == 78; });
  EXPECT_THAT(journal(), HasSubstr("GPU-b is silent: no answer within 2 s"));
}

TEST_F(RuntimeGpusTest, AnXidIsToldOnceAndAnIdleGpuTellsNothing) {
  start(gpu_options());
  join();
  heard("GPU-c", DeviceAnswer::kWhole);
  gpus_.set("b/xid", "79");
  const DeviceSample told =
      heard("GPU-b", [](const DeviceSample& sample) { return !sample.errors->xids.empty(); });
  ASSERT_THAT(told.errors->xids, SizeIs(1));
  EXPECT_EQ(told.errors->xids[0].xid, 79);
  EXPECT_EQ(told.errors->xids[0].count, 1);
  for (int i = 0; i < 10; ++i) EXPECT_THAT(coordinator_.next<Heartbeat>().samples, IsEmpty());
}

TEST_F(RuntimeGpusTest, MemoryOfOthersIsToldAndThatOfItsTrainersIsNot) {
  HostOptions all = gpu_options();
  gpus_.set("b/used", "76000000000");
  gpus_.set("b/processes", "1 75000000000");
  start(std::move(all));
  join();
  const Device device = measured(1, Bytes(74'000'000'000));
  EXPECT_EQ(device.uuid, "GPU-b");
  EXPECT_EQ(device.total, Bytes(150'000'000'000));
}

TEST_F(RuntimeGpusTest, ARestartWhileItsTrainersLiveChangesNoMemory) {
  start(gpu_options());
  join();
  heard("GPU-a", DeviceAnswer::kWhole);
  const pid_t trainer = roster()[0].process.pid;
  handed_over();
  gpus_.set("a/used", "71000000000");
  gpus_.set("a/processes", std::to_string(trainer) + " 60000000000\n1 10000000000\n");
  HostOptions next = gpu_options();
  EXPECT_EQ(next.core.devices[0].memory, Bytes(79'000'000'000)) << "as it is free now";
  next.driver.answer_limit = seconds(30);  // of a busy host
  start(std::move(next));
  EXPECT_EQ(coordinator_.hello(2).devices[0].memory, Bytes(139'000'000'000));
}

TEST_F(RuntimeGpusTest, AGpuThatDisappearsBetweenTwoStartsEndsItsOwnTrainerOnly) {
  HostOptions all = gpu_options();
  all.threads_by_devices = true;
  start(all);
  EXPECT_THAT(coordinator_.hello(1).devices, SizeIs(3));
  coordinator_.welcome();
  Assign on_c = assign(7);
  on_c.device = 2;
  coordinator_.say(on_c);
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(7));
  const auto before = roster();
  ASSERT_THAT(before, SizeIs(3));
  handed_over();
  gpus_.set("a/gone", "");
  HostOptions next = gpu_options();
  next.threads_by_devices = true;
  next.threads = all.threads + 1;  // fewer devices share the cores
  start(std::move(next));
  const Hello hello = coordinator_.hello(2);
  ASSERT_THAT(hello.devices, SizeIs(2));
  EXPECT_EQ(hello.devices[0].index, 1) << "the number that its trainer knows";
  EXPECT_EQ(hello.devices[0].uuid, "GPU-b");
  EXPECT_EQ(hello.devices[1].index, 2);
  EXPECT_EQ(hello.devices[1].uuid, "GPU-c");
  ASSERT_THAT(hello.replicas, SizeIs(1));
  EXPECT_EQ(hello.replicas[0].replica, ReplicaId(7));
  EXPECT_EQ(hello.replicas[0].device, 2);
  EXPECT_FALSE(process_with(before[0].process.pid).has_value()) << "its GPU is gone";
  EXPECT_EQ(process_with(before[1].process.pid), before[1].process);
  EXPECT_EQ(process_with(before[2].process.pid), before[2].process);
  EXPECT_THAT(journal(), HasSubstr("is ended: its GPU is not there any more"));
}

TEST_F(RuntimeGpusTest, WithoutTrainersOfBeforeGpusAreNumberedAsTheDriverListsThem) {
  start(gpu_options());
  EXPECT_THAT(coordinator_.hello(1).devices, SizeIs(3));
  coordinator_.welcome();
  runtime_->stop();
  ended();
  runtime_.reset();
  gpus_.set("a/gone", "");
  start(gpu_options());
  const Hello hello = coordinator_.hello(2);
  ASSERT_THAT(hello.devices, SizeIs(2));
  EXPECT_EQ(hello.devices[0].index, 0);
  EXPECT_EQ(hello.devices[0].uuid, "GPU-b");
}

}  // namespace
}  // namespace shoal::agent
