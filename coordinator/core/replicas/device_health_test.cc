// Cordons for what drivers report: when they begin, what they do to replicas, and what ends them.
#include "coordinator/core/replicas/device_health.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/health_record.h"

namespace shoal::coordinator {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

// Hosts with GPUs, and a job that needs two replicas.
struct Hosts : Rig {
  explicit Hosts(int hosts, int gpus = 1) : gpus_(gpus) {
    for (int i = 0; i < hosts; ++i) agents.push_back(come(i));
  }
  static std::string uuid_of(int host, int gpu) {
    return "GPU-" + std::to_string(host) + "-" + std::to_string(gpu);
  }
  ConnectionId come(int host, Incarnation incarnation = {}, std::vector<ReplicaId> replicas = {},
                    int first_gpu = 0) {
    Hello hello{.uid = "uid-" + std::to_string(host), .name = "host-" + std::to_string(host)};
    hello.host = hello.name;
    hello.incarnation = incarnation;
    hello.replicas = held_replicas(state(), replicas);
    for (int gpu = first_gpu; gpu < gpus_; ++gpu) {
      Device device{.index = gpu - first_gpu, .kind = DeviceKind::kCuda, .name = "H200"};
      device.memory = device_memory;
      device.gflops = 10;
      device.uuid = uuid_of(host, gpu);
      hello.devices.push_back(device);
    }
    const ConnectionId connection{++connections_};
    input(AgentHello{connection, hello});
    return connection;
  }
  void train(std::int64_t min_replicas = 2) {
    JobSpec spec = small_job();
    spec.swarm.min_replicas = min_replicas;
    id = *submit(spec);
    for (const ConnectionId agent : agents) replicas.push_back(load(agent));
    wait(seconds(3));
    ASSERT_EQ(job(id).phase, JobPhase::kTraining);
  }
  static DeviceSample sample(int host, int gpu, DeviceErrors errors = {}) {
    return {.uuid = uuid_of(host, gpu), .answer = DeviceAnswer::kWhole, .errors = errors};
  }
  static DeviceSample with_xid(int host, int gpu, std::int32_t xid, std::int64_t count = 1,
                               Duration ago = {}) {
    return sample(host, gpu, {.xids = {{xid, count, ago}}});
  }
  static DeviceSample lost(int host, int gpu) {
    return {.uuid = uuid_of(host, gpu), .answer = DeviceAnswer::kLost};
  }
  void tell(int host, std::vector<DeviceSample> samples) {
    Heartbeat heartbeat;
    heartbeat.samples = std::move(samples);
    say(agents.at(static_cast<std::size_t>(host)), heartbeat);
  }
  const AgentRecord& agent(int host) const {
    return state().agents.at(AgentId(static_cast<std::uint64_t>(host) + 1));
  }
  // Why the device is cordoned; kNone: it is not.
  DeviceFault fault_of(int host, int gpu = 0) const {
    const DeviceRefusal* cordon = unhealthy_of(agent(host), gpu);
    return cordon == nullptr ? DeviceFault::kNone : cordon->fault;
  }
  std::vector<std::string> told(const char* kind) const {
    std::vector<std::string> messages;
    for (const EventRecord& event : events) {
      if (event.kind == std::string(kind)) messages.push_back(event.message);
    }
    return messages;
  }
  void uncordon(int host) {
    input(CommandAgent{RequestId{9}, agent(host).id, AgentVerb::kUncordon});
  }
  void commit_round(RoundNumber number) {
    const RoundKey key{id, 0, number};
    const auto all = [&](const auto& act) {
      for (std::size_t i = 0; i < agents.size(); ++i) act(agents[i], replicas[i]);
    };
    all([&](auto agent, auto replica) { report(agent, replica, key); });
    all([&](auto agent, auto replica) { vote(agent, replica, key, 1); });
    all([&](auto agent, auto replica) { applied(agent, replica, key, {11, 11}); });
    EXPECT_EQ(job(id).committed_round, number);
  }

  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  JobId id;

