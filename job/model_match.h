// Whether the weights of one model are those of another: a job that begins from a checkpoint or a
// folder computes what the weights were trained for, or it is refused. Pure.
#pragma once

#include <string>
#include <vector>

#include "job/job_spec.h"

namespace shoal {

struct ModelDifference {
  std::string field;            // "model.rope.theta"
  std::string wanted, weights;  // the two values, as text
};

// The fields that keep the weights of `weights` from being those of `wanted`, in their order. Not
// among them: a shorter context where positions are turned, and a head of its own where the weights
// tie it to the embedding, whose copy it begins as. Derived fields of both must be filled.
std::vector<ModelDifference> differences(const ModelSpec& wanted, const ModelSpec& weights);

// "model.layers is 3 in the job and 2 there; …": at most ten of them, and how many more.
std::string text_of(const std::vector<ModelDifference>& differences);

}  // namespace shoal
