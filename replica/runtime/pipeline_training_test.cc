// What a stage counts as computing time (Trained::compute_s, train_s of a round), with a runtime
// whose calls of work() last as long as the test says.
#include "replica/runtime/pipeline_training.h"

#include <chrono>
#include <deque>

#include <gtest/gtest.h>

#include "swarm/pipeline/timed_compute.h"

namespace shoal::replica {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr double kCall_s = 200e-6;  // far longer than what surrounds a call

// One call of StageRuntime::work().
struct Work {
  bool computes = false;  // a pass
  bool steps = false;     // the optimizer
  bool ends = false;      // the round
};

struct Script {
  std::deque<Work> works;
  double busy_s = 0, waiting_s = 0;  // how long those took that do something, and the others
};

// Does what the script says, and takes its time for it.
class ScriptedRuntime final : public swarm::StageRuntime {
 public:
  ScriptedRuntime(Script& script, swarm::StageListener& listener)
      : script_(script), listener_(listener) {}

  void view(const PipelineView&) override {}
  void open(const OpenRound&) override {}
  void close() override {}
  void stop() override {}
  void committed(RoundNumber, std::int64_t) override {}
  void evaluate(const RoundKey&, const EvalSlice&) override {}
  void sample(std::vector<std::uint32_t>) override {}
  void end_sample() override {}
  bool work(swarm::MaybeComputeFailure&, Duration&) override {
    const auto start = Clock::now();
    const Work now = script_.works.front();
    script_.works.pop_front();
    while (since(start) < kCall_s) continue;
    if (now.steps) listener_.stepped(step_++, Tokens(1), {}, 0);
    (now.computes || now.steps ? script_.busy_s : script_.waiting_s) += since(start);
    if (now.ends) listener_.boundary({}, {});
    return now.computes;
  }
  PipelineStats stats() override { return {}; }

 private:
  Script& script_;
  swarm::StageListener& listener_;
  std::int64_t step_ = 0;
};

// A stage is all that is asked of it.
class StageOnly final : public Compute {
 public:
  std::int64_t value_count() const override { return 0; }
  void read_parameters(std::span<float>) const override {}
  void write_parameters(std::span<const float>) override {}
  void read_gradient(std::span<float>) const override {}
  void clear_gradient() override {}
  outer_opt::StageSizes sizes() const override { return {}; }
  std::vector<outer_opt::DecayRange> decay_ranges() const override { return {}; }
  Digest data() const override { return {}; }
  MaybeFailure seed(const std::filesystem::path&) override { return {}; }
  std::int64_t second_moment_count() const override { return 0; }
  void read_adam(std::span<float>, std::span<float>) const override {}
  void write_adam(std::span<const float>, std::span<const float>, std::int64_t) override {}
  std::int64_t adam_step() const override { return 0; }
  MaybeFailure train_step(Steps, std::int64_t, StepResult&) override { return {}; }
  MaybeFailure evaluate_batch(std::int64_t, std::int64_t, EvalSum&) override { return {}; }
  MaybeFailure next_logits(std::span<const std::int64_t>, std::vector<float>&) override {
    return {};
  }
  std::vector<std::int64_t> prompt() const override { return {}; }
  std::unique_ptr<swarm::StageCompute> make_stage() override {
    return std::make_unique<swarm::TimedCompute>(swarm::TimedOptions{});
  }
};

// The computing time that one round of these calls reports holds every call that does something,
// and no other.
void expect_counted(std::deque<Work> works) {
  Script script{std::move(works)};
  const JobSpec spec = with_derived_fields({});
  StageOnly compute;
  HeldParameters parameters(compute);
  double reported = -1;
  TrainingContext context{.replica = ReplicaId(1),
                          .spec = spec,
                          .compute = compute,
                          .parameters = parameters,
                          .anchor = {},
                          .say = [](const FromTrainer&) {},
                          .boundary = [&](const Trained& all) { reported = all.compute_s; },
                          .adopt = {},
                          .sampled = {}};
  PipelineTraining training(std::move(context), {.stage = 1},
                            [&](const swarm::StageRuntimeOptions&, swarm::StageCompute&,
                                swarm::StageListener& listener, RoundNumber, std::int64_t) {
                              return std::make_unique<ScriptedRuntime>(script, listener);
                            });
  ASSERT_FALSE(training.open({}));
  const auto start = Clock::now();
  while (!script.works.empty()) ASSERT_FALSE(training.work());
  EXPECT_GE(reported, script.busy_s);
  EXPECT_LE(reported, since(start) - script.waiting_s);
}

TEST(PipelineTraining, CountsTheLastPassOfARound) {
  expect_counted({{.computes = true, .steps = true, .ends = true}});
  expect_counted({{.computes = true}, {.computes = true, .steps = true, .ends = true}});
}

TEST(PipelineTraining, CountsAStepOfTheOptimizerWhileNoPassWaits) {
  expect_counted({{.computes = true}, {.steps = true}, {.computes = true, .ends = true}});
}

TEST(PipelineTraining, DoesNotCountWaiting) {
  expect_counted({{.computes = true}, {}, {}, {}, {.computes = true, .steps = true, .ends = true}});
}

}  // namespace
}  // namespace shoal::replica
