// A stage of a pipeline by a program behind the C interface: every pass becomes an order, with its
// tensors by pointer. Which items a microbatch has goes by number (StageData::kNumber): the program
// reads them itself, on stage 0 to begin with and on the last one for the targets.
//
// One version of the weights. What Orders throws passes through, to ComputeHost::guarded().
#pragma once

#include <set>

#include "python/abi/orders.h"
#include "swarm/pipeline/stage_compute.h"

namespace shoal::python {

class ProgramStage final : public swarm::StageCompute {
 public:
  // Both outlive it. Derived fields of `spec` are filled.
  ProgramStage(Orders& orders, const JobSpec& spec, StageIndex stage)
      : orders_(orders), spec_(spec), first_(stage == 0) {}

  swarm::StageShape shape() const override;
  swarm::MaybeComputeFailure draw(const swarm::Microbatch& microbatch, std::int64_t first_sequence,
                                  std::vector<std::uint32_t>& tokens) override;
  swarm::MaybeComputeFailure forward(swarm::TaskId task, const swarm::StagePass& pass,
                                     std::vector<float>& output) override;
  swarm::MaybeComputeFailure backward(swarm::TaskId task, std::span<const float> output_gradient,
                                      bool add, std::vector<float>& input_gradient) override;
  // A program has no logits: its Compute has no prompt, so that nobody asks for them.
  swarm::MaybeComputeFailure last(const swarm::StagePass& pass, bool add, swarm::LossSum& loss,
                                  std::vector<float>& input_gradient) override;
  void forget(swarm::TaskId task) override;
  // Without tokens the program is not asked.
  swarm::MaybeComputeFailure step(std::int64_t step, Tokens tokens, Stepped& out) override;
  swarm::MaybeComputeFailure settle() override { return std::nullopt; }

 private:
  shoal_order order_of(std::int32_t kind, const swarm::StagePass& pass) const;
  std::size_t values() const;  // of a microbatch between stages

  Orders& orders_;
  const JobSpec& spec_;
  const bool first_;
  std::set<swarm::TaskId> kept_;  // whose backward pass is to come
  int nonfinite_in_a_row_ = 0;
};

}  // namespace shoal::python
