// Agents end and start again while their trainers continue: killed, upgraded in place, never back.
// What a trainer holds is not lost, and nobody else's process is touched.
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <signal.h>

#include "cli/http_client.h"
#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

TinyJob endless_job() {
  TinyJob job;
  job.steps = 200'000;
  job.every = 20;
  job.min_replicas = 1;
  return job;
}

// Neither gone nor waiting for a parent to notice.
bool lives(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto close = line.rfind(')');
  return close != std::string::npos && line.compare(close, 3, ") Z") != 0;
}

// The replicas that committed a round.
std::set<std::string> members_of(const Json& round) {
  std::set<std::string> members;
  for (const Json& one : round.at("contributions")) {
    if (text_at(one, "state") == "committed") members.insert(text_at(one, "replica"));
  }
  return members;
}

// The number of the newest committed round.
double newest(const std::vector<Json>& rounds) {
  double number = 0;
  for (const Json& round : rounds) {
    if (text_at(round, "state") == "committed") {
      number = std::max(number, number_at(round, "round"));
    }
  }
  return number;
}

// From this round on everybody is in every round.
void expect_the_same_members(const Cluster& cluster, const std::string& job, double from,
                             std::size_t count) {
  std::set<std::string> first;
  for (const Json& round : cluster.items("/jobs/" + job + "/rounds?order=asc")) {
    if (text_at(round, "state") != "committed" || number_at(round, "round") < from) continue;
    const auto members = members_of(round);
    if (first.empty()) first = members;
    EXPECT_EQ(members, first) << "round " << number_at(round, "round");
    EXPECT_EQ(members.size(), count) << "round " << number_at(round, "round");
  }
  EXPECT_EQ(cluster.phase_of(job), "training");
}

class AgentRestart : public testing::Test {
 protected:
  // A job that trains on all agents, and the trainer of the first one.
  void train(Cluster& cluster) {
    ASSERT_EQ(cluster.problem(), "");
    ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job_)}).exit_code, 0);
    ASSERT_TRUE(more_rounds(cluster, 2));
    trainer_ = trainer_of(cluster, 0);
    ASSERT_GT(trainer_, 0);
  }
  static pid_t trainer_of(const Cluster& cluster, std::size_t agent) {
    const auto children = children_of(cluster.state().agents.at(agent).pid, "shoal-trainer");
    return children.size() == 1 ? children.front() : 0;
  }
  bool more_rounds(const Cluster& cluster, double count) const {
    const double goal = std::max(0.0, cluster.rounds_committed(job_.name)) + count;
    return eventually(120, [&] { return cluster.rounds_committed(job_.name) >= goal; });
  }
  // The agent ends and starts again; its replica is in every round.
  void expect_nothing_is_lost(int signal) {
    Cluster cluster(3);
    train(cluster);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(eventually(30, [&] {
      const auto rounds = cluster.items("/jobs/" + job_.name + "/rounds?order=desc");
      return !rounds.empty() && members_of(rounds.at(rounds.size() > 1 ? 1 : 0)).size() == 3;
    }));
    const double from = newest(cluster.items("/jobs/" + job_.name + "/rounds"));
    for (int time = 0; time < 2; ++time) {
      ASSERT_TRUE(cluster.end_agent(0, signal));
      EXPECT_TRUE(lives(trainer_));
      ASSERT_TRUE(cluster.start_agent(0));
      ASSERT_TRUE(more_rounds(cluster, 20));
      EXPECT_TRUE(lives(trainer_));
      EXPECT_EQ(trainer_of(cluster, 0), 0) << "no other one was started";
    }
    expect_the_same_members(cluster, job_.name, from, 3);
    ASSERT_TRUE(cluster.end_agent(0, SIGTERM));
    EXPECT_FALSE(lives(trainer_)) << "a stop ends the adopted one, too";
  }

  void SetUp() override {
    if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  }

  const TinyJob job_ = endless_job();
  pid_t trainer_ = 0;
};

TEST_F(AgentRestart, TheReplicaOfAKilledAgentMissesNoRound) { expect_nothing_is_lost(SIGKILL); }

TEST_F(AgentRestart, AnUpgradeInPlaceCostsNoRound) { expect_nothing_is_lost(SIGUSR2); }

