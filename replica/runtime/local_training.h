// Training of a whole model by one replica alone: inner steps on its lease until the boundary, and
// between them pending evaluations, a batch at a time.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "outer_opt/core/participant/step_cursor.h"
#include "replica/runtime/sample_draft.h"
#include "replica/runtime/training.h"
#include "replica/runtime/training_speed.h"

namespace shoal::replica {

class LocalTraining : public Training {
 public:
  explicit LocalTraining(TrainingContext context);

  MaybeFailure open(const OpenRound& round) override;
  void stop(outer_opt::StopAt at) override;
  bool goes_on() const override { return cursor_.adopts_later(); }
  void drop_trained() override;
  void committed(RoundNumber round, Steps next_step, outer_opt::CommitOutcome outcome) override;
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

  MaybeFailure train_one_step();
  MaybeFailure take_next();
  void stand();
  void sample_one_token();
  void end_sample();
  MaybeFailure evaluate_one_batch();
  void reach_boundary();
  bool differs_from_anchor() const;
  template <typename Work>
  MaybeFailure on_anchor(const Work& work);
  void say_progress(const StepResult& step);
  void say_logged();
  void say_still_there();

  TrainingContext context_;
  const JobSpec& spec_;
  outer_opt::StepCursor cursor_;
  RoundKey key_;  // of the round that is open
  std::deque<Evaluation> evaluations_;
  std::optional<SampleDraft> draft_;  // while it is written
  Trained trained_;
  Trained at_boundary_;  // what of it was reported
  // Since when there is nothing to train, and how long of that other work took.
  std::optional<std::chrono::steady_clock::time_point> stalled_since_;
  double other_work_s_ = 0;
  TrainingSpeed speed_;
  std::optional<Progress> newest_;   // that was said
  std::vector<LoggedValue> logged_;  // and has not been said yet
  std::chrono::steady_clock::time_point said_at_;
};

}  // namespace shoal::replica