 private:
  int gpus_;
  std::uint64_t connections_ = 1000;
};

TEST(DeviceHealth, FatalXid_CordonsAndReleasesTheReplicaAfterTheRound) {
  Hosts rig(3);
  rig.train();
  rig.tell(2, {Hosts::with_xid(2, 0, 79)});
  EXPECT_EQ(rig.fault_of(2), DeviceFault::kXid);
  const DeviceRefusal cordon = rig.agent(2).refusals.at(0);
  EXPECT_EQ(cordon.kind, DeviceRefusalKind::kUnhealthy);
  EXPECT_EQ(cordon.uuid, "GPU-2-0");
  EXPECT_EQ(cordon.reasons, std::vector<std::string>{"its driver reported XID 79"});
  ASSERT_EQ(rig.told(event_kind::kDeviceUnhealthy).size(), 1u);
  EXPECT_EQ(rig.told(event_kind::kDeviceUnhealthy)[0],
            "device 0 (GPU-2-0) of host-2 is unhealthy: its driver reported XID 79; it gets no new "
            "replica, and a running one is released after the round; reset the GPU or reboot its "
            "host, then run shoal agent uncordon host-2");
  EXPECT_TRUE(is_live(rig.state(), rig.replicas[2])) << "the round goes on with it";
  rig.commit_round(1);
  EXPECT_FALSE(is_live(rig.state(), rig.replicas[2]));
  rig.wait(seconds(5));
  for (const auto& [id, replica] : rig.state().replicas) EXPECT_NE(replica.agent, AgentId(3));
}

TEST(DeviceHealth, ReplicaThatItsJobNeeds_StaysUntilAnotherServes) {
  Hosts rig(2);
  rig.train(2);
  rig.tell(1, {Hosts::with_xid(1, 0, 79)});
  rig.commit_round(1);
  EXPECT_TRUE(is_live(rig.state(), rig.replicas[1]));
}

TEST(DeviceHealth, XidOfAProgram_DoesNothing) {
  Hosts rig(1);
  for (const std::int32_t xid : {13, 31, 43, 45}) rig.tell(0, {Hosts::with_xid(0, 0, xid)});
  EXPECT_TRUE(rig.agent(0).refusals.empty());
  EXPECT_TRUE(rig.told(event_kind::kDeviceUnhealthy).empty());
}

TEST(DeviceHealth, SamplesWithoutAFault_WriteNothing) {
  Hosts rig(1);
  const std::size_t before = rig.events.size();
  const Instant updated = rig.agent(0).updated_at;
  rig.wait(seconds(1));
  DeviceSample hot = Hosts::sample(0, 0);
  hot.climate = DeviceClimate{.celsius = 95, .throttled = {"sw_power_cap", "hw_slowdown"}};
  rig.tell(0, {hot, Hosts::with_xid(7, 7, 79)});
  EXPECT_EQ(rig.events.size(), before);
  EXPECT_EQ(rig.agent(0).updated_at, updated);
}

TEST(DeviceHealth, Cordon_OutlivesARestartAndStaysWithItsCard) {
  Hosts rig(1, 3);
  rig.tell(0, {Hosts::with_xid(0, 1, 79)});
  rig.restart();
  EXPECT_EQ(rig.fault_of(0, 1), DeviceFault::kXid);
  rig.agents[0] = rig.come(0, {}, {}, 1);  // GPU 0 of 3 is not there
  EXPECT_EQ(rig.fault_of(0, 0), DeviceFault::kXid) << "it has the number 0 now";
  EXPECT_EQ(rig.fault_of(0, 1), DeviceFault::kNone);
  EXPECT_EQ(rig.told(event_kind::kDevicesLost),
            std::vector<std::string>{"device 0 (GPU-0-0) of host-0 is not there any more; what is "
                                     "stored of it waits for its return"});
}

TEST(DeviceHealth, RecoveryAction_EndsTheCordonWhenItIsOver) {
  Hosts rig(1);
  rig.tell(0, {Hosts::sample(0, 0, {.recovery = RecoveryAction::kResetGpu})});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kRecoveryAction);
  rig.tell(0, {Hosts::sample(0, 0)});
  EXPECT_TRUE(rig.agent(0).refusals.empty());
  EXPECT_EQ(rig.told(event_kind::kDeviceHealthy).size(), 1u);
}

// The facts keep the highest count, so they are the same when the driver begins to count anew.
TEST(DeviceHealth, UncorrectedErrors_EndTheCordonWhenTheirCountFalls) {
  Hosts rig(4);
  rig.tell(0, {Hosts::sample(0, 0, {.ecc_uncorrected = 1})});
  rig.tell(0, {Hosts::sample(0, 0, {.ecc_uncorrected = 5})});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kUncorrected);
  rig.tell(0, {Hosts::sample(0, 0, {.ecc_uncorrected = 5})});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kUncorrected);
  rig.tell(0, {Hosts::sample(0, 0)});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kNone);
}

