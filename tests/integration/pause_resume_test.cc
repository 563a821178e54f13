// An operator pauses a job that trains, uses its devices for another one, and lets it continue
// after the coordinator was killed in between. A job of higher priority does so by itself.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

constexpr int kSteps = 1200;
// Longer than a claim waits by default, on a fast machine, too.
constexpr int kPreemptedSteps = 12'000, kPreemptedEvery = 30;

TinyJob long_job(int steps, int every = 10) {
  TinyJob job;
  job.name = "long";
  job.steps = steps;
  job.every = every;
  return job;
}

std::int64_t count_live_replicas(const Cluster& cluster, const std::string& job) {
  const auto replicas = cluster.items("/jobs/" + job + "/replicas");
  return std::count_if(replicas.begin(), replicas.end(), [](const Json& replica) {
    const std::string state = text_at(replica, "state");
    return state != "released" && state != "failed";
  });
}

std::int64_t count_preemptions(const Cluster& cluster) {
  const auto events = cluster.items("/events?limit=500&severity=warning");
  return std::ranges::count_if(
      events, [](const Json& event) { return text_at(event, "kind") == "job_preempted"; });
}

// One line of rounds from the first to the last, each continuing from the step of the one before.
void expect_unbroken(const std::vector<Json>& rounds, const TinyJob& job) {
  ASSERT_EQ(rounds.size(), static_cast<std::size_t>(job.steps / job.every));
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(number_at(rounds[i], "round"), static_cast<double>(i + 1));
    EXPECT_EQ(number_at(rounds[i], "epoch"), 0);
    EXPECT_EQ(text_at(rounds[i], "state"), "committed");
    EXPECT_EQ(number_at(rounds[i], "from_step"),
              static_cast<double>(job.every) * static_cast<double>(i));
  }
}

TEST(PauseResume, FreesTheDevicesAndGoesOnWhereItWas) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(2);
  ASSERT_EQ(cluster.problem(), "");
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(long_job(kSteps))}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed("long") >= 3; }));

  const Finished paused = cluster.shoal({"job", "pause", "long", "--wait", "--timeout", "60"}, 90);
  ASSERT_EQ(paused.exit_code, 0) << paused.err;
  EXPECT_EQ(cluster.phase_of("long"), "paused");
  EXPECT_EQ(count_live_replicas(cluster, "long"), 0);
  const double round = cluster.rounds_committed("long");
  ASSERT_GE(round, 3);
  ASSERT_LT(round, kSteps / 10) << "it was paused in the midst";
  EXPECT_EQ(cluster.shoal({"job", "pause", "long"}).exit_code, 0) << "done already";

  const Finished other =
      cluster.shoal({"job", "submit", cluster.write_job({}), "--wait", "--timeout", "120"}, 150);
  EXPECT_EQ(other.exit_code, 0) << other.err;

  cluster.kill_coordinator();
  ASSERT_TRUE(cluster.restart_coordinator());
  EXPECT_EQ(cluster.phase_of("long"), "paused");
  EXPECT_EQ(cluster.rounds_committed("long"), round);

  const Finished resumed =
      cluster.shoal({"job", "resume", "long", "--wait", "--timeout", "90"}, 120);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const Finished watched = cluster.shoal({"job", "watch", "long", "--timeout", "200"}, 230);
  ASSERT_EQ(watched.exit_code, 0) << watched.err;
  const auto rounds = cluster.items("/jobs/long/rounds?limit=500&order=asc");
  expect_unbroken(rounds, long_job(kSteps));
  const auto after = static_cast<std::size_t>(round);
  EXPECT_LT(number_at(rounds[after], "train_loss"), number_at(rounds[0], "train_loss") - 0.2)
      << "it did not start over";
  EXPECT_EQ(number_at(cluster.job("long"), "status/progress/tokens"), kSteps * 4.0 * 32 * 2);
  EXPECT_NE(cluster.shoal({"job", "resume", "long"}).exit_code, 0) << "it has ended";
}

TEST(Priorities, AHigherJobTakesTheDevicesAndTheLowerOneGoesOnAfterwards) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(2);
  ASSERT_EQ(cluster.problem(), "");
  const TinyJob job = long_job(kPreemptedSteps, kPreemptedEvery);
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed("long") >= 3; }));

  TinyJob urgent;
  urgent.name = "urgent";
  urgent.steps = 300;
  const std::string file = cluster.write_job(urgent);
  ASSERT_EQ(cluster.shoal({"job", "submit", file, "--set", "swarm.priority=70"}).exit_code, 0);
  ASSERT_TRUE(eventually(60, [&] { return cluster.phase_of("long") == "queued"; }));
  EXPECT_LT(cluster.rounds_committed("long"), kPreemptedSteps / kPreemptedEvery)
      << "it was preempted in the midst";
  const Finished listed = cluster.shoal({"job", "ls"});
  EXPECT_NE(listed.err.find("job urgent of priority 70"), std::string::npos) << listed.err;
  const Finished first = cluster.shoal({"job", "watch", "urgent", "--timeout", "120"}, 150);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(count_preemptions(cluster), 1);

  const Finished watched = cluster.shoal({"job", "watch", "long", "--timeout", "200"}, 230);
  ASSERT_EQ(watched.exit_code, 0) << watched.err;
  expect_unbroken(cluster.items("/jobs/long/rounds?limit=500&order=asc"), job);
  EXPECT_EQ(number_at(cluster.job("long"), "status/progress/tokens"),
            kPreemptedSteps * 4.0 * 32 * 2);
}

}  // namespace
}  // namespace shoal::integration
