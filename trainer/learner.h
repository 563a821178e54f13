// One replica's computing: the model on its device, inner AdamW with warm-up, clipping and gradient
// accumulation, evaluation, and the flat vectors that the outer step needs, always handed over in
// host memory. It knows nothing of rounds, peers or the coordinator. One thread at a time.
//
// A step whose loss or gradient is not finite changes nothing but the count of such steps in a row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/job_spec.h"
#include "trainer/data.h"
#include "trainer/failure.h"
#include "trainer/torch_bridge.h"

namespace shoal::trainer {

struct StepResult {
  double loss = 0;           // nats per token, before the step
  double gradient_norm = 0;  // before clipping
  double lr = 0;
  bool finite = true;  // false: the step was skipped
};

struct EvalSum {
  double loss_sum = 0;  // nats
  Tokens tokens;
};

class Learner {
 public:
  // Derived fields of `spec` are filled. The parameters are zeros until seed() or
  // write_parameters(). Fails with kModelDoesNotFit, kOutOfMemory, kDeviceLost, or kInternal for
  // bf16 on a CPU.
  static MaybeFailure create(const JobSpec& spec, std::shared_ptr<const Dataset> data,
                             const DeviceChoice& device, std::unique_ptr<Learner>& out);
  ~Learner();

  std::int64_t value_count() const;
  const JobSpec& spec() const;

  void seed();  // the job's initial parameters

  // One AdamW step on train.batch sequences [first, first + batch) of the seeded order, at the
  // learning rate of `step`.
  MaybeFailure train_step(Steps step, std::int64_t first_sequence, StepResult& out);
  int nonfinite_in_a_row() const;

  // Adds batch `index` of `batches` held-out ones; nothing when the tail has no such batch.
  MaybeFailure evaluate_batch(std::int64_t index, std::int64_t batches, EvalSum& sum);

  // Flat vectors of value_count() values, in the order of parameter_layout().
  void read_parameters(std::span<float> out) const;
  void write_parameters(std::span<const float> in);
  void read_adam(std::span<float> m, std::span<float> v) const;
  void write_adam(std::span<const float> m, std::span<const float> v, std::int64_t step);
  std::int64_t adam_step() const;

  // Logits of the last position for `tokens` (at most context of them); for sampling.
  MaybeFailure next_logits(std::span<const std::int64_t> tokens, std::vector<float>& out);

 private:
  struct State;
  explicit Learner(std::unique_ptr<State> state);
  MaybeFailure gather(bool held_out, std::int64_t first, std::int64_t count, std::int64_t total);
  std::unique_ptr<State> state_;
};

}  // namespace shoal::trainer
