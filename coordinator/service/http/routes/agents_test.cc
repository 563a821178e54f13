// What is shown of agents: lists, and devices that fail or are slow.
#include "coordinator/service/http/server_test_util.h"
#include "threads/mutex.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class AgentsTest : public testing::ServerFixture {
 protected:
  void SetUp() override { start(); }
};

TEST_F(AgentsTest, AgentsByIdAndName) {
  const Json agents = get("/api/v1/agents").json();
  ASSERT_EQ(agents["items"].size(), 2u);
  EXPECT_EQ(agents["items"][0]["health"], "green");
  EXPECT_EQ(agents["items"][0]["devices"][0]["kind"], "cpu");
  EXPECT_EQ(agents["items"][0]["labels"]["region"], "eu");
  EXPECT_EQ(get("/api/v1/agents/agt_2").json(), get("/api/v1/agents/agent-2").json());
  expect_problem(get("/api/v1/agents/agt_9"), 404, "not-found");
  expect_problem(get("/api/v1/agents?gone=perhaps"), 400, "invalid-request");
}

TEST_F(AgentsTest, AgentsThatAreGoneAreListedWhenAskedFor) {
  {
    const MutexLock lock(cluster_.tables.mutex);
    cluster_.tables.agents.at(2).state = AgentState::kGone;
  }
  for (const char* query : {"", "?gone=false", "?gone=0"})
    EXPECT_EQ(get(std::string("/api/v1/agents") + query).json()["items"].size(), 1u) << query;
  for (const char* query : {"?gone", "?gone=true", "?gone=1"})
    EXPECT_EQ(get(std::string("/api/v1/agents") + query).json()["items"].size(), 2u) << query;
}

// A name is looked for in pages.
TEST_F(AgentsTest, AnAgentIsFoundByNameAmongMany) {
  {
    const MutexLock lock(cluster_.tables.mutex);
    AgentRecord agent = cluster_.tables.agents.at(2);
    for (std::uint64_t n = 10; n < 1010; ++n) {
      agent.id = AgentId(n);
      agent.name = "many-" + std::to_string(n);
      cluster_.tables.agents[n] = agent;
    }
  }
  EXPECT_EQ(get("/api/v1/agents/many-1009").json()["id"], "agt_1009");
  expect_problem(get("/api/v1/agents/many-1010"), 404, "not-found");
}

TEST_F(AgentsTest, Agent_WithAFailingDevice_ShowsItsCordonApartFromItsMemory) {
  {
    const MutexLock lock(cluster_.tables.mutex);
    DeviceRefusal failing{.device = 0, .needed = Bytes(), .at = Instant{1'700'000'000'000'000'000}};
    failing.kind = DeviceRefusalKind::kFailing;
    failing.job = JobId(7);
    failing.reasons = {"trainer_exited: signal 9", "unresponsive", "device_lost: Xid 79"};
    cluster_.tables.agents.at(1).refusals = {{0, Bytes(4096), Instant{1}}, failing};
  }
  const Json agent = get("/api/v1/agents/agt_1").json();
  EXPECT_EQ(agent["memory_refusals"].size(), 1u);
  ASSERT_EQ(agent["cordoned_devices"].size(), 1u);
  EXPECT_EQ(agent["cordoned_devices"][0],
            (Json{{"device", 0},
                  {"at", "2023-11-14T22:13:20.000Z"},
                  {"job", "job_7"},
                  {"code", ""},
                  {"reasons", {"trainer_exited: signal 9", "unresponsive", "device_lost: Xid 79"}},
                  {"uuid", ""},
                  {"fault", "none"},
                  {"ends", "run shoal agent uncordon agent-1"}}));
  EXPECT_THAT(get("/metrics").body, HasSubstr("shoal_agent_devices_cordoned{agent=\"agt_1\"} 1\n"));
}

TEST_F(AgentsTest, Agent_WithAnUnhealthyDevice_ShowsTheFaultAndWhatEndsIt) {
  {
    const MutexLock lock(cluster_.tables.mutex);
    DeviceRefusal sick{.device = 0, .needed = Bytes(), .at = Instant{1'700'000'000'000'000'000}};
    sick.kind = DeviceRefusalKind::kUnhealthy;
    sick.uuid = "GPU-1";
    sick.fault = DeviceFault::kRemapPending;
    sick.reasons = {"a row of its memory waits for its remap"};
    cluster_.tables.agents.at(1).refusals = {sick};
  }
  const Json cordon = get("/api/v1/agents/agt_1").json()["cordoned_devices"].at(0);
  EXPECT_EQ(cordon["job"], nullptr);
  EXPECT_EQ(cordon["uuid"], "GPU-1");
  EXPECT_EQ(cordon["fault"], "remap_pending");
  EXPECT_EQ(cordon["ends"],
            "reset the GPU or reboot its host: the cordon ends when no remap is pending, or with "
            "shoal agent uncordon agent-1");
  const std::string metrics = get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("shoal_agent_devices_cordoned{agent=\"agt_1\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("shoal_device_unhealthy{agent=\"agt_1\",uuid=\"GPU-1\","
                                 "fault=\"remap_pending\"} 1\n"));
}

