// Trains and evaluates a whole model on its device: batches of the data, gradient accumulation over
// microbatches, one inner step. The device computes a microbatch while the host reads the next one.
// With a replica group the gradient of a step is computed together with its members. It knows
// nothing of rounds, peers or the coordinator. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/units.h"
#include "trainer/model/captured_work.h"
#include "trainer/model/group_leader.h"
#include "trainer/model/stage_model.h"
#include "trainer/plain/data.h"

namespace shoal::trainer {

using replica::EvalSum;

class Learner {
 public:
  // `model` is whole and outlives the learner, as `replica group` does; without data it can only be
  // asked for logits. Without a replica group it computes alone.
  Learner(StageModel& model, std::shared_ptr<const Dataset> data,
          GroupLeader* replica_group = nullptr);
  // The same with other captured work than the CUDA graphs of its device (microbatch_pass.h).
  Learner(StageModel& model, std::shared_ptr<const Dataset> data, GroupLeader* replica_group,
          MakeCapturedWork make);
  ~Learner();

  // One inner step on train.batch sequences [first, first + batch) of the seeded order, at the
  // learning rate of `step`; or, with sync.algorithm = ddp, only their gradient.
  MaybeFailure train_step(Steps step, std::int64_t first_sequence, StepResult& out);

  // The two halves of train_step(), for members of a replica group: the gradient of the mean over
  // the batch as far as it comes from these sequences, and what its loss is; the step with the
  // gradient that the model holds, whose loss is in `out`.
  MaybeFailure compute_share(const swarm::GroupShare& share, double& loss);
  MaybeFailure take_step(Steps step, StepResult& out);

  // Adds batch `index` of `batches` held-out ones; nothing when the tail has no such batch.
  MaybeFailure evaluate_batch(std::int64_t index, std::int64_t batches, EvalSum& sum);

  // Logits of the last position for `tokens` (at most context of them); for sampling.
  MaybeFailure next_logits(std::span<const std::int64_t> tokens, std::vector<float>& out);

 private:
  struct Passes;  // sequences in host memory, and what becomes of them on the device
  MaybeFailure gather(bool held_out, std::int64_t first, std::int64_t count, std::int64_t total);
  MaybeFailure accumulate(const swarm::GroupShare& share, double& loss);
  MaybeFailure evaluate(std::int64_t index, std::int64_t batches, EvalSum& sum);
  MaybeFailure with_room(const std::function<MaybeFailure()>& work);

  StageModel& model_;
  std::shared_ptr<const Dataset> data_;
  GroupLeader* replica_group_;
  std::unique_ptr<Passes> passes_;
};

}  // namespace shoal::trainer
