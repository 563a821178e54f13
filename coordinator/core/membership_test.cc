// Agents that join, return, hang up and leave: what is remembered of them, and when they are gone.
#include "coordinator/core/membership.h"

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

const AgentId kFirst(1);

struct Alone : Rig {
  Alone() {
    hello.uid = "uid-a";
    hello.name = "a";
    hello.devices = {Device{.index = 0, .kind = DeviceKind::kCpu, .name = "cpu"}};
  }
  // A stream of this agent, with what `hello` says by then.
  ConnectionId come() {
    const ConnectionId connection{next_++};
    input(AgentHello{connection, hello});
    hello.incarnation = agent().incarnation;
    return connection;
  }
  const AgentRecord& agent() const { return state().agents.at(kFirst); }
  Hello hello;
  std::uint64_t next_ = 50;
};

TEST(Membership, TheOldestAndTheNewestProtocolAreSpoken) {
  Alone rig;
  rig.hello.protocol = rig.hello.protocol_min = kProtocolVersionMin;
  EXPECT_FALSE(rig.last<Refused>(rig.come()));
  rig.hello.protocol = kProtocolVersion + 3;  // a newer agent that still speaks ours
  rig.hello.protocol_min = kProtocolVersion;
  EXPECT_FALSE(rig.last<Refused>(rig.come()));
  rig.hello.protocol = rig.hello.protocol_min = kProtocolVersionMin - 1;
  EXPECT_TRUE(rig.last<Refused>(rig.come()));
}

TEST(Membership, ARefusalNamesBothVersionsAndWhoIsToBeUpgraded) {
  Alone rig;
  rig.options.version = "2.0.0";
  rig.restart();
  rig.hello.version = "1.4.0";
  rig.hello.protocol = rig.hello.protocol_min = kProtocolVersionMin - 1;
  const auto refused_because = [&] {
    rig.input(AgentHello{ConnectionId{99}, rig.hello});
    EXPECT_EQ(rig.events.back().kind, event_kind::kAgentRefused);
    return to_string(rig.last<Refused>(ConnectionId{99})->error);
  };
  const std::string ours =
      ", shoal-coordinator 2.0.0 speaks protocol 4 to 8 (upgrade Shoal on the host of ";
  EXPECT_EQ(refused_because(),
            "protocol: shoal-agent 1.4.0 speaks protocol 3" + ours + "the agent)");
  rig.hello.version = "3.1.0";
  rig.hello.protocol_min = kProtocolVersion + 1;
  rig.hello.protocol = kProtocolVersion + 2;
  EXPECT_EQ(refused_because(),
            "protocol: shoal-agent 3.1.0 speaks protocol 9 to 10" + ours + "the coordinator)");
}

// The hello of a process that has ended, or that dialed again, arrives after that of the next one.
TEST(Membership, AFullClusterCountsThoseThatAreThere) {
  Alone rig;
  rig.options.agents_max = 1;
  rig.restart();
  const ConnectionId first = rig.come();
  Hello other = rig.hello;
  other.uid = "uid-b", other.name = "b", other.incarnation = {};
  rig.input(AgentHello{ConnectionId{90}, other});
  ASSERT_TRUE(rig.last<Refused>(ConnectionId{90}));
  EXPECT_EQ(rig.last<Refused>(ConnectionId{90})->error.field, "agents_max");
  rig.say(first, Goodbye{"stopped"});
  EXPECT_EQ(rig.agent().state, AgentState::kGone);
  rig.input(AgentHello{ConnectionId{91}, other});
  EXPECT_FALSE(rig.last<Refused>(ConnectionId{91})) << "the first one is gone";
  EXPECT_TRUE(rig.last<Refused>(rig.come())) << "and may not return beyond the limit";
}

TEST(Membership, AHelloThatWasOvertakenChangesNothing) {
  Alone rig;
  rig.come();
  const AgentRecord before = rig.agent();
  Hello late = rig.hello;
  late.incarnation = {};
  rig.input(AgentHello{ConnectionId{49}, late});
  EXPECT_EQ(rig.agent(), before);
  EXPECT_FALSE(rig.last<Welcome>(ConnectionId{49}));
  rig.input(AgentHello{ConnectionId{60}, late});
  EXPECT_GT(rig.agent().incarnation, before.incarnation);
}

