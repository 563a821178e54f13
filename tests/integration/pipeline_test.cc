// One model cut into stages, trained by real processes that get killed.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

TinyJob cut_job(int steps, int min_replicas) {
  TinyJob job;
  job.name = "cut";
  job.stages = 2;
  job.steps = steps;
  job.every = 20;
  job.min_replicas = min_replicas;
  job.more = "[checkpoint]\nevery_rounds = 2\n";
  return job;
}

std::vector<Json> rounds_of(const Cluster& cluster, const TinyJob& job) {
  return cluster.items("/jobs/" + job.name + "/rounds?limit=500");
}

// Every committed round: one digest per stage, and both stages took part.
void expect_equal_digests_per_stage(const Cluster& cluster, const TinyJob& job) {
  std::size_t committed = 0;
  for (const Json& round : rounds_of(cluster, job)) {
    if (text_at(round, "state") != "committed") continue;
    ++committed;
    std::map<double, std::set<std::string>> digests;
    for (const Json& one : round.at("contributions")) {
      if (text_at(one, "state") != "committed") continue;
      digests[number_at(one, "stage", -1)].insert(text_at(one, "digest"));
    }
    EXPECT_EQ(digests.size(), static_cast<std::size_t>(job.stages)) << round.dump(2);
    for (const auto& [stage, found] : digests) EXPECT_EQ(found.size(), 1u) << round.dump(2);
  }
  EXPECT_GT(committed, 0u);
}

// Device processes of the replicas of one stage that hold its state. One that loads is lost with
// the only one that does.
std::vector<pid_t> trainers_of(const Cluster& cluster, const TinyJob& job, int stage) {
  std::vector<pid_t> found;
  const auto topology = cluster.api().get("/jobs/" + job.name + "/topology");
  if (!topology.ok()) return found;
  for (const Json& replica : topology->at("replicas")) {
    const std::string state = text_at(replica, "state");
    if (number_at(replica, "stage", -1) != stage || state == "assigned" || state == "loading") {
      continue;
    }
    for (const auto& host : cluster.state().agents) {
      if (host.name != text_at(replica, "agent_name")) continue;
      for (const pid_t pid : children_of(host.pid, "shoal-trainer")) found.push_back(pid);
    }
  }
  return found;
}

TEST(Pipeline, TwoStagesTrainToTheEndAndTheCheckpointIsOneModel) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(4);
  ASSERT_EQ(cluster.problem(), "");
  const TinyJob job = cut_job(120, 2);
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  ASSERT_TRUE(eventually(240, [&] { return cluster.phase_of(job.name) == "completed"; }))
      << cluster.job(job.name).dump(2);
  expect_equal_digests_per_stage(cluster, job);
  const double loss = number_at(cluster.job(job.name), "status/validation_loss", 0);
  EXPECT_GT(loss, 0.5);
  EXPECT_LT(loss, 5.0) << "5.5 is what guessing gives";

  const std::string folder = cluster.folder().path("checkpoint");
  const auto stored = cluster.items("/jobs/" + job.name + "/checkpoints?order=desc");
  ASSERT_FALSE(stored.empty());
  const Finished fetched =
      cluster.shoal({"checkpoint", "download", text_at(stored.front(), "id"), "-o", folder});
  ASSERT_EQ(fetched.exit_code, 0) << fetched.err;
  const Finished text =
      run({binary("shoal-trainer"), "generate", "--checkpoint", folder, "--tokens", "20"}, 60);
  EXPECT_EQ(text.exit_code, 0) << text.err;
}

TEST(Pipeline, AnotherJobContinuesWhereTheFirstOneEnded) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(2);
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job = cut_job(60, 1);
  const auto trained = [&](const std::string& name) {
    return eventually(150, [&] { return cluster.phase_of(name) == "completed"; });
  };
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  ASSERT_TRUE(trained("cut")) << cluster.job("cut").dump(2);
  const Finished restarted =
      cluster.shoal({"job", "restart", "cut", "--name", "more", "--set", "train.steps=120"});
  ASSERT_EQ(restarted.exit_code, 0) << restarted.err;
  ASSERT_TRUE(trained("more")) << cluster.job("more").dump(2);
  for (const Json& event : cluster.items("/events?limit=500")) {
    EXPECT_NE(text_at(event, "kind"), "replica_failed") << event.dump(2);
  }
  const double before = cluster.rounds_committed("cut");
  job.name = "more";
  const auto rounds = rounds_of(cluster, job);
  EXPECT_EQ(rounds.size(), 3u);
  for (const Json& round : rounds) EXPECT_GT(number_at(round, "round"), before);
  EXPECT_EQ(cluster.rounds_committed("more"), before + 3);
  expect_equal_digests_per_stage(cluster, job);
}

