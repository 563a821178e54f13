// A device that waits instead of computing, for tests and benchmarks: every pass takes the time it
// is told, and the tensors carry a pattern that the next stage checks. Waiting is a timer's, so
// that dozens of them fit on a core.
#pragma once

#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "base/prng.h"
#include "swarm/pipeline/stage_compute.h"

namespace shoal::swarm {

struct TimedOptions {
  StageShape shape;
  StageIndex stage = 0;
  Duration forward, backward;  // of one microbatch; the last stage does both in one pass
  double jitter = 0;           // relative deviation of each
  std::uint64_t seed = 1;
};

class TimedCompute final : public StageCompute {
 public:
  static constexpr double kLoss = 2;  // nats per token

  explicit TimedCompute(const TimedOptions& options)
      : options_(options), prng_(mix_seed(options.seed, options.stage)) {}

  StageShape shape() const override { return options_.shape; }
  MaybeComputeFailure draw(const Microbatch& microbatch, std::int64_t first_sequence,
                           std::vector<std::uint32_t>& tokens) override;
  MaybeComputeFailure forward(TaskId task, const StagePass& pass,
                              std::vector<float>& output) override;
  MaybeComputeFailure backward(TaskId task, std::span<const float> output_gradient, bool add,
                               std::vector<float>& input_gradient) override;
  MaybeComputeFailure last(const StagePass& pass, bool add, LossSum& loss,
                           std::vector<float>& input_gradient) override;
  void forget(TaskId task) override;
  MaybeComputeFailure step(std::int64_t step, Tokens tokens, Stepped& out) override;
  MaybeComputeFailure settle() override;

  std::size_t tasks() const { return tasks_.size(); }  // with something to forget

 private:
  std::int64_t sequences_in(std::span<const std::uint32_t> tokens) const;
  MaybeComputeFailure check_input(const StagePass& pass) const;
  void wait(Duration time);

  const TimedOptions options_;
  Prng prng_;
  FlatMap<TaskId, std::int64_t> tasks_;               // their steps
  FlatMap<std::int64_t, std::int64_t> microbatches_;  // added, by step
};

}  // namespace shoal::swarm
