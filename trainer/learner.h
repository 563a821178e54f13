// Trains and evaluates a whole model on its device: batches of the data, gradient accumulation over
// microbatches, one inner step. It knows nothing of rounds, peers or the coordinator. One thread at
// a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/units.h"
#include "trainer/data.h"
#include "trainer/stage_model.h"

namespace shoal::trainer {

struct EvalSum {
  double loss_sum = 0;  // nats
  Tokens tokens;
};

class Learner {
 public:
  // `model` is whole and outlives the learner; without data it can only be asked for logits.
  Learner(StageModel& model, std::shared_ptr<const Dataset> data);
  ~Learner();

  // One inner step on train.batch sequences [first, first + batch) of the seeded order, at the
  // learning rate of `step`; or, with sync.algorithm = ddp, only their gradient.
  MaybeFailure train_step(Steps step, std::int64_t first_sequence, StepResult& out);

  // Adds batch `index` of `batches` held-out ones; nothing when the tail has no such batch.
  MaybeFailure evaluate_batch(std::int64_t index, std::int64_t batches, EvalSum& sum);

  // Logits of the last position for `tokens` (at most context of them); for sampling.
  MaybeFailure next_logits(std::span<const std::int64_t> tokens, std::vector<float>& out);

 private:
  struct Batch;  // sequences in host memory
  MaybeFailure gather(bool held_out, std::int64_t first, std::int64_t count, std::int64_t total);
  MaybeFailure accumulate(std::int64_t first_sequence, double& loss);

  StageModel& model_;
  std::shared_ptr<const Dataset> data_;
  std::unique_ptr<Batch> batch_;
};

}  // namespace shoal::trainer
