// Training of one stage of a pipeline: the StageRuntime moves microbatches and decides, a
// TorchStage computes, and this class stands between them and the replica: it opens and closes
// rounds there, counts what comes of it, and tells people about it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "replica/runtime/sample_draft.h"
#include "replica/runtime/training.h"
#include "replica/runtime/training_speed.h"
#include "swarm/pipeline/stage_runtime.h"

namespace shoal::replica {

// Makes the runtime of a replica; the process binds its pipeline service and its event queue.
using MakeRuntime = std::function<std::unique_ptr<swarm::StageRuntime>(
    const swarm::StageRuntimeOptions& options, swarm::StageCompute& compute,
    swarm::StageListener& listener, RoundNumber held, std::int64_t step)>;

struct PipelinePlace {  // what the replica is in the pipeline, and what it holds
  StageIndex stage = 0;
  std::int32_t stages = 2;
  RoundKey held;
  Steps step;  // that the held state opens
};

class PipelineTraining : public Training, private swarm::StageListener {
 public:
  PipelineTraining(TrainingContext context, const PipelinePlace& place, const MakeRuntime& make);

  MaybeFailure open(const OpenRound& round) override;
  void stop(outer_opt::StopAt at) override;
  void drop_trained() override;
  void committed(RoundNumber round, Steps next_step, outer_opt::CommitOutcome outcome) override;
  void evaluate(const Evaluate& command) override;
  void view(const PipelineView& view) override;
  void sample(RoundNumber round) override;
  Duration idle() const override { return idle_; }
  MaybeFailure work() override;

 private:
  void stepped(std::int64_t step, Tokens tokens, const swarm::StageCompute::Stepped& stepped,
               double loss) override;
  void boundary(const swarm::ReachBoundary& boundary, const outer_opt::LeaseRuns& unused) override;
  void evaluated(const swarm::EvaluationDone& evaluated) override;
  void cut_off(const std::string& detail) override;
  bool next_token(std::span<const float> logits, std::vector<std::uint32_t>& window) override;

  void end_sample();
  void tell_people();
  void say_progress();
  bool is_router() const { return place_.stage == 0; }

  TrainingContext context_;
  PipelinePlace place_;
  std::unique_ptr<swarm::StageCompute> stage_;
  RoundKey key_;       // of the round that is trained
  bool open_ = false;  // a boundary will come
  Trained trained_;
  Progress progress_;  // of the newest inner step; what was logged since it was said
  Tokens since_boundary_;
  TrainingSpeed speed_;
  std::chrono::steady_clock::time_point told_at_;
  std::optional<std::chrono::steady_clock::time_point> stalled_since_;  // the newest boundary
  std::optional<std::chrono::steady_clock::time_point> working_since_;  // within work()
  std::optional<SampleDraft> draft_;                                    // while it is written
  Duration idle_;
  std::unique_ptr<swarm::StageRuntime> runtime_;  // last: it calls the others
};

}  // namespace shoal::replica
