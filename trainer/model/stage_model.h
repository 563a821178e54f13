// What one stage of a model is on its device, the whole model being the stage of all units: its
// parameters, their gradients and the inner optimizer's state, and the flat vectors that the outer
// step needs, always handed over in host memory. How gradients come about is the business of
// Learner (the whole model at once) and TorchStage (one stage of a pipeline); what both share of an
// inner step is here. One thread at a time.
//
// A step whose loss or gradient is not finite changes nothing but the count of such steps in a row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "job/job_spec.h"
#include "replica/core/local_parameters.h"
#include "replica/runtime/compute.h"
#include "trainer/model/failure.h"
#include "trainer/model/torch_bridge.h"

namespace shoal::trainer {

using replica::StepResult;

class StageModel final : public replica::LocalParameters {
 public:
  // Derived fields of `spec` are filled. The parameters are zeros until seed(),
  // start_from() or write_parameters(). Fails with kModelDoesNotFit (also for a part of a tied
  // model, and for bf16 on a CPU), kOutOfMemory, kDeviceLost or kInternal.
  static MaybeFailure create(const JobSpec& spec, UnitRange units, const DeviceChoice& device,
                             std::unique_ptr<StageModel>& out);
  // A whole model in fp32 that only answers (Learner::next_logits()): it has neither gradients nor
  // an optimizer, and on a CPU no memory of its own for `weights`, which outlive it and are only
  // read. Nothing else may be asked of it.
  static MaybeFailure create_frozen(const JobSpec& spec, const DeviceChoice& device,
                                    std::span<const float> weights,
                                    std::unique_ptr<StageModel>& out);
  ~StageModel() override;

  std::int64_t value_count() const override;
  const JobSpec& spec() const;
  UnitRange units() const;

  void seed();                                      // parameters drawn from train.seed
  void start_from(std::span<const float> initial);  // these ones, with moments of zero

  // Flat vectors of value_count() values, in the order of parameter_layout().
  void read_parameters(std::span<float> out) const override;
  void write_parameters(std::span<const float> in) override;
  bool reads_parts() const override { return true; }
  void read_part(std::int64_t first, std::span<float> out) const override;
  // On a CPU in place and in one run.
  void visit_parameters(const Visit& visit) const override;
  void change_parameters(const Change& change) override;
  // The same vector where it lies on the device, and nothing that was begun still uses it. Whoever
  // writes there says so afterwards.
  float* parameters_in_place();
  void parameters_written();
  // Grows whenever parameters or moments are written by other means than a step.
  std::int64_t writes() const;
  // The inner optimizer's moments: `m` of value_count() values, `v` of second_moment_count(), which
  // is less with train.optimizer = muon (optimizer_layout()).
  std::int64_t second_moment_count() const;
  void read_adam(std::span<float> m, std::span<float> v) const;
  void write_adam(std::span<const float> m, std::span<const float> v, std::int64_t step);
  std::int64_t adam_step() const;
  int nonfinite_in_a_row() const;

  // The gradient of the step that is being computed, of value_count() values.
  void read_step_gradient(std::span<float> out) const;
  void write_step_gradient(std::span<const float> in);
  // The same vector where it lies on the device. What was queued on the device's default stream may
  // still be writing there.
  std::span<float> step_gradient_in_place();

  // With sync.algorithm = ddp an inner step changes no parameter and has no moments; it adds its
  // gradient here, for the outer step. read_gradient(): the mean over all tokens since the last
  // clear_gradient(), zeros when there were none.
  bool keeps_gradient() const;
  void read_gradient(std::span<float> out) const override;
  void clear_gradient() override;

  struct Parts;  // stage_model_parts.h, for those who see torch
  Parts& parts() { return *parts_; }

 private:
  explicit StageModel(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace shoal::trainer
