// Jobs that are trained by a PyTorch program of the user's own (trainer.kind = "python").
#include <algorithm>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

bool has_torch() { return run({SHOAL_PYTHON, "-c", "import torch"}, 60).exit_code == 0; }

TinyJob python_job(int steps) {
  TinyJob job;
  job.name = "python";
  job.steps = steps;
  job.min_replicas = 1;
  job.more =
      "[checkpoint]\nevery_rounds = 2\n[trainer]\nkind = \"python\"\nentry = \"program.py\"\n";
  return job;
}

// Agents that run one program, the text of a Python file.
class PythonCluster {
 public:
  PythonCluster(int agents, const std::string& program)
      : entry_(programs_.write("program.py", program)),
        flags_{"--trainer-root", programs_.path(), "--python", SHOAL_PYTHON},
        cluster(agents, flags_) {}
  bool restart_agent(std::size_t index) { return cluster.start_agent(index, {}, flags_); }
  std::string logs() const { return cluster.shoal({"logs", "python"}).out; }
  std::vector<std::string> failures() const {
    std::vector<std::string> messages;
    for (const Json& event : cluster.items("/events?limit=500")) {
      if (text_at(event, "kind") == "replica_failed") messages.push_back(text_at(event, "message"));
    }
    return messages;
  }

 private:
  TempFolder programs_;
  std::string entry_;
  std::vector<std::string> flags_;

 public:
  Cluster cluster;
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

TEST(Python, TwoAgentsTrainAModelOfTheUsersOwnAndAgree) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  PythonCluster python(2, example());
  const Cluster& cluster = python.cluster;
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job = python_job(60);
  job.min_replicas = 2;
  const Finished submitted = cluster.shoal({"job", "submit", cluster.write_job(job)});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  expect_trained(cluster, job);
  EXPECT_TRUE(python.failures().empty()) << python.failures().front();
  for (const Json& round : cluster.items("/jobs/python/rounds")) {
    ASSERT_EQ(round.at("contributions").size(), 2u) << round.dump(2);
    for (const Json& one : round.at("contributions")) {
      EXPECT_EQ(text_at(one, "digest"), text_at(round, "digest")) << round.dump(2);
    }
  }
  EXPECT_TRUE(
      eventually(20, [&] { return python.logs().find("held-out loss") != std::string::npos; }))
      << "it goes on behind its loop\n"
      << python.logs();
}

TEST(Python, AnAgentIsKilledAndComesBack) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  PythonCluster python(2, example());
  Cluster& cluster = python.cluster;
  ASSERT_EQ(cluster.problem(), "");
  const TinyJob job = python_job(3000);
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  const auto with_members = [&](std::size_t members, double after) {
    const auto rounds = cluster.items("/jobs/python/rounds?order=desc");
    return std::any_of(rounds.begin(), rounds.end(), [&](const Json& round) {
      return number_at(round, "round") > after && text_at(round, "state") == "committed" &&
             round.at("contributions").size() == members;
    });
  };
  ASSERT_TRUE(eventually(120, [&] { return with_members(2, 0); })) << python.logs();
  ASSERT_TRUE(cluster.end_agent(0, SIGTERM));
  const double at = cluster.rounds_committed(job.name);
  ASSERT_TRUE(eventually(60, [&] { return with_members(1, at); })) << "the other one trains on";
  ASSERT_TRUE(python.restart_agent(0));
  EXPECT_TRUE(eventually(120, [&] { return with_members(2, at + 1); })) << python.logs();
  EXPECT_EQ(cluster.shoal({"job", "cancel", job.name}).exit_code, 0);
}

// What a program does wrong reaches its user as a sentence.
TEST(Python, MistakesOfAProgramAreToldInItsOwnWords) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  const std::string good = example();
  const std::string step = "        run.step(loss)\n";
  ASSERT_NE(good.find(step), std::string::npos);
  const auto with = [&](const std::string& line) {
    std::string text = good;
    return text.replace(text.find(step), step.size(), line);
  };
  const std::pair<std::string, std::string> programs[] = {
      {with("        raise ValueError('this batch is odd')\n"), "ValueError: this batch is odd"},
      {with(""), "run.step(loss) was not called"},
      {with("        run.step(loss)\n        break\n"), "the program ended before its job"},
      {"import nowhere\n", "No module named 'nowhere'"}};
  for (const auto& [text, message] : programs) {
    PythonCluster python(1, text);
    ASSERT_EQ(python.cluster.problem(), "");
    const TinyJob job = python_job(60);
    ASSERT_EQ(python.cluster.shoal({"job", "submit", python.cluster.write_job(job)}).exit_code, 0);
    EXPECT_TRUE(eventually(60,
                           [&] {
                             const auto failures = python.failures();
                             return std::any_of(failures.begin(), failures.end(),
                                                [&, &message = message](const auto& one) {
                                                  return one.find(message) != std::string::npos;
                                                });
                           }))
        << message << "\n"
        << python.logs();
    EXPECT_TRUE(eventually(20, [&] {
      return python.logs().find("Traceback") != std::string::npos;
    })) << message;
  }
}

}  // namespace
}  // namespace shoal::integration
