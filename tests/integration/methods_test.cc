// Four processes train the same tiny model with every method that the other tests leave out: each
// job is completed, and every round has one digest from all four. bench/convergence measures
// what each method achieves.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "job/job_spec.h"
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

class Methods : public SharedClusterTest {
 protected:
  static void SetUpTestSuite() { start(kAgents, {"--reducers", "1"}); }
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
  // One digest from all four; in groups one from each.
  static void expect_equal_digests(const std::string& job, std::size_t rounds_min) {
    const auto rounds = cluster_->items("/jobs/" + job + "/rounds");
    EXPECT_GE(rounds.size(), rounds_min);
    for (const Json& round : rounds) {
      EXPECT_EQ(text_at(round, "state"), "committed");
      std::map<std::string, std::set<std::string>> digests;  // by group
      std::size_t trainers = 0;
      for (const Json& one : round.at("contributions")) {
        if (text_at(one, "role") == "reducer") continue;
        ++trainers;
        digests[one.at("group").dump()].insert(text_at(one, "digest"));
      }
      for (const auto& [group, seen] : digests) EXPECT_EQ(seen.size(), 1u) << "group " << group;
      if (digests.contains("null")) {
        EXPECT_EQ(*digests["null"].begin(), text_at(round, "digest"));
      }
      EXPECT_EQ(trainers, std::size_t{kAgents});
    }
  }
  static bool completed(const std::string& job) {
    return eventually(150, [&] { return cluster_->phase_of(job) == "completed"; });
  }
};

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {"fp16", {"sync.codec=\"fp16\""}},
      {"bf16", {"sync.codec=\"bf16\""}},
      {"int4", {"sync.codec=\"int4\""}},
      {"e3m0", {"sync.codec=\"e3m0\""}},
      {"e5m2", {"sync.codec=\"e5m2\""}},
      {"sparse",
       {"sync.codec=\"sparse2\"", "sync.topology=\"allgather\"", "sync.outer.lr=1",
        "sync.outer.momentum=0"}},
      {"ring", {"sync.topology=\"ring\""}},
      {"moshpit", {"sync.topology=\"moshpit\"", "sync.codec=\"fp32\""}},
      {"gossip", {"sync.topology=\"gossip\"", "sync.codec=\"fp32\"", "sync.outer.momentum=0.5"}},
      {"servers", {"sync.topology=\"param_server\""}},
      {"ddp", {"sync.algorithm=\"ddp\"", "sync.every=1"}},
      {"async", {"sync.algorithm=\"async\""}},
      {"local", {"sync.algorithm=\"local_sgd\""}},
      {"streaming", {"sync.fragments=2", "sync.overlap_steps=2", "sync.blend=0.5"}},
      {"sharded", {"sync.outer_state=\"sharded\""}},
      {"heavy-ball", {"sync.outer.method=\"sgd\""}},
      {"outer-adam", {"sync.outer.method=\"adam\""}},
      {"trimmed", {"sync.aggregator=\"trimmed_mean\""}},
      {"centered", {"sync.aggregator=\"centered_clip\""}},
      {"timed", {"sync.every=\"1s\"", "train.steps=3000"}},
      {"balanced", {"sync.balance=\"speed\""}},
      {"muon", {"train.optimizer=\"muon\""}}};
  return all;
}

TEST_F(Methods, FourProcessesAgreeOnEveryRound) {
  for (const Method& method : methods()) {
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
  EXPECT_EQ(rates, (std::set<double>{0.3, OuterSpec{}.lr}));
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
