// What is left of jobs: checkpoints are kept and deleted, jobs are run again and removed, and none
// of it comes back when the coordinator restarts.
#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;
using testing::HasSubstr;

TinyJob three_checkpoints() {
  TinyJob job;
  job.name = "first";
  job.more = "[checkpoint]\nevery_rounds = 1\nkeep = 2\n";
  return job;
}

std::vector<std::string> stored(const Cluster& cluster) {
  std::vector<std::string> ids;
  for (const Json& checkpoint : cluster.items("/checkpoints?state=stored&order=asc")) {
    ids.push_back(text_at(checkpoint, "id"));
  }
  return ids;
}

TEST(Life, CheckpointsAndOldJobs) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(2);
  ASSERT_EQ(cluster.problem(), "");
  const auto shoal = [&](std::vector<std::string> arguments) {
    return cluster.shoal(std::move(arguments), 150);
  };
  const Finished trained =
      shoal({"job", "submit", cluster.write_job(three_checkpoints()), "--wait"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const auto all = stored(cluster);
  ASSERT_GE(all.size(), 2u);
  EXPECT_THAT(shoal({"checkpoint", "ls"}).out, HasSubstr("first"));

  // The final one is the result of the job: it is not deleted by mistake.
  EXPECT_EQ(shoal({"checkpoint", "verify", all.back()}).exit_code, 0);
  const Finished refused = shoal({"checkpoint", "rm", all.back()});
  EXPECT_EQ(refused.exit_code, cli::kExitConflict);
  EXPECT_THAT(refused.err, HasSubstr("the final checkpoint of job first"));
  EXPECT_EQ(shoal({"checkpoint", "rm", all.front()}).exit_code, 0);
  EXPECT_EQ(stored(cluster).size(), all.size() - 1);
  EXPECT_EQ(shoal({"checkpoint", "pin", all.back()}).exit_code, 0);

  // The same text once more, and its weights.
  const Finished cloned = shoal({"job", "clone", "first", "--set", "train.steps=10"});
  ASSERT_EQ(cloned.exit_code, 0) << cloned.err;
  EXPECT_EQ(cloned.out, "first-2\n");
  EXPECT_EQ(shoal({"job", "watch", "first-2", "--timeout", "100"}).exit_code, 0);
  const Finished restarted =
      shoal({"job", "restart", "first", "--weights-only", "--name", "again"});
  ASSERT_EQ(restarted.exit_code, 0) << restarted.err;
  EXPECT_EQ(text_at(cluster.job("again"), "spec/model/init"), all.back());
  EXPECT_EQ(shoal({"job", "watch", "again", "--timeout", "100"}).exit_code, 0);

  // It continues: the next round, with all that the checkpoint has.
  const Finished none_left = shoal({"job", "restart", "first", "--name", "more"});
  EXPECT_EQ(none_left.exit_code, cli::kExitValidation) << none_left.err;
  EXPECT_THAT(none_left.err,
              HasSubstr("must be above " + std::to_string(three_checkpoints().steps)));
  const int steps = three_checkpoints().steps * 2;
  const Finished more = shoal({"job", "restart", "first", "--name", "more", "--set",
                               "train.steps=" + std::to_string(steps)});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_EQ(text_at(cluster.job("more"), "spec/train/continue_from"), all.back());
  EXPECT_EQ(shoal({"job", "watch", "more", "--timeout", "100"}).exit_code, 0);
  double earliest = 1e9;
  for (const Json& round : cluster.items("/jobs/more/rounds?limit=100")) {
    earliest = std::min(earliest, number_at(round, "round"));
  }
  EXPECT_EQ(earliest, cluster.rounds_committed("first") + 1);
  EXPECT_EQ(cluster.rounds_committed("more"), 2 * cluster.rounds_committed("first"));

  // A pinned checkpoint holds its job.
  EXPECT_EQ(shoal({"job", "rm", "first"}).exit_code, cli::kExitConflict);
  EXPECT_EQ(shoal({"checkpoint", "unpin", all.back()}).exit_code, 0);
  EXPECT_THAT(shoal({"admin", "space"}).out, HasSubstr("first-2"));
  const Finished removed = shoal({"job", "rm", "first"});
  ASSERT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_EQ(shoal({"job", "get", "first"}).exit_code, cli::kExitNotFound);

  cluster.kill_coordinator();
  ASSERT_TRUE(cluster.restart_coordinator());
  EXPECT_EQ(shoal({"job", "get", "first"}).exit_code, cli::kExitNotFound);
  for (const Json& checkpoint : cluster.items("/checkpoints")) {
    EXPECT_NE(text_at(checkpoint, "job_name"), "first");
    EXPECT_FALSE(text_at(checkpoint, "job_name").empty());
  }
  EXPECT_THAT(shoal({"audit"}).out, HasSubstr("remove_job"));
}

// As the service, whose unit or image names its folder by the environment.
TEST(Life, ABackupOfTheFolderThatTheEnvironmentNames) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  const Cluster cluster(1);
  ASSERT_EQ(cluster.problem(), "");
  const std::string copy = cluster.folder().path("copy");
  ::setenv("SHOAL_COORDINATOR_DATA_DIR", cluster.folder().path("up/coordinator").c_str(), 1);
  const Finished copied = run({binary("shoal"), "admin", "backup", "--to", copy}, 60);
  ::unsetenv("SHOAL_COORDINATOR_DATA_DIR");
  EXPECT_EQ(copied.exit_code, 0) << copied.err;
  EXPECT_EQ(run({binary("shoal"), "admin", "restore-check", copy}, 60).exit_code, 0);
}

}  // namespace
}  // namespace shoal::integration
