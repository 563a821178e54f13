// The torch side of a StageModel, for the few files that compute with it.
#pragma once

#include "trainer/adamw.h"
#include "trainer/model.h"
#include "trainer/stage_model.h"

namespace shoal::trainer {

struct StageModel::Parts {
  Parts(const JobSpec& spec, UnitRange units, const DeviceChoice& choice);

  // One AdamW step at the learning rate of `step`, on the gradient times `scale` and clipped. Sets
  // everything of `out` but the loss, which is read: a step is finite when both are. Fails with
  // kNonFiniteLoss when it is one too many in a row that is not.
  MaybeFailure take_step(Steps step, double scale, StepResult& out);

  JobSpec spec;
  UnitRange units;
  DeviceChoice choice;
  torch::Device device;
  Model model;
  AdamW adam;
  int nonfinite_in_a_row = 0;
};

}  // namespace shoal::trainer
