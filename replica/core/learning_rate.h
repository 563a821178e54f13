// The inner learning rate as a function of the step: linear warm-up, then half a cosine down to
// min_lr (Loshchilov and Hutter 2017, without restarts) or constant; and what AdamW has no field
// for. Pure.
#pragma once

#include "job/job_spec.h"

namespace shoal::replica {

inline constexpr double kAdamEps = 1e-8;

// `step` counts from 0; step 0 has lr / warmup, step warmup - 1 the full lr, the last step nearly
// min_lr.
double learning_rate(const TrainSpec& spec, Steps step);

}  // namespace shoal::replica
