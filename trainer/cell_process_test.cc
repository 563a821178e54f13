// A cell of real processes: it trains as one trainer does, and goes on when one of them is killed.
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "trainer/cell_leader.h"
#include "trainer/learner.h"
#include "trainer/parameter_layout.h"

namespace shoal::trainer {
namespace {

constexpr std::int64_t kBatch = 8;

JobSpec spec_of() {
  const auto path = std::filesystem::path(testing::TempDir()) / "shoal_cell_process_test.txt";
  std::ofstream out(path);
  for (int i = 0; i < 400; ++i) out << "the quick brown fox jumps over the lazy dog " << i * i;
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  spec.name = "test";
  spec.model = {ModelFamily::kGpt2, 2, 32, 2, 0, 0, 16, 256};
  spec.data.train = path.string();
  spec.train.batch = kBatch;
  spec.train.microbatch = 2;
  return with_derived_fields(spec);
}

struct Trainee {
  explicit Trainee(const JobSpec& spec) {
    EXPECT_FALSE(StageModel::create(spec, whole_model(spec.model), {}, model).has_value());
    model->seed();
  }
  void learn(const JobSpec& spec, CellLeader* cell) {
    learner = std::make_unique<Learner>(*model, std::move(*Dataset::open(spec)), cell);
  }
  StepResult step(std::int64_t step) {
    StepResult result;
    EXPECT_FALSE(learner->train_step(Steps(step), step * kBatch, result).has_value());
    return result;
  }
  std::unique_ptr<StageModel> model;
  std::unique_ptr<Learner> learner;
};

TEST(CellProcesses, TrainAsOneAndOutliveTheDeathOfAMember) {
  const JobSpec spec = spec_of();
  Trainee together(spec), alone(spec);
  std::vector<CellMember> members;
  std::vector<int> processes;
  for (int i = 0; i < 2; ++i) {
    auto member = start_cell_member(SHOAL_TRAINER_PROGRAM, {"SHOAL_TRAINER_THREADS=1"});
    ASSERT_TRUE(member.ok()) << to_string(member.error());
    processes.push_back(member->process);
    members.push_back(std::move(*member));
  }
  CellLeader cell(*together.model, std::move(members));
  together.learn(spec, &cell);
  alone.learn(spec, nullptr);
  std::int64_t step = 0;
  const auto both_step = [&] {
    const StepResult a = together.step(step), b = alone.step(step);
    ASSERT_NEAR(a.loss, b.loss, 1e-3) << "step " << step;
    ASSERT_NEAR(a.gradient_norm, b.gradient_norm, 1e-2);
    ++step;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (cell.cell().members().size() < 3 && std::chrono::steady_clock::now() < end) both_step();
  ASSERT_EQ(cell.cell().members().size(), 3u) << "they load within a minute";
  for (int i = 0; i < 5; ++i) both_step();
  kill(processes[0], SIGKILL);
  for (int i = 0; i < 5; ++i) both_step();
  EXPECT_EQ(cell.cell().members(), (std::vector<int>{0, 2}));
}

TEST(CellProcesses, AProgramThatIsNotThereIsNamed) {
  EXPECT_FALSE(start_cell_member("/nowhere/shoal-trainer", {}).ok());
}

}  // namespace
}  // namespace shoal::trainer
