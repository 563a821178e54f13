// PyTorch programs of a user's own in place of shoal-trainer.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;
using cli::number_at;
using cli::text_at;

bool has_torch() { return run({SHOAL_PYTHON, "-c", "import torch"}, 60).exit_code == 0; }

TinyJob python_job(int steps) {
  TinyJob job;
  job.name = "python";
  job.steps = steps;
  job.more = "[checkpoint]\nevery_rounds = 2\n";
  return job;
}

// Two agents whose trainers are `program`, the text of a Python file.
class PythonCluster : public Cluster {
 public:
  explicit PythonCluster(const std::string& program) : Cluster(2) {
    setenv("PYTHONPATH", SHOAL_PYTHON_PATH, 1);
    const std::string path = folder().write("program.py", program);
    trainer_ = folder().write("trainer",
                              std::string("#!/bin/sh\nexec ") + SHOAL_PYTHON + " " + path + "\n");
    fs::permissions(trainer_, fs::perms::owner_all);
  }
  bool start(std::size_t index) {
    return end_agent(index, SIGTERM) && start_agent(index, {}, trainer_);
  }
  std::string logs() const { return shoal({"logs", "--job", "python", "--tail", "500"}).out; }

 private:
  std::string trainer_;
};

std::string example() {
  const Finished text = run({"cat", SHOAL_PYTHON_EXAMPLES "/train.py"}, 10);
  return text.out;
}

// A stage's anchors are compared at every commit: nobody was found to differ.
void expect_trained(const Cluster& cluster, const TinyJob& job) {
  ASSERT_TRUE(eventually(240, [&] { return cluster.phase_of(job.name) == "completed"; }))
      << cluster.job(job.name).dump(2);
  const auto rounds = cluster.items("/jobs/" + job.name + "/rounds?order=asc");
  ASSERT_EQ(rounds.size(), static_cast<std::size_t>(job.steps / job.every));
  for (const Json& round : rounds) EXPECT_EQ(text_at(round, "state"), "committed");
  EXPECT_LT(number_at(rounds.back(), "train_loss"), number_at(rounds.front(), "train_loss") - 0.5);
}

TEST(Python, TwoAgentsTrainAModelOfTheUsersOwn) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  PythonCluster cluster(example());
  ASSERT_EQ(cluster.problem(), "");
  ASSERT_TRUE(cluster.start(0) && cluster.start(1));
  const TinyJob job = python_job(60);
  const Finished submitted = cluster.shoal({"job", "submit", cluster.write_job(job)});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  expect_trained(cluster, job);
  for (const Json& round : cluster.items("/jobs/python/rounds")) {
    ASSERT_EQ(round.at("contributions").size(), 2u) << round.dump(2);
    for (const Json& one : round.at("contributions")) {
      EXPECT_EQ(text_at(one, "digest"), text_at(round, "digest")) << round.dump(2);
    }
  }
}

}  // namespace
}  // namespace shoal::integration
