// The harness itself: the sweep finds a valley, all sessions of a plan agree in memory, and one
// worker that averages with copies of itself trains as if it were alone.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "bench/convergence/kept_runs.h"
#include "bench/convergence/report.h"
#include "bench/convergence/stored_order.h"
#include "bench/reduce_in_memory.h"
#include "job/job_rules.h"

namespace shoal::bench {
namespace {

TEST(Convergence, AnArmIsWhatAJobIsThatSaysNothingElse) {
  for (const Arm& arm : all_arms(4)) {
    if (arm.name != "diloco H=50") continue;
    EXPECT_EQ(arm.sync, default_spec(SyncAlgorithm::kDiloco).sync);
    return;
  }
  FAIL() << "no arm of all defaults";
}

TEST(Convergence, ArmsComeAfterTheOneTheyAreTunedAs) {
  std::set<std::string> before;
  for (const Arm& arm : all_arms(4)) {
    before.insert(arm.name);
    EXPECT_TRUE(before.contains(arm.tuned_as)) << arm.name;
  }
}

TEST(Convergence, AverageOfAllMembersInMemory) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.codec = CodecKind::kFp32;
  plan.value_count = 5;
  for (int i = 1; i <= 3; ++i) {
    plan.members.push_back(
        {ReplicaId(static_cast<std::uint64_t>(i)), "memory", i == 2 ? 0.0 : 1.0, 1, 0, 0});
  }
  assign_parts(plan, {1, 1, 1});
  const std::vector<float> one{1, 2, 3, 4, 5}, three{3, 2, 1, 0, -1};
  const Reduced reduced = reduce_in_memory(plan, {{one, {}}, {}, {three, {}}});
  EXPECT_EQ(reduced.average, (std::vector<float>{2, 2, 2, 2, 2}));
  EXPECT_GT(reduced.bytes_sent, 5 * 4);
}

class TinyTraining : public testing::Test {
 protected:
  TinyTraining() {
    setting_.text = (std::filesystem::path(testing::TempDir()) / "convergence.txt").string();
    std::ofstream out(setting_.text);
    for (int i = 0; i < 300; ++i) out << "the quick brown fox jumps over the lazy dog " << i * i;
    setting_.model = {ModelFamily::kGpt2, 1, 16, 2, 0, 0, 8, 256};
    setting_.batch = 2;
    setting_.steps = Steps(200);
    setting_.eval_positions = 256;
    setting_.points = 4;
  }
  Trajectory run(const std::string& name) {
    for (const Arm& arm : all_arms(2)) {
      if (arm.name == name) return train(setting_, arm, 4e-3, 1);
    }
    ADD_FAILURE() << "no arm " << name;
    return {};
  }
  Setting setting_;
};

TEST_F(TinyTraining, TheOrderOfDatasetsIsAnotherOneAndLearns) {
  const double whole = run("diloco H=25").final_loss();
  const double groups = run("diloco H=25, order of datasets").final_loss();
  EXPECT_LT(groups, 3.5) << "of 5.5 nats";
  EXPECT_NE(groups, whole);
}

TEST_F(TinyTraining, WorkersShareNoSequenceInTheOrderOfDatasets) {
  const StoredOrder order{nullptr, 3};
  std::set<std::int64_t> seen;
  for (std::int64_t worker = 0; worker < 2; ++worker) {
    for (std::int64_t n = 0; n < 9; ++n) seen.insert(sequence_of(order, worker, 2, n));
  }
  EXPECT_EQ(seen.size(), 18u);
  EXPECT_EQ(*seen.rbegin(), 17);
}

TEST_F(TinyTraining, EveryArmLearnsAndARunCanBeRepeated) {
  for (const char* name :
       {"one worker", "ddp", "local_sgd H=25", "diloco H=50", "diloco H=50, outer 1/0",
        "diloco H=50, outer sgd 0.9", "diloco H=25, ring, int8",
        "diloco H=25, moshpit, outer 1/0.5", "diloco H=25, gossip, outer 1/0.5",
        "diloco H=50, 2 fragments, overlap 5, blend 0.5",
        "diloco H=50, 1 fragment, overlap 5, blend 0, eager",
        "diloco H=25, half dropped, progress lost", "diloco H=25, half dropped, progress kept",
        "diloco H=25, half dropped, moved with the anchor", "one worker, muon", "ddp, muon",
        "diloco H=25, muon"}) {
    const Trajectory run_of = run(name);
    EXPECT_LT(run_of.final_loss(), 4.5) << name;  // log(256) = 5.5
    EXPECT_EQ(run_of.curve.size(), 4u) << name;
    EXPECT_EQ(run_of.final_loss(), run(name).final_loss()) << name;
  }
}

// A round moves each value by about the learning rate, and there are eight.
TEST_F(TinyTraining, OuterAdamLearnsAndARunCanBeRepeated) {
  const double loss = run("diloco H=25, outer adam 0.01").final_loss();
  EXPECT_LT(loss, 5.5) << "log(256) = 5.545";
  EXPECT_EQ(loss, run("diloco H=25, outer adam 0.01").final_loss());
}

TEST_F(TinyTraining, TheClipHoldsAnAttackerThatDestroysAPlainMean) {
  const double clipped = run("diloco H=25, 8 workers, an attacker, clip").final_loss();
  const double plain = run("diloco H=25, 8 workers, an attacker, nothing").final_loss();
  EXPECT_TRUE(std::isfinite(clipped));
  EXPECT_GT(plain, clipped);
}

TEST_F(TinyTraining, FragmentsSendTheSameBytesInMoreRounds) {
  const double whole = run("diloco H=50").bytes_per_step;
  EXPECT_NEAR(run("diloco H=50, 2 fragments, overlap 0, blend 0").bytes_per_step / whole, 1, 0.2);
}

TEST_F(TinyTraining, AKeptRunIsNotMadeAgain) {
  const auto path = (std::filesystem::path(testing::TempDir()) / "convergence.jsonl").string();
  std::filesystem::remove(path);
  const Arm arm = all_arms(2)[0];
  const std::string key = run_key(setting_, arm, 4e-3, 1);
  Trajectory made;
  made.curve = {{Steps(50), 3.25}, {Steps(100), std::numeric_limits<double>::infinity()}};
  made.bytes_per_step = 7;
  KeptRuns(path).keep(key, made);
  std::ofstream(path, std::ios::app) << "{\"run\": \"half a li";
  const KeptRuns again(path);
  ASSERT_NE(again.find(key), nullptr);
  EXPECT_EQ(again.find(key)->curve[0].loss, 3.25);
  EXPECT_TRUE(std::isinf(again.find(key)->final_loss()));
  EXPECT_EQ(again.find(key)->bytes_per_step, 7);
  EXPECT_EQ(again.find(run_key(setting_, arm, 4e-3, 2)), nullptr);
  Arm other = arm;
  other.sync.outer.momentum = 0.25;
  EXPECT_EQ(again.find(run_key(setting_, other, 4e-3, 1)), nullptr);
  setting_.steps = Steps(99);
  EXPECT_EQ(again.find(run_key(setting_, arm, 4e-3, 1)), nullptr);
}

TEST_F(TinyTraining, BytesFollowTheCodecAndTheRounds) {
  const double ddp = run("ddp").bytes_per_step, every = run("diloco H=25, fp32").bytes_per_step;
  EXPECT_NEAR(ddp / every, 25, 0.3);
  EXPECT_NEAR(every / run("diloco H=25, int4").bytes_per_step, 32 / 4.125, 0.3);
}

}  // namespace
}  // namespace shoal::bench
