#include "agent/host/device_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "agent/host/process_id.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A list of trainers that live: each is this process.
class DeviceNumbers : public testing::Test {
 protected:
  static HostOptions probed(const std::vector<std::string>& gpus) {
    HostOptions options;
    options.gpus = gpus;
    for (const std::string& uuid : gpus) {
      Device device{.index = static_cast<std::int32_t>(options.core.devices.size())};
      device.kind = DeviceKind::kCuda;
      device.uuid = uuid;
      options.core.devices.push_back(device);
    }
    return options;
  }
  void trains(std::int32_t device, const std::string& gpus) {
    RosterEntry entry{.trainer = {device, 1}, .device = device};
    entry.process = process_with(getpid()).value();
    entry.gpus = gpus;
    roster_.trainers.push_back(entry);
  }
  HostOptions numbered(const std::vector<std::string>& gpus) const {
    HostOptions options = probed(gpus);
    keep_numbers(options, roster_);
    for (std::size_t i = 0; i < options.core.devices.size(); ++i) {
      EXPECT_EQ(options.core.devices[i].index, static_cast<std::int32_t>(i));
      EXPECT_EQ(options.core.devices[i].uuid, options.gpus[i]);
    }
    return options;
  }

  Roster roster_{.boot = boot_id(), .settings = "s", .trainers = {}};
};

TEST_F(DeviceNumbers, OfTrainersThatLiveStay) {
  trains(0, "GPU-a");
  trains(1, "GPU-b");
  trains(2, "GPU-c");
  const HostOptions options = numbered({"GPU-b", "GPU-c"});
  EXPECT_THAT(options.gpus, ElementsAre("", "GPU-b", "GPU-c"));
  EXPECT_THAT(options.core.vacant, ElementsAre(0));
}

TEST_F(DeviceNumbers, OfAGpuThatComesAreTheLowestFreeOnes) {
  trains(1, "GPU-b");
  trains(2, "GPU-c");
  const HostOptions options = numbered({"GPU-a", "GPU-b", "GPU-c", "GPU-d"});
  EXPECT_THAT(options.gpus, ElementsAre("GPU-a", "GPU-b", "GPU-c", "GPU-d"));
  EXPECT_THAT(options.core.vacant, IsEmpty());
  EXPECT_THAT(numbered({"GPU-x", "GPU-c"}).gpus, ElementsAre("GPU-x", "", "GPU-c"));
}

TEST_F(DeviceNumbers, StayWhenTheDriverListsItsGpusInAnotherOrder) {
  trains(0, "GPU-a");
  trains(1, "GPU-b");
  EXPECT_THAT(numbered({"GPU-b", "GPU-a"}).gpus, ElementsAre("GPU-a", "GPU-b"));
}

TEST_F(DeviceNumbers, FollowTheDriverWhenNoTrainerLives) {
  trains(2, "GPU-b");
  ++roster_.trainers[0].process.started;  // another process had the number
  EXPECT_THAT(numbered({"GPU-a", "GPU-b"}).gpus, ElementsAre("GPU-a", "GPU-b"));
  --roster_.trainers[0].process.started;
  EXPECT_THAT(numbered({"GPU-a", "GPU-b"}).gpus, ElementsAre("GPU-a", "", "GPU-b"));
  roster_.boot = "before";
  EXPECT_THAT(numbered({"GPU-a", "GPU-b"}).gpus, ElementsAre("GPU-a", "GPU-b"));
}

TEST_F(DeviceNumbers, OfAReplicaGroupAndOfProcessorsDoNotChange) {
  trains(0, "GPU-a,GPU-b");
  HostOptions group = probed({"GPU-a", "GPU-b"});
  group.replica_group = 2;
  group.core.devices.resize(1);
  keep_numbers(group, roster_);
  EXPECT_THAT(group.gpus, ElementsAre("GPU-a", "GPU-b"));
  HostOptions cpu;
  cpu.core.devices = {{0, DeviceKind::kCpu, "cpu", Bytes(1), 0, false}};
  keep_numbers(cpu, roster_);
  EXPECT_EQ(cpu.core.devices[0].kind, DeviceKind::kCpu);
  EXPECT_THAT(cpu.core.vacant, IsEmpty());
}

}  // namespace
}  // namespace shoal::agent
