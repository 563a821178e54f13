// Failures that count against a device: its rests, its cordon, and what ends both.
#include "coordinator/core/replicas/device_failures.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/state/health_record.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// Agents in training, of a job that needs two. The last one has the bad card.
struct BadCard : Rig {
  explicit BadCard(int count = 3) {
    for (int i = 0; i < count; ++i) {
      names.push_back("agent-" + std::to_string(i + 1));
      agents.push_back(join(names.back()));
    }
    id = *submit(small_job());
    for (const ConnectionId agent : agents) replicas.push_back(load(agent));
    wait(seconds(3));
    EXPECT_EQ(job(id).phase, JobPhase::kTraining);
  }
  ConnectionId bad() const { return agents.back(); }
  DeviceKey bad_device() const { return {AgentId(agents.size()), 0}; }
  const AgentRecord& agent(std::size_t number) const { return state().agents.at(AgentId(number)); }

  void stay(Duration time) {
    for (Duration passed; passed < time; passed = passed + seconds(1)) {
      wait(seconds(1));
      for (const ConnectionId agent : agents) say(agent, Heartbeat{});
    }
  }
  Duration rest_of(DeviceKey device) {
    const Instant* until = state().resting_until.find(device);
    return until == nullptr ? Duration() : std::max(*until - now, Duration());
  }
  // Fails what the agent holds, and returns the rest of its device.
  Duration fail(std::size_t number, ReplicaFailure failure = ReplicaFailure::kTrainerExited) {
    const ConnectionId agent = agents.at(number - 1);
    say(agent, ReplicaFailed{last<Assign>(agent)->replica, failure, "signal 9"});
    return rest_of({AgentId(number), 0});
  }
  bool holds_replica(std::size_t number) const {
    return std::ranges::any_of(
        state().replicas, [&](const auto& entry) { return entry.second.agent == AgentId(number); });
  }
  // Fails it as often, whenever it is given a replica.
  void keep_failing(std::size_t number, int times) {
    for (int i = 0; i < times; ++i) {
      for (int s = 0; s < 700 && !holds_replica(number); ++s) stay(seconds(1));
      ASSERT_TRUE(holds_replica(number)) << i;
      fail(number);
    }
  }
  void commit_round(RoundNumber number) {
    const RoundKey key{id, 0, number};
    const auto all = [&](const auto& act) {
      for (const ConnectionId agent : agents) act(agent, last<Assign>(agent)->replica);
    };
    all([&](auto agent, auto replica) { report(agent, replica, key); });
    all([&](auto agent, auto replica) { vote(agent, replica, key, 1); });
    all([&](auto agent, auto replica) { applied(agent, replica, key, {11, 11}); });
    EXPECT_EQ(job(id).committed_round, number);
  }
  std::vector<std::string> told() const {
    std::vector<std::string> messages;
    for (const EventRecord& event : events) {
      if (event.kind == std::string(event_kind::kDeviceFailing)) messages.push_back(event.message);
    }
    return messages;
  }
  void uncordon(std::size_t number) {
    input(CommandAgent{RequestId{9}, AgentId(number), AgentVerb::kUncordon});
  }

  std::vector<std::string> names;
  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  JobId id;
};

TEST(DeviceFailures, FailureWhileOthersTrain_DoesNotCountAgainstTheJob) {
  BadCard rig;
  rig.fail(3);
  EXPECT_EQ(rig.job(rig.id).failures_in_row, 0);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.state().device_failures.at(rig.bad_device()).in_row, 1);
}

TEST(DeviceFailures, FailureThatStopsTheJob_CountsAgainstTheJob) {
  BadCard rig(2);
  EXPECT_EQ(rig.fail(2), rig.options.replica_backoff);
  EXPECT_EQ(rig.job(rig.id).failures_in_row, 1);
  rig.keep_failing(2, 5);
  EXPECT_EQ(rig.job(rig.id).failures_in_row, 6);
  EXPECT_EQ(rig.rest_of(rig.bad_device()), rig.options.replica_backoff);
  EXPECT_TRUE(rig.told().empty());
}

