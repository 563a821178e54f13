// What placement is told of the cluster, and the moves that it decides, carried out.
#include "coordinator/core/replicas/placing.h"

#include <string>

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/state/blocks.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/core/used_gpu_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// One agent with a device that nobody uses.
struct PlacingTest : testing::Test {
  PlacingTest() { rig.join("a"); }
  // The input for a job that was not submitted yet, after `change`.
  template <typename Change>
  PlacementInput input(const Change& change, std::int64_t stages = 1) {
    State state = rig.state();
    change(state);
    Transaction tx(state, rig.now);
    JobRecord job{.spec = small_job()};
    job.spec.swarm.stages = stages;
    return placement_input(tx, job);
  }
  static AgentRecord& agent(State& state) { return state.agents.at(AgentId(1)); }

  Rig rig;
};

TEST_F(PlacingTest, AFreeDeviceIsToldWithWhatItHas) {
  const PlacementInput told = input([](State& state) { agent(state).labels = {{"region", "eu"}}; });
  EXPECT_EQ(told.devices_known, 1);
  ASSERT_EQ(told.free.size(), 1u);
  EXPECT_EQ(told.free[0].memory, mebibytes(4096));
  EXPECT_EQ(told.free[0].gflops, 10);
  EXPECT_EQ(told.free[0].domain, "eu");
  EXPECT_FALSE(told.free[0].refused || told.free[0].resting);
  EXPECT_EQ(told.cut.size(), 1u) << "one stage is the whole model";
  EXPECT_EQ(input([](State&) {}).free[0].domain, "127.0.0.1") << "without a region, the host";
}

TEST_F(PlacingTest, AReplicaGroupCountsAsItsLeaderWhereTheModelMayBeCut) {
  const auto told = [&](std::int64_t stages) {
    State state = rig.state();
    agent(state).devices[0].grouped = 4;
    JobRecord job{.spec = small_job()};
    job.spec.swarm.stages = stages;
    Transaction tx(state, rig.now);
    return placement_input(tx, job).free.at(0);
  };
  EXPECT_EQ(told(1).gflops, 10);
  EXPECT_EQ(told(1).group, 1);
  EXPECT_EQ(told(2).gflops, 2.5);
  EXPECT_EQ(told(0).gflops, 2.5) << "auto";
  EXPECT_EQ(told(0).group, 4) << "auto counts all of it if it chooses one stage";
}

// One that was slowed down since takes as much longer for a block as for anything.
TEST_F(PlacingTest, AMeasuredBlockIsTheSpeedOfItsDevice) {
  const auto told = [&](std::int64_t stages, std::int32_t grouped, double slowed) {
    return input(
               [&](State& state) {
                 JobSpec spec = small_job();
                 spec.swarm.stages = stages;
                 AgentRecord& one = agent(state);
                 one.devices[0].grouped = grouped;
                 keep_block(one, one.devices[0], shape_of(spec), {milliseconds(10), {}, {}}, {});
                 if (slowed < 1) state.slow_devices.put({AgentId(1), 0}, {slowed, rig.now});
               },
               stages)
        .free.at(0);
  };
  const double speed = told(1, 1, 1).gflops;
  EXPECT_EQ(told(1, 1, 1).block->block, milliseconds(10));
  EXPECT_NEAR(told(1, 1, 0.5).gflops, speed / 2, 1e-6 * speed);
  EXPECT_NEAR(told(1, 4, 1).gflops, 4 * speed, 1e-6 * speed) << "all of the group train it";
  EXPECT_EQ(told(2, 4, 1).gflops, told(2, 1, 1).gflops) << "the leader, which measured";
}

TEST_F(PlacingTest, WhoMayNotWorkIsNotTold) {
  EXPECT_EQ(input([](State& state) { agent(state).cordoned = true; }).devices_known, 0);
  EXPECT_EQ(input([](State& state) { agent(state).state = AgentState::kDraining; }).devices_known,
            0);
  EXPECT_EQ(input([](State& state) {
              agent(state).health_record.quarantined_until = Instant{1};
            }).devices_known,
            0);
  const PlacementInput reducer =
      input([](State& state) { agent(state).devices[0].kind = DeviceKind::kReducer; });
  EXPECT_EQ(reducer.devices_known, 0);
}

TEST_F(PlacingTest, WhoIsOutOfReachIsKnownAndNotFree) {
  const PlacementInput told =
      input([](State& state) { state.presence.at(AgentId(1)).connected = false; });
  EXPECT_EQ(told.devices_known, 1);
  EXPECT_THAT(told.free, IsEmpty());
}

