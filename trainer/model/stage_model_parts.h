// The torch side of a StageModel, for the few files that compute with it.
#pragma once

#include <memory>

#include "trainer/model/inner_optimizer.h"
#include "trainer/model/model.h"
#include "trainer/model/stage_model.h"

namespace shoal::trainer {

struct StageModel::Parts {
  Parts(const JobSpec& spec, UnitRange units, const DeviceChoice& choice);
  Parts(const JobSpec& spec, const DeviceChoice& choice, std::span<const float> weights);  // frozen

  // The weights that passes of an inner step use; their gradients go there.
  Model& of(std::int64_t step) { return older && (step & 1) != parity ? *older : model; }
  // `model` becomes a copy of itself in the place of the weights that `step` used, beside the
  // gradients of that step: what the optimizer makes the next version of.
  void renew(std::int64_t step);
  void settle();  // all versions are the newest

  // One optimizer step at the learning rate of `step`, on the gradient of `tokens` tokens times
  // `scale` and clipped; or only keeps that gradient (keeps_gradient()). Sets everything of `out`
  // but the loss, which is read: a step is finite when both are. Fails with kNonFiniteLoss when it
  // is one too many in a row that is not.
  MaybeFailure take_step(Steps step, Tokens tokens, double scale, StepResult& out);

  JobSpec spec;
  UnitRange units;
  DeviceChoice choice;
  torch::Device device;
  Model model;  // the newest weights
  // swarm.schedule = 2bw: the version before, which passes of the oldest open step use while those
  // of the step after it use `model`.
  std::unique_ptr<Model> older;
  std::int64_t parity = 0;     // of the steps that use `model`
  InnerOptimizer optimizer;    // of no values when the gradient is kept
  torch::Tensor gradient_sum;  // kept, over tokens; else not defined
  Tokens gradient_tokens;
  int nonfinite_in_a_row = 0;
  std::int64_t writes = 0;
};

}  // namespace shoal::trainer