TEST(DeviceFailures, FailureWithACauseElsewhere_CountsAgainstNoDevice) {
  for (const ReplicaFailure failure :
       {ReplicaFailure::kSourceLost, ReplicaFailure::kPeerUnreachable,
        ReplicaFailure::kNonFiniteLoss, ReplicaFailure::kDigestMismatch}) {
    BadCard rig;
    rig.fail(3, failure);
    EXPECT_FALSE(rig.state().device_failures.contains(rig.bad_device())) << to_string(failure);
  }
}

TEST(DeviceFailures, RestDoublesUpToItsMaximum) {
  BadCard rig;
  rig.options.device_failures_max = 100;
  rig.options.replica_backoff_max = seconds(10);
  rig.restart();
  rig.agents.clear();
  for (const std::string& name : rig.names) {
    const Incarnation before = rig.agent(rig.agents.size() + 1).incarnation;
    rig.agents.push_back(rig.join(name, before, {rig.replicas[rig.agents.size()]}));
  }
  rig.stay(seconds(1));
  std::vector<std::int64_t> rests;
  rig.say(rig.bad(), ReplicaFailed{rig.replicas[2], ReplicaFailure::kDeviceLost, "Xid 79"});
  rests.push_back(rig.rest_of(rig.bad_device()).ms() / 1000);
  for (int i = 0; i < 5; ++i) {
    rig.keep_failing(3, 1);
    rests.push_back(rig.rest_of(rig.bad_device()).ms() / 1000);
  }
  EXPECT_EQ(rests, (std::vector<std::int64_t>{1, 2, 4, 8, 10, 10}));
}

TEST(DeviceFailures, ThirdFailureInARow_CordonsTheDevice) {
  BadCard rig;
  rig.keep_failing(3, 3);
  ASSERT_EQ(rig.told().size(), 1u);
  EXPECT_THAT(rig.told()[0],
              HasSubstr("replicas on device 0 of agent-3 failed 3 times in a row while other "
                        "replicas of job trained (1. trainer_exited: signal 9; 2. "));
  EXPECT_THAT(rig.told()[0], HasSubstr("run shoal agent uncordon agent-3"));
  ASSERT_EQ(rig.agent(3).refusals.size(), 1u);
  const DeviceRefusal& cordon = rig.agent(3).refusals[0];
  EXPECT_EQ(cordon.kind, DeviceRefusalKind::kFailing);
  EXPECT_EQ(cordon.job, rig.id);
  EXPECT_EQ(cordon.reasons, std::vector<std::string>(3, "trainer_exited: signal 9"));
  EXPECT_FALSE(rig.agent(3).cordoned) << "its other devices work";
  ASSERT_EQ(rig.decisions.size(), 1u);
  EXPECT_EQ(rig.decisions[0].kind, NoteDecision::Kind::kCordonDevice);
  EXPECT_THAT(rig.decisions[0].why,
              HasSubstr(to_string(rig.id) + ": 1. trainer_exited: signal 9; 2. "));
  rig.stay(seconds(30));
  EXPECT_FALSE(rig.holds_replica(3));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(rig.id).failures_in_row, 0);
}

TEST(DeviceFailures, Cordon_OutlivesARestartAndEndsWithUncordon) {
  BadCard rig;
  rig.keep_failing(3, 3);
  const std::vector<ReplicaId> alive{rig.replicas[0], rig.replicas[1]};
  rig.restart();
  rig.agents = {rig.join("agent-1", rig.agent(1).incarnation, {alive[0]}),
                rig.join("agent-2", rig.agent(2).incarnation, {alive[1]}), rig.join("agent-3")};
  rig.stay(seconds(30));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_FALSE(rig.holds_replica(3));
  rig.uncordon(3);
  EXPECT_TRUE(rig.agent(3).refusals.empty());
  EXPECT_TRUE(rig.holds_replica(3)) << "at once, without a rest";
  EXPECT_EQ(rig.events.back().kind, event_kind::kReplicaAssigned);
}