TEST(DeviceHealth, EachCordonAndItsEnd_AreNotedForTheAuditTrail) {
  Hosts rig(2, 2);
  using Kind = NoteDecision::Kind;
  rig.tell(0, {Hosts::sample(0, 1, {.recovery = RecoveryAction::kResetGpu})});
  ASSERT_EQ(rig.decisions.size(), 1u);
  EXPECT_EQ(rig.decisions[0].kind, Kind::kCordonDevice);
  EXPECT_EQ(rig.decisions[0].agent, rig.agent(0).id);
  EXPECT_EQ(rig.decisions[0].device, 1);
  EXPECT_EQ(rig.decisions[0].uuid, Hosts::uuid_of(0, 1));
  EXPECT_EQ(rig.decisions[0].why, "its driver asks for reset_gpu");
  rig.tell(1, {Hosts::with_xid(1, 0, 79)});
  EXPECT_EQ(rig.decisions.size(), 1u) << "beyond a quarter nothing is cordoned";
  rig.tell(0, {Hosts::sample(0, 1)});
  ASSERT_EQ(rig.decisions.size(), 2u);
  EXPECT_EQ(rig.decisions[1].kind, Kind::kUncordonDevice);
  rig.tell(0, {Hosts::lost(0, 0)});
  rig.tell(0, {Hosts::lost(0, 1)});
  ASSERT_EQ(rig.decisions.size(), 4u) << "the first one was lost with its host";
  EXPECT_EQ(rig.decisions[3].kind, Kind::kUncordonDevice);
  EXPECT_EQ(rig.decisions[3].why, "all GPUs of its host stopped answering");
  rig.tell(0, {Hosts::sample(0, 0)});
  EXPECT_EQ(rig.decisions.size(), 5u) << "only the other one is lost now";
  rig.uncordon(0);
  EXPECT_EQ(rig.decisions.size(), 5u) << "an operator's command has a row of its own";
}

TEST(DeviceHealth, XidThatTheRecoveryActionFollows_EndsWithIt) {
  Hosts rig(1);
  rig.tell(0, {Hosts::with_xid(0, 0, 79)});
  DeviceSample wants_reset = Hosts::with_xid(0, 0, 79);
  wants_reset.errors->recovery = RecoveryAction::kResetGpu;
  rig.tell(0, {wants_reset});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kRecoveryAction);
  EXPECT_EQ(rig.agent(0).refusals[0].reasons.size(), 2u);
  EXPECT_THAT(rig.told(event_kind::kDeviceUnhealthy).at(1),
              HasSubstr("stays cordoned: its driver asks for reset_gpu; "));
  rig.tell(0, {Hosts::with_xid(0, 0, 79)});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kNone);
}

TEST(DeviceHealth, WhatAnOperatorUncordoned_IsNotCordonedAgainForTheSameReport) {
  Hosts rig(1);
  rig.tell(0, {Hosts::with_xid(0, 0, 79)});
  rig.uncordon(0);
  EXPECT_TRUE(rig.agent(0).refusals.empty());
  rig.tell(0, {Hosts::with_xid(0, 0, 79, 1, seconds(10))});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kNone);
  rig.now = rig.now + seconds(20);
  rig.restart();
  rig.agents[0] = rig.come(0, rig.agent(0).incarnation);
  rig.tell(0, {Hosts::with_xid(0, 0, 79, 1, seconds(30))});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kNone) << "it is older than what the process knows";
  rig.tell(0, {Hosts::with_xid(0, 0, 79, 2)});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kXid) << "a second one is another error";
}

TEST(DeviceHealth, XidWhileTheCoordinatorWasDown_Cordons) {
  Hosts rig(1);
  rig.now = rig.now + seconds(60);
  rig.restart();
  rig.agents[0] = rig.come(0, rig.agent(0).incarnation);
  rig.tell(0, {Hosts::with_xid(0, 0, 79, 1, seconds(30))});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kXid);
}

