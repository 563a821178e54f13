// Processes are killed while a job trains; it continues by itself.
#include <algorithm>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

// Long enough to be hit in the middle on any machine.
TinyJob long_job() {
  TinyJob job;
  job.steps = 600;
  job.every = 20;
  job.more = "[checkpoint]\nevery_rounds = 5\n";
  return job;
}

std::size_t committed_members(const Json& round) {
  const Json& contributions = round.at("contributions");
  return static_cast<std::size_t>(
      std::count_if(contributions.begin(), contributions.end(),
                    [](const Json& one) { return text_at(one, "state") == "committed"; }));
}

void expect_completed_with_equal_digests(const Cluster& cluster, const TinyJob& job) {
  ASSERT_TRUE(eventually(240, [&] { return cluster.phase_of(job.name) == "completed"; }))
      << cluster.job(job.name).dump(2);
  const auto rounds = cluster.items("/jobs/" + job.name + "/rounds");
  EXPECT_EQ(rounds.size(), static_cast<std::size_t>(job.steps / job.every));
  for (const Json& round : rounds) {
    EXPECT_EQ(text_at(round, "state"), "committed");
    for (const Json& one : round.at("contributions")) {
      if (text_at(one, "state") != "committed") continue;
      EXPECT_EQ(text_at(one, "digest"), text_at(round, "digest")) << round.dump(2);
    }
  }
}

TEST(Recovery, TheJobOutlivesItsCoordinator) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(2);
  ASSERT_EQ(cluster.problem(), "");
  const TinyJob job = long_job();
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  for (const double rounds : {2.0, 8.0}) {
    ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed(job.name) >= rounds; }));
    cluster.kill_coordinator();
    ASSERT_TRUE(cluster.restart_coordinator());
    EXPECT_GE(cluster.rounds_committed(job.name), rounds) << "a committed round is never lost";
  }
  expect_completed_with_equal_digests(cluster, job);

  if (!has_program("sqlite3")) GTEST_SKIP() << "the rest needs sqlite3, which is not installed";
  const Finished check =
      run({"sqlite3", "-readonly", cluster.state().data_dir + "/coordinator/state.db",
           "PRAGMA integrity_check"},
          30);
  EXPECT_EQ(check.out, "ok\n") << check.err;
}

TEST(Recovery, ARoundCommitsWithoutAKilledTrainerAndItComesBack) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(3);
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job = long_job();
  job.steps = 4000;
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed(job.name) >= 2; }));

  const double before = cluster.rounds_committed(job.name);
  const auto victims = children_of(cluster.state().agents[0].pid, "shoal-trainer");
  ASSERT_EQ(victims.size(), 1u);
  kill(victims[0], SIGKILL);
  EXPECT_TRUE(eventually(10, [&] { return cluster.rounds_committed(job.name) > before; }))
      << "the round commits with the others";
  EXPECT_TRUE(eventually(90, [&] {
    const auto rounds = cluster.items("/jobs/" + job.name + "/rounds?order=desc");
    return std::any_of(rounds.begin(), rounds.end(), [&](const Json& round) {
      return number_at(round, "round") > before + 1 && text_at(round, "state") == "committed" &&
             committed_members(round) == 3;
    });
  })) << "a new replica takes its place";
  EXPECT_EQ(cluster.shoal({"job", "cancel", job.name}).exit_code, 0);
  EXPECT_TRUE(eventually(30, [&] { return cluster.phase_of(job.name) == "cancelled"; }));
}

TEST(Recovery, WatchingGoesOnWhenTheCoordinatorIsBack) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(1);
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job = long_job();
  job.min_replicas = 1;
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  const auto watcher = cli::launch(
      {"watch",
       {binary("shoal"), "job", "watch", job.name, "--addr", cluster.state().addresses.http},
       cluster.folder().path("watch.log"),
       true});
  ASSERT_TRUE(watcher.ok());
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed(job.name) >= 2; }));
  cluster.kill_coordinator();
  ASSERT_TRUE(cluster.restart_coordinator());
  EXPECT_TRUE(eventually(240, [&] { return !cli::is_alive(*watcher); }));
  EXPECT_NE(cli::last_lines(watcher->log, 3).find("completed"), std::string::npos)
      << cli::last_lines(watcher->log, 20);
}

}  // namespace
}  // namespace shoal::integration
