// Logs over REST: of an agent, of a job over several agents, following, and agents that are silent.
#include "coordinator/service/http/server_test_util.h"
#include "coordinator/service/http/url.h"
#include "threads/mutex.h"

namespace shoal::coordinator {
namespace {

using Json = nlohmann::json;
using testing::Received;

constexpr std::int64_t kSecond = 1'000'000'000;

LogLine line(std::int64_t second, std::uint64_t replica, const std::string& text,
             LogLevel level = LogLevel::kInfo) {
  return {
      {second * kSecond}, level, replica == 0 ? "agent" : "trainer-0", ReplicaId(replica), text};
}

class LogsTest : public testing::ServerFixture {
 protected:
  void SetUp() override {
    start();
    const MutexLock guard(cluster_.tables.mutex);
    cluster_.tables.logs[AgentId(1)] = {
        {line(10, 0, "joined"), line(11, 1, "a"), line(13, 1, "B", LogLevel::kWarning)}};
    cluster_.tables.logs[AgentId(2)] = {{line(12, 2, "c"), line(14, 2, "d")}};
  }
  void add(AgentId agent, LogLine more) {
    const MutexLock guard(cluster_.tables.mutex);
    cluster_.tables.logs[agent].lines.push_back(std::move(more));
  }
  static std::string texts(const Json& answer) {
    std::string all;
    for (const Json& item : answer["items"]) all += item["text"].get<std::string>() + " ";
    return all;
  }
  std::string cursor_of(const Json& answer) { return answer["next_cursor"].get<std::string>(); }
};

TEST_F(LogsTest, ALineOfAnAgentIsShownWhole) {
  const Json answer = get("/api/v1/agents/agent-1/logs").json();
  EXPECT_EQ(texts(answer), "joined a B ");
  const Json& warning = answer["items"][2];
  EXPECT_EQ(warning["at"], "1970-01-01T00:00:13.000Z");
  EXPECT_EQ(warning["level"], "warning");
  EXPECT_EQ(warning["agent"], "agt_1");
  EXPECT_EQ(warning["agent_name"], "agent-1");
  EXPECT_EQ(warning["source"], "trainer-0");
  EXPECT_EQ(warning["replica"], "rep_1");
  EXPECT_TRUE(answer["items"][0]["replica"].is_null());
  EXPECT_EQ(get("/api/v1/agents/agt_1/logs").header("cache-control"), "no-store");
}

TEST_F(LogsTest, FiltersAreTheAgentsToApply) {
  EXPECT_EQ(texts(get("/api/v1/agents/agt_1/logs?level=warning").json()), "B ");
  EXPECT_EQ(texts(get("/api/v1/agents/agt_1/logs?source=agent").json()), "joined ");
  EXPECT_EQ(texts(get("/api/v1/agents/agt_1/logs?q=b").json()), "B ");
  EXPECT_EQ(texts(get("/api/v1/agents/agt_1/logs?replica=rep_1&tail=1").json()), "B ");
  EXPECT_EQ(texts(get("/api/v1/jobs/alpha/logs?replica=rep_2").json()), "c d ");
}

TEST_F(LogsTest, AJobHasTheLinesOfItsReplicasInOneOrder) {
  EXPECT_EQ(texts(get("/api/v1/jobs/alpha/logs").json()), "a c B d ");
  EXPECT_EQ(texts(get("/api/v1/jobs/alpha/logs?tail=2").json()), "B d ");
  EXPECT_EQ(texts(get("/api/v1/jobs/beta/logs").json()), "");
}

TEST_F(LogsTest, FollowingGivesEachLineOnce) {
  Json answer = get("/api/v1/jobs/alpha/logs?tail=1").json();
  EXPECT_EQ(texts(answer), "d ");
  answer = get("/api/v1/jobs/alpha/logs?cursor=" + cursor_of(answer)).json();
  EXPECT_EQ(texts(answer), "");
  add(AgentId(1), line(15, 1, "e"));
  add(AgentId(2), line(16, 2, "f"));
  add(AgentId(1), line(17, 1, "g"));
  answer = get("/api/v1/jobs/alpha/logs?tail=2&cursor=" + cursor_of(answer)).json();
  EXPECT_EQ(texts(answer), "e f ");
  answer = get("/api/v1/jobs/alpha/logs?tail=2&cursor=" + cursor_of(answer)).json();
  EXPECT_EQ(texts(answer), "g ");
}

TEST_F(LogsTest, AnAgentThatIsSilentIsNamedAndHeardLater) {
  LogPage kept;
  {
    const MutexLock guard(cluster_.tables.mutex);
    std::swap(kept, cluster_.tables.logs[AgentId(2)]);
    cluster_.tables.logs.erase(AgentId(2));
  }
  Json answer = get("/api/v1/jobs/alpha/logs").json();
  EXPECT_EQ(texts(answer), "a B ");
  ASSERT_EQ(answer["missing"].size(), 1u);
  EXPECT_EQ(answer["missing"][0]["agent"], "agt_2");
  EXPECT_EQ(answer["missing"][0]["agent_name"], "agent-2");
  EXPECT_EQ(answer["missing"][0]["problem"], "the agent is not connected");
  expect_problem(get("/api/v1/agents/agt_2/logs"), 503, "unavailable");
  for (LogLine& one : kept.lines) add(AgentId(2), std::move(one));
  answer = get("/api/v1/jobs/alpha/logs?cursor=" + cursor_of(answer)).json();
  EXPECT_EQ(texts(answer), "c d ");
  EXPECT_TRUE(answer["missing"].empty());
}

TEST_F(LogsTest, BadParametersAreNamed) {
  for (const char* query : {"tail=0", "tail=1001", "level=loud", "replica=7", "cursor=***",
                            "cursor=bG9nczox", "cursor=", "since=5"}) {
    const Received received = get(std::string("/api/v1/jobs/alpha/logs?") + query);
    expect_problem(received, 400, "invalid-request");
    const std::string name = std::string(query).substr(0, std::string(query).find('='));
    EXPECT_EQ(received.json()["errors"][0]["pointer"], "/query/" + name) << query;
  }
  expect_problem(get("/api/v1/jobs/gamma/logs"), 404, "not-found");
  expect_problem(get("/api/v1/agents/nobody/logs"), 404, "not-found");
}

}  // namespace
}  // namespace shoal::coordinator
