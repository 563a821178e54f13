// Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): of
// a part of the network only its input is kept for the backward pass, which computes the part once
// more. The same gradients bit for bit, for a third more computation and a fraction of the memory.
#pragma once

#include <functional>

#include "trainer/model/torch_pch.h"

namespace shoal::trainer {

using Forward = std::function<torch::Tensor(const torch::Tensor& input)>;

// forward(input), which must give the same each time it is called. Without gradients it is nothing
// else. `forward` lives as long as the graph of the result; what its parameters refer to does, too.
torch::Tensor recomputed(Forward forward, const torch::Tensor& input);

}  // namespace shoal::trainer
