#include "coordinator/core/state/agent_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Known {
  bool connected = true, late = false;
  std::vector<Device> devices;
  std::vector<DeviceRefusal> refusals;
  std::vector<DeviceFailure> failures;
  std::vector<DeviceSample> samples;
  std::vector<std::string> slow;

  explicit Known(int gpus) {
    for (int i = 0; i < gpus; ++i) {
      Device device{.index = i, .kind = DeviceKind::kCuda};
      device.uuid = "GPU-" + std::to_string(i);
      devices.push_back(device);
      samples.push_back({.uuid = device.uuid, .answer = DeviceAnswer::kWhole});
    }
  }
  void cordon(std::int32_t device, std::string reason) {
    DeviceRefusal refusal{.device = device, .needed = Bytes(), .at = Instant()};
    refusal.kind = DeviceRefusalKind::kUnhealthy;
    refusal.reasons = {std::move(reason)};
    refusals.push_back(std::move(refusal));
  }
  AgentHealth health() const {
    return health_of({connected, late, devices, refusals, failures, samples, slow});
  }
};

TEST(AgentHealth, ConnectedAgentWhoseDevicesAnswer_IsGreen) {
  Known known(2);
  known.refusals.push_back({.device = 0, .needed = Bytes(9), .at = Instant()});  // of memory
  EXPECT_EQ(known.health().health, Health::kGreen);
  EXPECT_EQ(known.health().reason, "");
  EXPECT_THAT(known.health().troubles, IsEmpty());
}

TEST(AgentHealth, AgentWithoutConnection_IsRedWhateverItsDevicesAre) {
  Known known(1);
  known.connected = false;
  known.samples[0].answer = DeviceAnswer::kLost;
  EXPECT_EQ(known.health().health, Health::kRed);
  EXPECT_EQ(known.health().reason, "it has no connection to the coordinator");
  EXPECT_THAT(known.health().troubles, SizeIs(1));
}

TEST(AgentHealth, EachTroubleOfADevice_MakesItYellow) {
  for (const auto& [answer, words] :
       {std::pair(DeviceAnswer::kLost, "device 1 is lost: gone"),
        std::pair(DeviceAnswer::kSilent, "the driver of device 1 does not answer: gone"),
        std::pair(DeviceAnswer::kPartial, "the driver of device 1 answers in part: gone")}) {
    Known known(2);
    known.samples[1].answer = answer;
    known.samples[1].error = "gone";
    EXPECT_EQ(known.health().health, Health::kYellow);
    EXPECT_EQ(known.health().reason, words);
  }
  Known failing(1);
  failing.failures = {{0, "no driver"}};
  EXPECT_EQ(failing.health().health, Health::kYellow);
  EXPECT_EQ(failing.health().reason, "the trainer of device 0 does not start: no driver");
}

TEST(AgentHealth, CordonedDevice_IsToldOnceWithItsReason) {
  Known known(2);
  known.cordon(1, "XID 79");
  known.samples[1].answer = DeviceAnswer::kLost;
  const AgentHealth health = known.health();
  EXPECT_EQ(health.health, Health::kYellow);
  EXPECT_EQ(health.reason, "device 1 is cordoned: XID 79");
  ASSERT_THAT(health.troubles, SizeIs(2));
  EXPECT_EQ(health.troubles[0].trouble, DeviceTroubleKind::kCordoned);
  EXPECT_EQ(health.troubles[0].uuid, "GPU-1");
  EXPECT_EQ(health.troubles[1].trouble, DeviceTroubleKind::kLost);
  EXPECT_EQ(health.troubles[1].device, 1);
}

TEST(AgentHealth, LateHeartbeatAndSlowReplicas_ComeFirst) {
  Known known(1);
  known.late = true;
  known.slow = {"rep_5 is slow"};
  known.samples[0].answer = DeviceAnswer::kSilent;
  EXPECT_EQ(known.health().reason,
            "its heartbeat is late; rep_5 is slow; the driver of device 0 does not answer");
}

TEST(AgentHealth, ManyDevices_AreCounted) {
  Known known(8);
  for (DeviceSample& sample : known.samples) sample.answer = DeviceAnswer::kSilent;
  EXPECT_THAT(known.health().reason, HasSubstr("driver of device 3 does"));
  EXPECT_THAT(known.health().reason, HasSubstr("; 4 more devices are in trouble"));
  EXPECT_THAT(known.health().troubles, SizeIs(8));
}

}  // namespace
}  // namespace shoal::coordinator
