#include "python/abi/program_stage.h"

#include <algorithm>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "job/job_rules.h"
#include "threads/mutex.h"

namespace shoal::python {
namespace {

using swarm::PassKind;

constexpr std::uint64_t kFar = (std::uint64_t{7} << 32) + 5;  // a number of two words
constexpr std::int64_t kValues = 2 * 3 * 4;                   // sequences * context * hidden

JobSpec spec_of_job() {
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  spec.train.batch = 4;
  spec.train.microbatch = 2;
  spec.model.context = 3;
  spec.model.hidden = 4;
  spec.eval.batches = 5;
  return with_derived_fields(spec);
}

// A program that writes down its orders; it adds 1 to what it is given.
class Program {
 public:
  explicit Program(Orders& orders) : orders_(orders) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  double gradient_norm = 0.5, loss = 1.5;
  std::vector<shoal_order> heard() {
    const MutexLock lock(mutex_);
    return heard_;
  }

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto order = orders_.next(milliseconds(5));
      if (order.ok() && *order) obey(**order);
    }
  }
  void obey(const shoal_order& order) {
    {
      const MutexLock lock(mutex_);
      heard_.push_back(order);
    }
    for (std::int64_t i = 0; i < order.output_count; ++i) {
      order.output[i] = 1 + (i < order.value_count ? order.values[i] : 0);
    }
    if (order.kind == SHOAL_LOSS) {
      EXPECT_TRUE(orders_.answer_loss(loss).ok());
    } else if (order.kind == SHOAL_STEP) {
      EXPECT_TRUE(
          orders_
              .answer(order.kind,
                      {.lr = 0.1, .gradient_norm = gradient_norm, .logged = {{"norm", {}, 3}}})
              .ok());
    } else {
      EXPECT_TRUE(orders_.answer(0, {}).ok());
    }
  }

  Orders& orders_;
  Mutex mutex_;
  std::vector<shoal_order> heard_ SHOAL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

struct Rig {
  JobSpec spec = spec_of_job();
  Orders orders{seconds(10)};
  Program program{orders};
  ProgramStage stage{orders, spec, 1};
  std::vector<float> tensor = std::vector<float>(kValues, 2.0f), out;
  std::vector<std::uint32_t> number;

  Rig() { EXPECT_FALSE(stage.draw({}, static_cast<std::int64_t>(kFar), number)); }
  swarm::StagePass pass(PassKind kind) const { return {9, kind, number, tensor}; }
  shoal_order last_heard() { return program.heard().back(); }
};

TEST(ProgramStage, APassIsAnOrderWithItsTensorsAndTheNumberOfItsItems) {
  Rig rig;
  EXPECT_EQ(rig.number.size(), static_cast<std::size_t>(rig.stage.shape().data_words({})));
  ASSERT_FALSE(rig.stage.forward(8, rig.pass(PassKind::kTrain), rig.out));
  EXPECT_EQ(rig.out, std::vector<float>(kValues, 3.0f));
  const shoal_order forward = rig.last_heard();
  EXPECT_EQ(forward.kind, SHOAL_FORWARD);
  EXPECT_EQ(forward.flags, SHOAL_TRAINS);
  EXPECT_EQ(forward.first_sequence, static_cast<std::int64_t>(kFar));
  EXPECT_EQ(forward.sequences, 2);
  EXPECT_EQ(forward.step, 9);
  EXPECT_EQ(forward.index, 8);
  ASSERT_FALSE(rig.stage.backward(8, rig.tensor, true, rig.out));
  EXPECT_EQ(rig.last_heard().kind, SHOAL_BACKWARD);
  EXPECT_EQ(rig.last_heard().flags, SHOAL_ADD);
  EXPECT_EQ(rig.last_heard().index, 8);
}

TEST(ProgramStage, TheFirstOneHasNoGradientOfItsInput) {
  Rig rig;
  ProgramStage first(rig.orders, rig.spec, 0);
  ASSERT_FALSE(first.forward(8, rig.pass(PassKind::kTrain), rig.out));
  ASSERT_FALSE(first.backward(8, rig.tensor, true, rig.out));
  EXPECT_TRUE(rig.out.empty());
  EXPECT_EQ(rig.last_heard().output_count, 0);
}

TEST(ProgramStage, ALossIsSummedOverTokensAndHeldOutOnesHaveNoGradient) {
  Rig rig;
  swarm::LossSum loss;
  ASSERT_FALSE(rig.stage.last(rig.pass(PassKind::kTrain), false, loss, rig.out));
  EXPECT_EQ(loss.nats, 1.5 * 6);
  EXPECT_EQ(loss.tokens, Tokens(6));
  EXPECT_EQ(rig.out.size(), static_cast<std::size_t>(kValues));
  EXPECT_EQ(rig.last_heard().flags, SHOAL_TRAINS);
  ASSERT_FALSE(rig.stage.last(rig.pass(PassKind::kLoss), true, loss, rig.out));
  EXPECT_TRUE(rig.out.empty());
  EXPECT_EQ(rig.last_heard().flags, 0);
  EXPECT_EQ(rig.last_heard().count, 20);
  rig.program.loss = std::numeric_limits<double>::quiet_NaN();
  ASSERT_FALSE(rig.stage.last(rig.pass(PassKind::kLoss), true, loss, rig.out));
  EXPECT_EQ(loss.tokens, Tokens(0)) << "the program has no such items";
}

TEST(ProgramStage, OnlyWhatIsKeptIsForgotten) {
  Rig rig;
  ASSERT_FALSE(rig.stage.forward(1, rig.pass(PassKind::kTrain), rig.out));
  ASSERT_FALSE(rig.stage.forward(2, rig.pass(PassKind::kTrain), rig.out));
  ASSERT_FALSE(rig.stage.forward(3, rig.pass(PassKind::kLoss), rig.out));
  ASSERT_FALSE(rig.stage.backward(1, rig.tensor, true, rig.out));
  for (const swarm::TaskId task : {1u, 2u, 3u}) rig.stage.forget(task);
  const auto heard = rig.program.heard();
  EXPECT_EQ(std::ranges::count_if(heard, [](const auto& o) { return o.kind == SHOAL_FORGET; }), 1);
  EXPECT_EQ(rig.last_heard().index, 2);
}

TEST(ProgramStage, AStepSaysItsTokensAndTenInARowThatAreNotFiniteFail) {
  Rig rig;
  swarm::StageCompute::Stepped stepped;
  ASSERT_FALSE(rig.stage.step(3, Tokens(0), stepped));
  EXPECT_TRUE(rig.program.heard().empty());
  ASSERT_FALSE(rig.stage.step(3, Tokens(60), stepped));
  EXPECT_EQ(rig.last_heard().count, 60);
  EXPECT_EQ(stepped.gradient_norm, 0.5);
  EXPECT_EQ(stepped.lr, 0.1);
  EXPECT_EQ(stepped.logged, (std::vector<LoggedValue>{{"norm", Steps(4), 3}}));
  rig.program.gradient_norm = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 9; ++i) ASSERT_FALSE(rig.stage.step(4 + i, Tokens(6), stepped)) << i;
  EXPECT_FALSE(stepped.finite);
  const auto failure = rig.stage.step(13, Tokens(6), stepped);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kNonFiniteLoss);
}

}  // namespace
}  // namespace shoal::python
