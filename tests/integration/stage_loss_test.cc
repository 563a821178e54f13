// A pipeline loses all replicas of a stage for good. With checkpoint.buddies another agent begins
// with the copy of it that the other stage keeps, and no committed round is lost, though there is
// no checkpoint.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

constexpr int kLostStage = 1;

TinyJob copied_job() {
  TinyJob job;
  job.name = "copied";
  job.stages = 2;
  job.min_replicas = 1;
  job.steps = 1'000'000;
  job.every = 400;  // so that copies hold a round for most of the next one
  job.more = "[checkpoint]\nevery_rounds = 0\nbuddies = 1\n";
  return job;
}

double copied_round(const Cluster& cluster, const TinyJob& job, int stage) {
  const Json now = cluster.job(job.name);
  const Json* stages = cli::at_path(now, "status/stages");
  const auto index = static_cast<std::size_t>(stage);
  if (stages == nullptr || stages->size() <= index) return -1;
  return number_at(stages->at(index), "copied_round", -1);
}

// The agents of the replicas of a stage, by their index in the cluster.
std::vector<std::size_t> agents_of(const Cluster& cluster, const TinyJob& job, int stage) {
  std::vector<std::size_t> found;
  const auto topology = cluster.api().get("/jobs/" + job.name + "/topology");
  if (!topology.ok()) return found;
  for (const Json& replica : topology->at("replicas")) {
    if (number_at(replica, "stage", -1) != stage) continue;
    for (std::size_t i = 0; i < cluster.state().agents.size(); ++i) {
      if (cluster.state().agents[i].name == text_at(replica, "agent_name")) found.push_back(i);
    }
  }
  return found;
}

// With all that runs on it, at once.
void kill_host(Cluster& cluster, std::size_t agent) {
  const auto trainers = children_of(cluster.state().agents[agent].pid, "shoal-trainer");
  ASSERT_FALSE(trainers.empty());
  for (const pid_t pid : trainers) kill(pid, SIGKILL);
  ASSERT_TRUE(cluster.end_agent(agent, SIGKILL));
}

std::size_t events_of(const Cluster& cluster, const std::string& kind) {
  const auto events = cluster.items("/events?limit=500");
  return static_cast<std::size_t>(std::ranges::count_if(
      events, [&](const Json& event) { return text_at(event, "kind") == kind; }));
}

TEST(StageLoss, AnotherAgentGoesOnFromTheCopyOfTheLastCommittedRound) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(3);
  ASSERT_EQ(cluster.problem(), "");
  const TinyJob job = copied_job();
  ASSERT_EQ(
      cluster.shoal({"job", "submit", cluster.write_job(job), "--set", "swarm.max_replicas=1"})
          .exit_code,
      0);
  ASSERT_TRUE(eventually(200, [&] { return cluster.rounds_committed(job.name) >= 2; }))
      << cluster.job(job.name).dump(2);
  // In the beginning of a round, when its copy holds what was committed before it.
  double committed = cluster.rounds_committed(job.name);
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed(job.name) > committed; }));
  committed = cluster.rounds_committed(job.name);
  ASSERT_TRUE(eventually(60, [&] { return copied_round(cluster, job, kLostStage) >= committed; }))
      << cluster.job(job.name).dump(2);
  const auto lost = agents_of(cluster, job, kLostStage);
  ASSERT_EQ(lost.size(), 1u);
  kill_host(cluster, lost[0]);
  const double at_loss = cluster.rounds_committed(job.name);

  EXPECT_TRUE(eventually(200, [&] { return cluster.rounds_committed(job.name) > at_loss; }))
      << cluster.job(job.name).dump(2);
  EXPECT_EQ(events_of(cluster, "stage_restored_from_copy"), 1u);
  EXPECT_EQ(events_of(cluster, "job_rolled_back"), 0u);
  EXPECT_EQ(number_at(cluster.job(job.name), "status/epoch", -1), 0) << "nothing was given up";
  const auto serve = agents_of(cluster, job, kLostStage);
  ASSERT_EQ(serve.size(), 1u);
  EXPECT_NE(serve[0], lost[0]);
  // Every round once, and copies follow again.
  const auto rounds = cluster.items("/jobs/" + job.name + "/rounds?limit=500");
  EXPECT_GE(static_cast<double>(rounds.size()), at_loss + 1);
  EXPECT_TRUE(eventually(60, [&] { return copied_round(cluster, job, kLostStage) > at_loss; }))
      << cluster.job(job.name).dump(2);
  EXPECT_NE(cluster.shoal({"job", "get", job.name}).out.find("copies"), std::string::npos);
  EXPECT_EQ(cluster.shoal({"job", "cancel", job.name}).exit_code, 0);
}

}  // namespace
}  // namespace shoal::integration
