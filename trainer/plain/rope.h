// By how much each pair of a head turns per position: the frequencies of rotary embeddings and what
// scaling makes of them, as `transformers` computes them (modeling_rope_utils.py). Pure.
#pragma once

#include <vector>

#include "job/job_spec.h"

namespace shoal::trainer {

// head_dim / 2 angles per position in radians, the fastest first. `head_dim` is even.
std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t head_dim);

}  // namespace shoal::trainer