TEST(Membership, WhatAnAgentSaysOfItselfIsKeptAndMayChange) {
  Alone rig;
  rig.hello.host = "10.0.0.1";
  rig.hello.labels = {{"region", "north"}};
  rig.come();
  EXPECT_EQ(rig.agent().host, "10.0.0.1");
  EXPECT_EQ(rig.agent().labels, rig.hello.labels);
  EXPECT_EQ(rig.events.back().kind, event_kind::kAgentJoined);
  rig.hello.host = "10.0.0.2";
  rig.hello.labels = {{"region", "south"}};
  rig.hello.version = "2";
  rig.come();  // the same process over a new stream
  EXPECT_EQ(rig.events.back().kind, event_kind::kAgentReturned);
  EXPECT_EQ(rig.agent().host, "10.0.0.2");
  EXPECT_EQ(rig.agent().version, "2");
  EXPECT_EQ(rig.agent().labels, rig.hello.labels);
}

TEST(Membership, AMeasuredSpeedOutlivesTheReturnOfTheSameDevice) {
  Alone rig;
  Device& device = rig.hello.devices.front();
  const ConnectionId first = rig.come();
  Device measured = device;
  measured.gflops = 55;
  rig.say(first, DeviceMeasured{measured});
  rig.come();
  EXPECT_EQ(rig.agent().devices.front().gflops, 55);
  device.gflops = 60;
  rig.come();
  EXPECT_EQ(rig.agent().devices.front().gflops, 60) << "what it says itself";
  device.gflops = 0;
  device.name = "another cpu";
  rig.come();
  EXPECT_EQ(rig.agent().devices.front().gflops, 0);
}

TEST(Membership, ToLeaveIsNoWarning) {
  Alone rig;
  rig.say(rig.come(), Goodbye{"stopped"});
  EXPECT_EQ(rig.agent().state, AgentState::kGone);
  EXPECT_EQ(rig.events.back().kind, event_kind::kAgentGone);
  EXPECT_EQ(rig.events.back().severity, Severity::kInfo);
  rig.come();
  rig.wait(rig.options.lease + seconds(2));
  EXPECT_EQ(rig.agent().state, AgentState::kGone);
  EXPECT_EQ(rig.events.back().severity, Severity::kWarning);
}

TEST(Membership, WhoStaysAwayAfterARestartIsGone) {
  Alone rig;
  rig.come();
  rig.restart();
  rig.wait(rig.options.boot_grace - seconds(2));
  EXPECT_NE(rig.agent().state, AgentState::kGone);
  rig.wait(seconds(4));
  EXPECT_EQ(rig.agent().state, AgentState::kGone);
}

// Words of a stream that has ended, which were still in a queue.
TEST(Membership, AStreamThatEndedSaysNothingAnyMore) {
  Alone rig;
  const ConnectionId old = rig.come();
  rig.input(AgentHungUp{old});
  rig.say(old, Goodbye{"stopped"});
  EXPECT_NE(rig.agent().state, AgentState::kGone);
  rig.come();
  rig.input(AgentHungUp{old});
  rig.wait(rig.options.reconnect_grace + seconds(1));
  EXPECT_NE(rig.agent().state, AgentState::kGone) << "its new stream is there";
}

TEST(Membership, AnAgentIsAsBusyAsItsOwnReplicas) {
  Rig rig;
  const auto a = rig.join("a");
  rig.join("b");
  JobSpec spec = small_job();
  spec.swarm.max_replicas = 2;
  rig.adopt(spec);
  const auto again = rig.join("a", Incarnation{1});
  rig.join("b", Incarnation{1});
  rig.join("c");
  rig.wait(seconds(3));
  const auto state = [&](std::uint64_t id) { return rig.state().agents.at(AgentId(id)).state; };
  EXPECT_EQ(state(1), AgentState::kSyncing);
  EXPECT_EQ(state(2), AgentState::kSyncing);
  EXPECT_EQ(state(3), AgentState::kIdle);
  rig.load(again);
  EXPECT_EQ(state(1), AgentState::kActive);
  EXPECT_EQ(state(2), AgentState::kSyncing);
  EXPECT_EQ(state(3), AgentState::kIdle);
  EXPECT_NE(a, again);
}

}  // namespace
}  // namespace shoal::coordinator
