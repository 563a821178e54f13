// Training of a whole model by one replica alone: inner steps on its lease until the boundary, and
// between them pending evaluations, a batch at a time.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "trainer/learner.h"
#include "trainer/sample_draft.h"
#include "trainer/training.h"

namespace shoal::trainer {

class LocalTraining : public Training {
 public:
  explicit LocalTraining(TrainingContext context);

  MaybeFailure open(const OpenRound& round) override;
  void stop(outer_opt::StopAt at) override;
  void committed(RoundNumber round, Steps next_step) override;
  void evaluate(const Evaluate& command) override;
  void view(const PipelineView& view) override;
  void sample(RoundNumber round) override;
  Duration idle() const override;
  MaybeFailure work() override;

 private:
  struct Evaluation {
    Evaluate command;
    std::int64_t next = 0;  // batch
    EvalSum sum;
  };
  struct Lease {
    OpenRound round;
    std::int64_t done = 0;  // inner steps of it
  };

  MaybeFailure train_one_step();
  void sample_one_token();
  void end_sample();
  MaybeFailure evaluate_one_batch();
  void reach_boundary();
  void say_progress(const StepResult& step);

  TrainingContext context_;
  const JobSpec& spec_;
  Learner learner_;
  std::optional<Lease> lease_;  // while it trains
  std::deque<Evaluation> evaluations_;
  std::optional<SampleDraft> draft_;  // while it is written
  Trained trained_;
  std::chrono::steady_clock::time_point progress_at_;
  Tokens progress_tokens_;
};

}  // namespace shoal::trainer
