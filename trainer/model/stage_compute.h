// One stage of a pipeline on its device with libtorch. A task keeps the input and, unless
// swarm.recompute says otherwise, the graph of its forward pass; its backward pass, over the same
// version of the weights, adds to the gradients of the StageModel, which are sums over tokens until
// step() divides them. A microbatch may have any number of sequences. One thread.
#pragma once

#include <memory>

#include "swarm/pipeline/stage_compute.h"
#include "trainer/model/stage_model.h"
#include "trainer/plain/data.h"

namespace shoal::trainer {

class TorchStage : public swarm::StageCompute {
 public:
  // `model` outlives it. `data`: of stage 0; null elsewhere.
  TorchStage(StageModel& model, std::shared_ptr<const Dataset> data);
  ~TorchStage() override;

  swarm::StageShape shape() const override;
  // kLoss: sequence `first` of the eval.batches * train.batch held-out ones; a shorter tail is read
  // again from its start, because a microbatch has a fixed shape.
  swarm::MaybeComputeFailure draw(const swarm::Microbatch& microbatch, std::int64_t first_sequence,
                                  std::vector<std::uint32_t>& tokens) override;
  swarm::MaybeComputeFailure forward(swarm::TaskId task, const swarm::StagePass& pass,
                                     std::vector<float>& output) override;
  swarm::MaybeComputeFailure backward(swarm::TaskId task, std::span<const float> output_gradient,
                                      bool add, std::vector<float>& input_gradient) override;
  swarm::MaybeComputeFailure last(const swarm::StagePass& pass, bool add, swarm::LossSum& loss,
                                  std::vector<float>& input_gradient) override;
  void forget(swarm::TaskId task) override;
  swarm::MaybeComputeFailure step(std::int64_t step, Tokens tokens, Stepped& out) override;
  swarm::MaybeComputeFailure settle() override;

  std::size_t tasks() const;  // kept

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::trainer