TEST(DeviceFailures, ContributionToACommittedRound_ForgetsEarlierFailures) {
  BadCard rig;
  rig.keep_failing(3, 2);
  while (!rig.holds_replica(3)) rig.stay(seconds(1));
  rig.load(rig.bad());
  rig.commit_round(1);
  EXPECT_TRUE(rig.state().device_failures.contains(rig.bad_device())) << "it only followed";
  rig.commit_round(2);
  EXPECT_FALSE(rig.state().device_failures.contains(rig.bad_device()));
  EXPECT_EQ(rig.fail(3), rig.options.replica_backoff);
  EXPECT_TRUE(rig.told().empty());
}

// All replicas fail in turn, so no other replica has trained through all failures of a device.
TEST(DeviceFailures, JobWhoseReplicasAllFail_CordonsNoDevice) {
  BadCard rig;
  for (int i = 0; i < 6 && !is_terminal(rig.job(rig.id).phase); ++i) {
    for (std::size_t number = 3; number > 0; --number) {
      if (rig.holds_replica(number)) rig.fail(number);
    }
    for (int s = 0; s < 100 && rig.job(rig.id).phase != JobPhase::kTraining; ++s) {
      rig.stay(seconds(1));
      for (std::size_t number = 1; number <= 3; ++number) {
        if (rig.holds_replica(number)) rig.load(rig.agents[number - 1]);
      }
    }
  }
  EXPECT_TRUE(rig.told().empty());
  EXPECT_GT(rig.job(rig.id).failures_in_row, 6);
}

TEST(DeviceFailures, CordonsStopAtAQuarterOfTheDevices) {
  BadCard rig(4);
  rig.keep_failing(4, 3);
  rig.keep_failing(3, 3);
  ASSERT_EQ(rig.told().size(), 2u);
  EXPECT_THAT(rig.told()[1], HasSubstr("is not cordoned, because 1 of 4 devices are"));
  EXPECT_THAT(rig.told()[1], HasSubstr("shoal agent cordon agent-3"));
  EXPECT_TRUE(rig.agent(3).refusals.empty());
  EXPECT_EQ(rig.rest_of({AgentId(3), 0}), seconds(4));
}

TEST(DeviceFailures, WaitingJob_NamesTheCordonedDevice) {
  BadCard rig;
  rig.keep_failing(3, 3);
  rig.input(CancelJob{RequestId{4}, rig.id});
  JobSpec spec = small_job("next");
  spec.swarm.min_replicas = 3;
  const JobId next = *rig.submit(spec);
  rig.stay(seconds(3));
  EXPECT_FALSE(rig.holds_replica(3));
  State state = rig.state();
  Transaction tx(state, rig.now);
  PlacementInput input = placement_input(tx, JobRecord{.spec = spec});
  EXPECT_EQ(input.cordoned, 1);
  input.free.clear();
  EXPECT_THAT(explain(decide_placement(input)), HasSubstr("cordoned after failures: 1 device ("));
  EXPECT_EQ(rig.job(next).phase, JobPhase::kGathering);
}

TEST(DeviceFailures, LongReason_IsCutAtACharacter) {
  BadCard rig;
  std::string detail;
  while (detail.size() < 1000) detail += "\xC3\xBC";  // ü
  for (int i = 0; i < 3; ++i) {
    while (!rig.holds_replica(3)) rig.stay(seconds(1));
    rig.say(rig.bad(),
            ReplicaFailed{rig.last<Assign>(rig.bad())->replica, ReplicaFailure::kInternal, detail});
  }
  const std::string& reason = rig.agent(3).refusals.at(0).reasons.at(0);
  EXPECT_LT(reason.size(), 310u);
  EXPECT_THAT(reason, testing::EndsWith("\xC3\xBC…"));
}

}  // namespace
}  // namespace shoal::coordinator