TEST_F(PlacingTest, ADeviceWithAReplicaBelongsToItsJob) {
  const PlacementInput told = input([](State& state) {
    state.replicas.put(ReplicaId(5), {.id = ReplicaId(5), .job = JobId(9), .agent = AgentId(1)});
  });
  EXPECT_EQ(told.devices_known, 1);
  EXPECT_THAT(told.free, IsEmpty());
}

TEST_F(PlacingTest, ADeviceRestsAndAnAgentRefuses) {
  const PlacementInput told = input([&](State& state) {
    state.resting_until.put({AgentId(1), 0}, rig.now + seconds(1));
    state.refusals.put({JobId(), AgentId(1)}, {});
  });
  ASSERT_EQ(told.free.size(), 1u);
  EXPECT_TRUE(told.free[0].resting);
  EXPECT_TRUE(told.free[0].refused);
  const PlacementInput later = input([&](State& state) {
    state.resting_until.put({AgentId(1), 0}, rig.now);
  });
  EXPECT_FALSE(later.free[0].resting);
}

TEST_F(PlacingTest, JobThatDoesNotTrain_TakesARestingDeviceSooner) {
  State state = rig.state();
  state.resting_until.put({AgentId(1), 0}, rig.now + seconds(600));
  state.device_failures.put({AgentId(1), 0}, {.in_row = 9, .at = rig.now});
  Transaction tx(state, rig.now);
  const DeviceKey device{AgentId(1), 0};
  EXPECT_EQ(rest_of(tx, {.phase = JobPhase::kTraining}, device), seconds(600));
  EXPECT_EQ(rest_of(tx, {.phase = JobPhase::kStalled}, device), rig.options.rest_awaited);
}

TEST_F(PlacingTest, LongRest_IsNotAwaited) {
  const auto rested = [&](Duration rest) {
    const PlacementInput told = input([&](State& state) {
      state.resting_until.put({AgentId(1), 0}, rig.now + rest);
    });
    EXPECT_TRUE(told.free.at(0).resting);
    return told.free.at(0).rests_long;
  };
  EXPECT_FALSE(rested(rig.options.rest_awaited));
  EXPECT_TRUE(rested(rig.options.rest_awaited + seconds(1)));
}

TEST_F(PlacingTest, DeviceThatWasSlow_CountsAsSlowForAnHour) {
  const auto gflops = [&](double ratio, Duration ago) {
    return input([&](State& state) {
             state.slow_devices.put({AgentId(1), 0}, {ratio, rig.now - ago});
           })
        .free.at(0)
        .gflops;
  };
  EXPECT_DOUBLE_EQ(gflops(0.25, seconds(60)), 2.5);
  EXPECT_DOUBLE_EQ(gflops(0.25, seconds(3601)), 10);
}

TEST_F(PlacingTest, DeviceThatOthersUse_CountsWithTheRestOfItsTime) {
  const auto used = [&](double slowed) {
    return [this, slowed](State& state) {
      agent(state).devices[0].uuid = "GPU-a";
      state.foreign_loads.put({AgentId(1), "GPU-a"}, {0.75, 0.75, rig.now});
      keep_block(agent(state), agent(state).devices[0], shape_of(small_job()),
                 {milliseconds(10), {}, {}}, {});
      if (slowed < 1) state.slow_devices.put({AgentId(1), 0}, {slowed, rig.now});
    };
  };
  const PlacementInput told = input(used(1));
  ASSERT_EQ(told.free.size(), 1u);
  EXPECT_EQ(told.free[0].foreign, 0.75);
  EXPECT_EQ(told.free[0].block->block, milliseconds(40));
  EXPECT_EQ(input(used(0.5)).free.at(0).block->block, milliseconds(40)) << "not counted twice";
  EXPECT_EQ(input(used(0.125)).free.at(0).block->block, milliseconds(80)) << "it was slower yet";
  ASSERT_EQ(loaded_devices(told).size(), 1u);
  EXPECT_EQ(loaded_devices(told)[0].agent, AgentId(1));
  EXPECT_EQ(decide_placement(told).loaded.at(0).share, 0.75) << "the plan says so";
}