TEST(DeviceHealth, AgentThatRestarts_CountsXidsFromZero) {
  Hosts rig(1);
  rig.tell(0, {Hosts::with_xid(0, 0, 79)});
  rig.uncordon(0);
  rig.agents[0] = rig.come(0);
  rig.tell(0, {Hosts::with_xid(0, 0, 79)});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kXid);
}

TEST(DeviceHealth, LostDevice_IsBackWhenItsUuidAnswers) {
  Hosts rig(1, 2);
  rig.tell(0, {Hosts::lost(0, 1), Hosts::sample(0, 0)});
  EXPECT_EQ(rig.fault_of(0, 1), DeviceFault::kLost);
  rig.tell(0, {Hosts::sample(0, 1)});
  EXPECT_EQ(rig.fault_of(0, 1), DeviceFault::kNone);
}

TEST(DeviceHealth, AllGpusOfAHostLost_AreItsContainersFault) {
  Hosts rig(2, 2);
  rig.tell(0, {Hosts::lost(0, 0)});
  EXPECT_EQ(rig.fault_of(0, 0), DeviceFault::kLost);
  rig.tell(0, {Hosts::lost(0, 1)});
  EXPECT_TRUE(rig.agent(0).refusals.empty()) << "the first one was lost with its host";
  ASSERT_EQ(rig.told(event_kind::kDevicesLost).size(), 1u);
  EXPECT_THAT(rig.told(event_kind::kDevicesLost)[0],
              HasSubstr("all GPUs of host-0 stopped answering: its container or driver"));
  rig.tell(0, {Hosts::lost(0, 0), Hosts::lost(0, 1)});
  EXPECT_EQ(rig.told(event_kind::kDevicesLost).size(), 1u) << "once";
  rig.tell(0, {Hosts::sample(0, 0)});
  EXPECT_EQ(rig.fault_of(0, 0), DeviceFault::kNone);
  EXPECT_EQ(rig.fault_of(0, 1), DeviceFault::kLost) << "others of its host answer again";
}

TEST(DeviceHealth, BeyondAQuarterOfAllDevices_OnlyAnOperatorCordons) {
  Hosts rig(8);
  for (int host = 0; host < 3; ++host) rig.tell(host, {Hosts::with_xid(host, 0, 79)});
  EXPECT_EQ(rig.fault_of(0), DeviceFault::kXid);
  EXPECT_EQ(rig.fault_of(1), DeviceFault::kXid);
  EXPECT_EQ(rig.fault_of(2), DeviceFault::kNone);
  EXPECT_THAT(rig.told(event_kind::kDeviceUnhealthy).at(2),
              EndsWith("the device is not cordoned, because 2 of 8 devices are: look for a common "
                       "cause, or run shoal agent cordon host-2"));
}

TEST(DeviceHealth, XidOfALostGpu_IsAmongItsReasons) {
  Hosts rig(1, 2);
  DeviceSample gone = Hosts::lost(0, 1);
  gone.errors = DeviceErrors{.xids = {{79, 1, {}}}};
  rig.tell(0, {Hosts::sample(0, 0), Hosts::sample(0, 1)});
  rig.tell(0, {gone});
  EXPECT_EQ(rig.fault_of(0, 1), DeviceFault::kLost);
  EXPECT_EQ(rig.agent(0).refusals[0].reasons,
            (std::vector<std::string>{"its UUID does not answer any more",
                                      "its driver reported XID 79"}));
}

TEST(DeviceHealth, MeasurementOfATrainer_LeavesTheUuid) {
  Hosts rig(1);
  Device measured = rig.agent(0).devices[0];
  measured.uuid.clear();  // a trainer does not know which card it has
  measured.gflops = 20;
  rig.say(rig.agents[0], DeviceMeasured{measured});
  EXPECT_EQ(rig.agent(0).devices[0].gflops, 20);
  EXPECT_EQ(rig.agent(0).devices[0].uuid, "GPU-0-0");
}

TEST(DeviceHealth, ForgottenAgent_LeavesNoFacts) {
  Hosts rig(1);
  rig.tell(0, {Hosts::sample(0, 0)});
  EXPECT_EQ(rig.state().device_facts.size(), 1u);
  rig.say(rig.agents[0], Goodbye{"it left"});
  rig.input(CommandAgent{RequestId{1}, AgentId(1), AgentVerb::kForget});
  EXPECT_EQ(rig.state().device_facts.size(), 0u);
}

}  // namespace
}  // namespace shoal::coordinator
