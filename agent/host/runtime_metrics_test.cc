// The metrics of an agent that runs, scraped as Prometheus does.
#include <chrono>

#include "agent/host/runtime_test_util.h"
#include "objects/http.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;

// The value of one series on the page of the agent's metrics, waited for.
double scraped(const Runtime& runtime, const std::string& series, double expected) {
  const objects::Client client({.reach = {.clear_allowed = true, .private_allowed = true}});
  const objects::Request page{.url = "http://" + runtime.metrics_address() + "/metrics"};
  const auto until = std::chrono::steady_clock::now() + kLimit;
  for (;;) {
    const auto answer = client.send(page);
    EXPECT_TRUE(answer.ok());
    if (!answer.ok()) return -1;
    const auto at = answer->body.find("\n" + series + " ");
    const double value =
        at == std::string::npos ? -1 : std::stod(answer->body.substr(at + series.size() + 2));
    if (value == expected || std::chrono::steady_clock::now() > until) return value;
  }
}

TEST_F(RuntimeTest, ItsMetricsFollowSessionsAndTrainers) {
  HostOptions open = options();
  open.metrics = "127.0.0.1:0";
  start(std::move(open));
  join();
  coordinator_.say(assign(1));
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(1));
  EXPECT_EQ(scraped(*runtime_, "shoal_host_build_info{version=\"test\"}", 1), 1);
  EXPECT_EQ(scraped(*runtime_, "shoal_host_session_up", 1), 1);
  EXPECT_EQ(scraped(*runtime_, "shoal_host_trainers", 1), 1);
  EXPECT_EQ(scraped(*runtime_, "shoal_host_trainers_started_total", 1), 1);

  coordinator_.say(ToReplica<Evaluate>{ReplicaId(1), {kKey, {0, 1, 1}}});  // the script aborts
  coordinator_.next<ReplicaFailed>();
  EXPECT_EQ(scraped(*runtime_, "shoal_host_trainers_ended_total{result=\"failed\"}", 1), 1);
  EXPECT_EQ(scraped(*runtime_, "shoal_host_trainers_started_total", 2), 2);
  coordinator_.break_session();
  coordinator_.hello(2);
  coordinator_.welcome();
  EXPECT_EQ(scraped(*runtime_, "shoal_host_sessions_total", 2), 2);
  EXPECT_EQ(scraped(*runtime_, "shoal_host_session_losses_total", 1), 1);
}

TEST_F(RuntimeTest, ATakenPortOfItsMetricsIsRefusedBeforeItJoins) {
  HostOptions open = options();
  open.metrics = coordinator_.address();
  const auto runtime = Runtime::open(std::move(open));
  ASSERT_FALSE(runtime.ok());
  EXPECT_EQ(runtime.error().field, "--metrics");
  EXPECT_THAT(runtime.error().message, HasSubstr(coordinator_.address()));
}

}  // namespace
}  // namespace shoal::agent