TEST_F(PlacingTest, LoadOfADeviceWithAReplica_IsInItsMeasuredTimes) {
  State state = rig.state();
  agent(state).devices[0].uuid = "GPU-a";
  state.foreign_loads.put({AgentId(1), "GPU-a"}, {0.75, 0.75, rig.now});
  state.jobs.put(JobId(9), {.id = JobId(9), .spec = small_job()});
  state.replicas.put(ReplicaId(5), {.id = ReplicaId(5), .job = JobId(9), .agent = AgentId(1)});
  Transaction tx(state, rig.now);
  const PlacementInput anew = placement_input(tx, JobRecord{.spec = small_job()}, {JobId(9)});
  ASSERT_EQ(anew.free.size(), 1u) << "its job would let it go";
  EXPECT_EQ(anew.free[0].gflops, 10);
  EXPECT_EQ(anew.free[0].foreign, 0);
}

TEST_F(PlacingTest, LoadCounts_OnlyOnDevicesWithoutReplicas) {
  State state = rig.state();
  Device second = agent(state).devices[0];
  second.index = 1;
  agent(state).devices.push_back(second);
  agent(state).devices[0].uuid = "GPU-a", agent(state).devices[1].uuid = "GPU-b";
  for (const char* uuid : {"GPU-a", "GPU-b"}) {
    state.foreign_loads.put({AgentId(1), uuid}, {0.75, 0.75, rig.now});
  }
  JobRecord job{.id = JobId(9), .spec = small_job()};
  job.stages.resize(2);
  state.jobs.put(JobId(9), job);
  for (const StageIndex stage : {1, 0}) {
    const ReplicaId id(static_cast<std::uint64_t>(6 - stage));
    state.replicas.put(
        id, {.id = id, .job = JobId(9), .agent = AgentId(1), .device = 1, .stage = stage});
  }
  Transaction tx(state, rig.now);
  const PlacementInput anew = placement_input(tx, JobRecord{.spec = small_job()}, {JobId(9)});
  ASSERT_EQ(anew.free.size(), 2u);
  EXPECT_EQ(anew.free[0].foreign, 0.75);
  EXPECT_EQ(anew.free[1].foreign, 0);
  const PlacementInput beside = placement_input(tx, JobRecord{.spec = small_job()});
  ASSERT_EQ(beside.free.size(), 1u) << "the other device belongs to job_9";
  EXPECT_EQ(beside.free[0].device, 0);
}

TEST_F(PlacingTest, SamplesOfASession_SayWhatOthersUse) {
  Hello hello = hello_of_used_gpu();
  const ConnectionId stream{77};
  rig.input(AgentHello{stream, hello});
  rig.say(stream, heartbeat_of_used_gpu());
  const auto gflops = [&] { return input([](State&) {}).free.at(1).gflops; };
  EXPECT_EQ(gflops(), 5);
  hello.incarnation = rig.state().agents.at(AgentId(2)).incarnation;
  rig.input(AgentHello{ConnectionId(78), hello});
  EXPECT_EQ(gflops(), 10) << "the new session has not said it";
}

TEST_F(PlacingTest, CordonedDevice_IsKnownAndNotFree) {
  const PlacementInput told =
      input([](State& state) { cordon_device(agent(state), {}, {.device = 0}); });
  EXPECT_EQ(told.devices_known, 1);
  EXPECT_EQ(told.cordoned, 1);
  EXPECT_THAT(told.free, IsEmpty());
}

TEST_F(PlacingTest, MemoryIsWhatFailureTaught) {
  const PlacementInput told = input([](State& state) {
    agent(state).refusals = {{0, mebibytes(1000), Instant{1}}};
  });
  EXPECT_LT(told.free[0].memory, mebibytes(1000));
}

TEST_F(PlacingTest, APlanThatLacksDevicesSaysSo) {
  State state = rig.state();
  Transaction tx(state, rig.now);
  JobSpec spec = small_job();
  spec.swarm.min_replicas = 2;
  const PlacementDecision one_of_two = plan_job(tx, spec);
  EXPECT_EQ(one_of_two.reason, PlacementReason::kTooFewDevices);
  EXPECT_EQ(one_of_two.missing, 1);
  spec.swarm.min_replicas = 1;
  EXPECT_EQ(plan_job(tx, spec).reason, PlacementReason::kPlaced);
}

// A job that runs does not wait for devices; who looks why one stays idle finds it in the events.
TEST_F(PlacingTest, ADeviceThatIsTooSmallIsNamedOnce) {
  rig.input(SubmitJob{RequestId{1}, small_job(), false, {}});
  ASSERT_FALSE(rig.state().replicas.empty());
  rig.device_memory = mebibytes(1);
  rig.join("b");
  const auto told = [this] {
    std::vector<std::string> texts;
    for (const EventRecord& event : rig.events) {
      if (event.kind == "device_too_small") texts.push_back(event.message);
    }
    return texts;
  };
  rig.wait(seconds(60));
  ASSERT_EQ(told().size(), 1u);
  EXPECT_THAT(told()[0], HasSubstr("device 0 of b has 1.05 MB free; a replica of job needs "));
  EXPECT_EQ(rig.state().replicas.size(), 1u);
}