TEST_F(AgentsTest, DeviceHistory_GoesBackAsFarAsAsked) {
  const Json items = get("/api/v1/agents/agent-1/devices/history").json()["items"];
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0]["uuid"], "cpu-1");
  EXPECT_EQ(items[0]["points"].size(), 2u);
  EXPECT_EQ(items[0]["points"][1], (Json{{"at", "2027-01-15T08:00:00.123Z"},
                                         {"busy", 1.0},
                                         {"used_here_bytes", 0},
                                         {"used_elsewhere_bytes", 0},
                                         {"celsius", 0.0},
                                         {"watts", 0.0},
                                         {"mhz", 0.0},
                                         {"throttled", 0.0}}));
  const Json hour = get("/api/v1/agents/agent-1/devices/history?hours=1").json()["items"];
  EXPECT_EQ(hour[0]["points"].size(), 1u);
  EXPECT_TRUE(get("/api/v1/agents/agent-2/devices/history").json()["items"].empty());
  EXPECT_EQ(get("/api/v1/agents/agent-1/devices/history?hours=0").status, 400);
  EXPECT_EQ(get("/api/v1/agents/agent-1/devices/history?hours=169").status, 400);
  EXPECT_EQ(get("/api/v1/agents/nobody/devices/history").status, 404);
}

TEST_F(AgentsTest, ListOfAgents_HasTroublesOfDevicesInPlaceOfSamples) {
  LiveView live = *cluster_.live();
  AgentLive& agent = live.agents.at(AgentId(1));
  agent.health = Health::kYellow;
  agent.health_reason = "device 0 is lost: gone";
  agent.samples = {{.uuid = "GPU-a", .answer = DeviceAnswer::kLost, .error = "gone"}};
  agent.troubles = {{0, "GPU-a", DeviceTroubleKind::kLost, "gone"}};
  cluster_.set_live(live);
  const Json trouble = {{"device", 0}, {"uuid", "GPU-a"}, {"trouble", "lost"}, {"reason", "gone"}};
  const Json listed = get("/api/v1/agents").json()["items"][0];
  EXPECT_EQ(listed["id"], "agt_1");
  EXPECT_EQ(listed["device_samples"], Json::array());
  EXPECT_EQ(listed["device_troubles"], Json::array({trouble}));
  EXPECT_EQ(listed["health_reason"], "device 0 is lost: gone");
  const Json whole = get("/api/v1/agents/agt_1").json();
  EXPECT_EQ(whole["device_samples"][0]["answer"], "lost");
  EXPECT_EQ(whole["device_troubles"], Json::array({trouble}));
  EXPECT_EQ(whole["late"], false);
}

TEST_F(AgentsTest, Agent_WithASlowReplica_SaysWhyItIsYellow) {
  LiveView live = *cluster_.live();
  live.agents.at(AgentId(1)).health = Health::kYellow;
  live.agents.at(AgentId(1)).health_reason = "rep_1 is slow";
  live.agents.at(AgentId(1)).slow_replicas = 1;
  live.speeds.put(ReplicaId(1), {AgentId(1), 0.25, "rep_1 is slow"});
  cluster_.set_live(live);
  const Json agent = get("/api/v1/agents/agt_1").json();
  EXPECT_EQ(agent["health"], "yellow");
  EXPECT_EQ(agent["health_reason"], "rep_1 is slow");
  EXPECT_EQ(agent["slow_replicas"], 1);
  EXPECT_EQ(get("/api/v1/agents/agt_2").json()["health_reason"], "");
  EXPECT_EQ(get("/api/v1/jobs/job_7/replicas").json()["items"][0]["speed_ratio"], 0.25);
  const std::string metrics = get("/metrics").body;
  for (const char* line :
       {"shoal_agent_health{agent=\"agt_1\"} 1\n", "shoal_agent_health{agent=\"agt_2\"} 0\n",
        "shoal_agent_resident_bytes{agent=\"agt_1\"} 41943040\n",
        "shoal_replica_speed_ratio{replica=\"rep_1\",agent=\"agt_1\"} 0.25\n"}) {
    EXPECT_THAT(metrics, HasSubstr(line));
  }
}

}  // namespace
}  // namespace shoal::coordinator