TEST(Pipeline, TheOthersGoOnWhenAReplicaOfAStageIsKilled) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(4);
  ASSERT_EQ(cluster.problem(), "");
  const TinyJob job = cut_job(100'000, 1);
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  for (int kills = 0; kills < 3; ++kills) {
    // Four replicas in two stages: the planner decides whether 2 and 2 or 3 and 1.
    ASSERT_TRUE(eventually(90, [&] {
      return trainers_of(cluster, job, 0).size() + trainers_of(cluster, job, 1).size() == 4;
    })) << "a killed one comes back";
    const double before = cluster.rounds_committed(job.name);
    ASSERT_TRUE(eventually(60, [&] { return cluster.rounds_committed(job.name) >= before + 2; }));
    const int stage = trainers_of(cluster, job, 0).size() >= 2 ? 0 : 1;
    kill(trainers_of(cluster, job, stage).front(), SIGKILL);
    const double then = cluster.rounds_committed(job.name);
    EXPECT_TRUE(eventually(15, [&] { return cluster.rounds_committed(job.name) > then + 1; }))
        << "stage " << stage << ": " << cluster.job(job.name).dump(2);
  }
  expect_equal_digests_per_stage(cluster, job);
  EXPECT_EQ(cluster.shoal({"job", "cancel", job.name}).exit_code, 0);
}

TEST(Pipeline, AStageWithoutReplicasStallsTheJobWhichResumesByItself) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(2);
  ASSERT_EQ(cluster.problem(), "");
  const TinyJob job = cut_job(100'000, 1);
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed(job.name) >= 3; }));
  const auto last = trainers_of(cluster, job, 1);
  ASSERT_EQ(last.size(), 1u);
  kill(last[0], SIGKILL);
  EXPECT_TRUE(eventually(20, [&] { return cluster.phase_of(job.name) == "stalled"; }))
      << cluster.job(job.name).dump(2);
  const double then = cluster.rounds_committed(job.name);
  EXPECT_TRUE(eventually(90, [&] {
    return cluster.phase_of(job.name) == "training" && cluster.rounds_committed(job.name) > then;
  })) << cluster.job(job.name).dump(2);
  expect_equal_digests_per_stage(cluster, job);
  EXPECT_EQ(cluster.shoal({"job", "cancel", job.name}).exit_code, 0);
}

// Replicas by agent.
std::map<std::string, std::size_t> held_by_agent(const Cluster& cluster, const TinyJob& job) {
  std::map<std::string, std::size_t> held;
  const auto topology = cluster.api().get("/jobs/" + job.name + "/topology");
  if (!topology.ok()) return held;
  for (const Json& replica : topology->at("replicas")) ++held[text_at(replica, "agent_name")];
  return held;
}

std::vector<pid_t> trainers_on(const Cluster& cluster, const std::string& agent) {
  for (const auto& host : cluster.state().agents) {
    if (host.name == agent) return children_of(host.pid, "shoal-trainer");
  }
  return {};
}

TEST(Pipeline, ThreeStagesOnTwoAgentsGoOnAfterATrainerIsKilled) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(2);
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job = cut_job(100'000, 1);
  job.stages = job.layers = 3;
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed(job.name) >= 3; }))
      << cluster.job(job.name).dump(2);
  const auto held = held_by_agent(cluster, job);
  const auto most = std::max_element(
      held.begin(), held.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  ASSERT_NE(most, held.end());
  ASSERT_GE(most->second, 2u) << "one agent holds two stages";
  const auto trainers = trainers_on(cluster, most->first);
  ASSERT_EQ(trainers.size(), most->second) << "each in a process of its own";
  kill(trainers.back(), SIGKILL);
  const double then = cluster.rounds_committed(job.name);
  EXPECT_TRUE(eventually(120, [&] {
    return cluster.phase_of(job.name) == "training" &&
           cluster.rounds_committed(job.name) > then + 2;
  })) << cluster.job(job.name).dump(2);
  expect_equal_digests_per_stage(cluster, job);
  EXPECT_EQ(cluster.shoal({"job", "cancel", job.name}).exit_code, 0);
}

}  // namespace
}  // namespace shoal::integration