class ProgramsPlacingTest : public testing::Test {
 protected:
  static JobSpec program() {
    JobSpec spec = small_job();
    spec.trainer = {TrainerKind::kPython, "train.py", "sha256:" + std::string(64, 'a')};
    return spec;
  }
  void submit(bool dry_run = false) {
    rig.input(SubmitJob{RequestId{1}, program(), dry_run, {}, "ada"});
  }
  std::vector<std::string> told() const {
    std::vector<std::string> texts;
    for (const EventRecord& event : rig.events) {
      if (event.kind == "program_not_run") texts.push_back(event.message);
    }
    return texts;
  }
  Rig rig;
};

TEST_F(ProgramsPlacingTest, CodeGoesWhereItsOwnerIsAllowed) {
  rig.programs.code_from = {"bob"};
  rig.join("a");
  rig.programs.code_from = {"bob", "ada"};
  const auto b = rig.join("b");
  submit();
  rig.wait(rig.options.gather_window);
  ASSERT_EQ(rig.state().replicas.size(), 1u);
  const auto assign = rig.last<Assign>(b);
  ASSERT_TRUE(assign.has_value());
  EXPECT_EQ(assign->owner, "ada");
  EXPECT_EQ(told().size(), 1u);
  EXPECT_THAT(rig.job(JobId(1)).detail, HasSubstr("1 of 2"));
}

TEST_F(ProgramsPlacingTest, AgentsThatDoNotRunItAreNamedOnce) {
  rig.programs.code_from = {"ada"};
  rig.join("a");
  submit();
  rig.wait(rig.options.gather_window);
  EXPECT_THAT(told(), IsEmpty());
  rig.programs.code_from = {"bob"};
  const auto b = rig.join("b");
  rig.wait(seconds(60));
  ASSERT_EQ(told().size(), 1u);
  EXPECT_THAT(told()[0], HasSubstr("b does not run code of ada, so job does not train there"));
  EXPECT_THAT(told()[0], HasSubstr("--allow-code-from ada"));
  EXPECT_EQ(rig.state().agents.at(AgentId(2)).programs, (AllowedPrograms{false, {"bob"}}));
  rig.input(AgentHungUp{b});
  rig.join("b");
  rig.wait(seconds(60));
  EXPECT_EQ(told().size(), 1u) << "it still allows the same";
}

TEST_F(ProgramsPlacingTest, WhereNoAgentAllowsItItIsRefusedWithOwnerAndOption) {
  rig.programs = {true, {"bob"}};
  rig.join("a");
  for (const bool dry_run : {true, false}) {
    submit(dry_run);
    ASSERT_FALSE(rig.replies.back().result.ok());
    ASSERT_EQ(rig.replies.back().fields.size(), 1u);
    EXPECT_EQ(rig.replies.back().fields[0].pointer, "/trainer/code");
    EXPECT_THAT(rig.replies.back().fields[0].detail, HasSubstr("code of ada"));
    EXPECT_THAT(rig.replies.back().fields[0].detail, HasSubstr("--allow-code-from ada"));
  }
}

TEST_F(ProgramsPlacingTest, AJobThatWaitsSaysWhichAgentsDoNotRunIt) {
  submit();
  ASSERT_TRUE(rig.replies.back().result.ok()) << "agents may come that allow it";
  rig.join("a");
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kQueued);
  EXPECT_THAT(rig.job(JobId(1)).detail, HasSubstr("not run code of ada"));
  EXPECT_THAT(rig.job(JobId(1)).detail, HasSubstr("--allow-code-from ada"));
}

// As if every known device were free: what is missing is memory, not time.
TEST_F(PlacingTest, OnlyAModelThatFitsNowhereIsRefused) {
  State state = rig.state();
  state.replicas.put(ReplicaId(5), {.id = ReplicaId(5), .job = JobId(9), .agent = AgentId(1)});
  Transaction tx(state, rig.now);
  JobSpec spec = small_job();
  EXPECT_EQ(why_no_device_fits(tx, spec), "");
  spec.model.hidden = 8192, spec.model.heads = 64, spec.model.layers = 80;
  EXPECT_THAT(why_no_device_fits(tx, spec), HasSubstr("swarm.stages"));
}

}  // namespace
}  // namespace shoal::coordinator
