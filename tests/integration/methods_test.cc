// Four processes train the same tiny model with every method that the other tests leave out: each
// job is completed, and every round has one digest from all four. What the methods are worth is
// the business of bench/convergence.
#include <set>

#include <gtest/gtest.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

constexpr int kAgents = 4;

struct Method {
  std::string name;
  std::vector<std::string> settings;  // beside those of TinyJob
};

class Methods : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (has_binary("shoal-trainer")) cluster_ = new Cluster(kAgents);
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  void SetUp() override {
    if (!cluster_) GTEST_SKIP() << "shoal-trainer was not built";
    ASSERT_EQ(cluster_->problem(), "");
  }
  static Finished submit(const std::string& name, const std::vector<std::string>& settings) {
    TinyJob job;
    job.name = name;
    job.min_replicas = kAgents;
    std::vector<std::string> command = {"job", "submit", cluster_->write_job(job)};
    for (const std::string& setting : settings) {
      command.push_back("--set");
      command.push_back(setting);
    }
    return cluster_->shoal(command);
  }
  static void expect_equal_digests(const std::string& job, std::size_t rounds_min) {
    const auto rounds = cluster_->items("/jobs/" + job + "/rounds");
    EXPECT_GE(rounds.size(), rounds_min);
    for (const Json& round : rounds) {
      EXPECT_EQ(text_at(round, "state"), "committed");
      std::set<std::string> digests;
      for (const Json& one : round.at("contributions")) digests.insert(text_at(one, "digest"));
      EXPECT_EQ(digests, std::set<std::string>{text_at(round, "digest")});
      EXPECT_EQ(round.at("contributions").size(), std::size_t{kAgents});
    }
  }
  static bool completed(const std::string& job) {
    return eventually(150, [&] { return cluster_->phase_of(job) == "completed"; });
  }
  static Cluster* cluster_;
};
Cluster* Methods::cluster_ = nullptr;

TEST_F(Methods, FourProcessesAgreeOnEveryRound) {
  const std::vector<Method> methods = {{"ring", {"sync.topology=\"ring\""}},
                                       {"sparse",
                                        {"sync.codec=\"sparse2\"", "sync.topology=\"allgather\"",
                                         "sync.outer.lr=1", "sync.outer.momentum=0"}},
                                       {"local", {"sync.algorithm=\"local_sgd\""}},
                                       {"timed", {"sync.every=\"1s\"", "train.steps=3000"}},
                                       {"balanced", {"sync.balance=\"speed\""}},
                                       {"muon", {"train.optimizer=\"muon\""}}};
  for (const Method& method : methods) {
    SCOPED_TRACE(method.name);
    const Finished submitted = submit(method.name, method.settings);
    ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
    ASSERT_TRUE(completed(method.name));
    expect_equal_digests(method.name, 1);
    EXPECT_LT(number_at(cluster_->job(method.name), "status/train_loss"), 5.545);  // ln 256
  }
}

TEST_F(Methods, TheOuterRateChangesWhileTheJobTrains) {
  ASSERT_EQ(submit("rate", {"train.steps=300"}).exit_code, 0);
  ASSERT_TRUE(eventually(60, [&] { return cluster_->rounds_committed("rate") >= 1; }));
  const Finished set = cluster_->shoal({"job", "set", "rate", "--outer-lr", "0.3"});
  ASSERT_EQ(set.exit_code, 0) << set.err;
  ASSERT_TRUE(completed("rate"));
  expect_equal_digests("rate", 30);
  const auto rounds = cluster_->items("/jobs/rate/rounds");
  std::set<double> rates;
  for (const Json& round : rounds) rates.insert(number_at(round, "outer_lr"));
  EXPECT_EQ(rates, (std::set<double>{0.3, 0.7}));
}

TEST_F(Methods, EagerReplicasAgreeOnEveryFragment) {
  const Finished submitted = submit(
      "eager", {"sync.fragments=2", "sync.overlap_steps=2", "sync.eager=true", "train.steps=60"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(completed("eager"));
  expect_equal_digests("eager", 12);
  EXPECT_LT(number_at(cluster_->job("eager"), "status/train_loss"), 5.545);  // ln 256
}

}  // namespace
}  // namespace shoal::integration