// As docs/upgrades.md says: the coordinator, then one agent after the other.
TEST_F(AgentRestart, AJobContinuesThroughTheUpgradeOfEverything) {
  Cluster cluster(2);
  train(cluster);
  if (HasFatalFailure()) return;
  cluster.kill_coordinator();
  ASSERT_TRUE(cluster.restart_coordinator());
  ASSERT_TRUE(more_rounds(cluster, 5));
  for (std::size_t agent = 0; agent < 2; ++agent) {
    ASSERT_TRUE(cluster.end_agent(agent, SIGUSR2));
    ASSERT_TRUE(cluster.start_agent(agent));
    ASSERT_TRUE(more_rounds(cluster, 5));
  }
  EXPECT_EQ(number_at(cluster.job(job_.name)["status"], "epoch", -1), 0)
      << "it was never rolled back";
  EXPECT_TRUE(lives(trainer_));
}

TEST_F(AgentRestart, WithoutAnAgentATrainerEndsAtItsLimit) {
  Cluster cluster(2);
  ASSERT_EQ(cluster.problem(), "");
  ASSERT_TRUE(cluster.end_agent(0, SIGTERM));
  ASSERT_TRUE(cluster.start_agent(0, "3"));
  train(cluster);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(cluster.end_agent(0, SIGKILL));
  EXPECT_TRUE(lives(trainer_));
  EXPECT_TRUE(eventually(15, [&] { return !lives(trainer_); }));
  std::ifstream log(cluster.agent_folder(0) + "/logs/trainer-0.log");
  std::ostringstream text;
  text << log.rdbuf();
  EXPECT_NE(text.str().find("no agent came back within 3 s"), std::string::npos) << text.str();
  EXPECT_TRUE(more_rounds(cluster, 5)) << "the others continue";
}

// The page of an agent's metrics, at the address that its log names; empty: not yet.
std::string scrape(const std::string& log) {
  std::ifstream file(log);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto at = text.rfind("metrics on http://");
  if (at == std::string::npos) return {};
  const auto url = text.find("http://", at);
  const auto page = cli::send({.url = text.substr(url, text.find('\n', url) - url)});
  return page.ok() && page->status == 200 ? page->body : "";
}

TEST_F(AgentRestart, MetricsOfAnAgentHaveTheTrainerThatItAdopted) {
  Cluster cluster(1);
  train(cluster);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(cluster.end_agent(0, SIGUSR2));
  ASSERT_TRUE(cluster.start_agent(0, {}, {"--metrics", "127.0.0.1:0"}));
  const std::string log = cli::UpLayout{cluster.folder().path("up")}.log("agent-1");
  std::string page;
  const auto has = [&](const std::string& line) {
    return page.find("\n" + line) != std::string::npos;
  };
  EXPECT_TRUE(eventually(60, [&] {
    page = scrape(log);
    return has("shoal_host_session_up 1\n") && has("shoal_host_trainer_resident_bytes{trainer=");
  })) << page;
  EXPECT_TRUE(has("shoal_host_trainers 1\n")) << page;
  EXPECT_TRUE(has("shoal_host_trainers_started_total 0\n")) << page;
  EXPECT_TRUE(has("shoal_host_sessions_total 1\n")) << page;
}

// The number of a trainer in the list may be another process by now.
TEST_F(AgentRestart, AForeignProcessIsNotTouchedAndAForeignTrainerIsStopped) {
  Cluster cluster(1);
  train(cluster);
  if (HasFatalFailure()) return;
  const auto bystander =
      cli::launch({"sleep", {"/bin/sleep", "300"}, cluster.folder().path("sleep.log"), true});
  ASSERT_TRUE(bystander.ok());
  ASSERT_TRUE(cluster.end_agent(0, SIGUSR2));
  const std::string path = cluster.agent_folder(0) + "/trainers";
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto at = text.find(" " + std::to_string(trainer_) + " ");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at + 1, std::to_string(trainer_).size(), std::to_string(bystander->pid));
  file.close();
  std::ofstream(path) << text;
  ASSERT_TRUE(cluster.start_agent(0));
  EXPECT_TRUE(eventually(20, [&] { return trainer_of(cluster, 0) > 0; })) << "a new one is started";
  EXPECT_TRUE(eventually(20, [&] { return !lives(trainer_); })) << "nobody knows it";
  EXPECT_TRUE(cli::is_alive(*bystander));
  cli::stop({*bystander}, 5);
}

}  // namespace
}  // namespace shoal::integration
