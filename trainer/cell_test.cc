// Cells whose members are threads of this process: the same training as one trainer with the same
// batch, and what happens when members are lost at any moment.
#include <cmath>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "trainer/cell_leader.h"
#include "trainer/cell_member.h"
#include "trainer/learner.h"
#include "trainer/parameter_layout.h"
#include "trainer/tiny_job.h"

namespace shoal::trainer {
namespace {

constexpr std::int64_t kBatch = 6;

JobSpec spec_of(SyncAlgorithm algorithm = SyncAlgorithm::kDiloco) {
  return tiny_job(algorithm, kBatch, Steps(100));
}

// A thread that obeys as a process would. closed(): as when the process is killed.
class Member {
 public:
  Member() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    leaders_end_ = ends[0];
    own_end_ = ends[1];
    thread_ = std::jthread([this] {
      CellSocket leader(own_end_);
      const Status end = run_cell_member(leader, {});
      EXPECT_EQ(end.error().code, Code::kUnavailable) << to_string(end.error());
    });
  }
  CellMember leaders() {
    CellMember member;
    member.socket = std::make_unique<CellSocket>(leaders_end_);
    return member;
  }
  void kill() { shutdown(own_end_, SHUT_RDWR); }

 private:
  int leaders_end_ = -1, own_end_ = -1;
  std::jthread thread_;  // last: it uses the others
};

// A trainer with so many members; none: alone.
class Trainee {
 public:
  explicit Trainee(const JobSpec& spec, int members = 0) : threads_(members) {
    auto data = Dataset::open(spec);
    EXPECT_TRUE(data.ok());
    EXPECT_FALSE(StageModel::create(spec, whole_model(spec.model), {}, model_).has_value());
    model_->seed();
    std::vector<CellMember> of_leader;
    for (Member& member : threads_) of_leader.push_back(member.leaders());
    if (members > 0) cell_ = std::make_unique<CellLeader>(*model_, std::move(of_leader));
    learner_ = std::make_unique<Learner>(*model_, std::move(*data), cell_.get());
  }
  ~Trainee() { cell_.reset(); }  // ends the threads

  StepResult step(std::int64_t step) {
    StepResult result;
    EXPECT_FALSE(learner_->train_step(Steps(step), step * kBatch, result).has_value());
    return result;
  }
  // Until all members take part.
  std::int64_t step_until_all_are_in(std::int64_t from) {
    for (; from < 1000 && cell_->cell().members().size() <= threads_.size(); ++from) step(from);
    EXPECT_EQ(cell_->cell().members().size(), threads_.size() + 1);
    return from;
  }
  std::vector<float> parameters() const {
    std::vector<float> values(static_cast<std::size_t>(model_->value_count()));
    model_->read_parameters(values);
    return values;
  }
  void overwrite(const std::vector<float>& values) { model_->write_parameters(values); }
  Member& member(std::size_t i) { return threads_[i]; }
  const swarm::Cell& cell() const { return cell_->cell(); }

 private:
  std::vector<Member> threads_;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<CellLeader> cell_;
  std::unique_ptr<Learner> learner_;
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max<double>(largest, std::fabs(a[i] - b[i]));
  }
  return largest;
}

// As many more steps of both, from the same parameters.
void expect_the_same_training(Trainee& cell, Trainee& alone, std::int64_t from, int steps) {
  for (std::int64_t step = from; step < from + steps; ++step) {
    const StepResult together = cell.step(step), single = alone.step(step);
    EXPECT_NEAR(together.loss, single.loss, 1e-4) << "step " << step;
    EXPECT_NEAR(together.gradient_norm, single.gradient_norm, 1e-3);
  }
  EXPECT_LT(largest_difference(cell.parameters(), alone.parameters()), 1e-4);
}

TEST(CellTraining, IsTheTrainingOfOneTrainerWithTheSameBatch) {
  Trainee cell(spec_of(), 3), alone(spec_of());
  const std::int64_t from = cell.step_until_all_are_in(0);
  for (std::int64_t step = 0; step < from; ++step) alone.step(step);
  expect_the_same_training(cell, alone, from, 10);
}

TEST(CellTraining, WhatACommitWritesReachesTheMembers) {
  Trainee cell(spec_of(), 2), alone(spec_of());
  const std::int64_t from = cell.step_until_all_are_in(0);
  for (std::int64_t step = 0; step < from; ++step) alone.step(step);
  std::vector<float> other = alone.parameters();
  for (float& value : other) value *= 0.9f;
  cell.overwrite(other);
  alone.overwrite(other);
  expect_the_same_training(cell, alone, from, 5);
}

TEST(CellTraining, GradientsThatAreKeptAreThoseOfTheWholeBatch) {
  Trainee cell(spec_of(SyncAlgorithm::kDdp), 2), alone(spec_of(SyncAlgorithm::kDdp));
  const std::int64_t from = cell.step_until_all_are_in(0);
  const StepResult together = cell.step(from), single = alone.step(from);
  EXPECT_NEAR(together.loss, single.loss, 1e-5);
  EXPECT_NEAR(together.gradient_norm, single.gradient_norm, 1e-5);
}

TEST(CellTraining, GoesOnWithoutThoseWhoAreLost) {
  Trainee cell(spec_of(), 2), alone(spec_of());
  const std::int64_t from = cell.step_until_all_are_in(0);
  for (std::int64_t step = 0; step < from; ++step) alone.step(step);
  expect_the_same_training(cell, alone, from, 2);
  cell.member(0).kill();
  expect_the_same_training(cell, alone, from + 2, 3);
  EXPECT_EQ(cell.cell().members(), (std::vector<int>{0, 2}));
  cell.member(1).kill();
  expect_the_same_training(cell, alone, from + 5, 3);
  EXPECT_EQ(cell.cell().members(), std::vector<int>{0});
}

// Somewhere in the midst of a step, wherever the threads happen to be.
TEST(CellTraining, AMemberThatDiesInTheMidstOfAStepCostsNothing) {
  Trainee cell(spec_of(), 3), alone(spec_of());
  const std::int64_t from = cell.step_until_all_are_in(0);
  for (std::int64_t step = 0; step < from; ++step) alone.step(step);
  std::jthread killer([&] {
    for (std::size_t i = 0; i < 3; ++i) {
      std::this_thread::yield();
      cell.member(i).kill();
    }
  });
  expect_the_same_training(cell, alone, from, 10);
}

}  // namespace
}  // namespace shoal::trainer
