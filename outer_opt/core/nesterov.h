// The outer optimizer: SGD with Nesterov momentum on the averaged pseudo-gradient (Douillard et al.
// 2023, DiLoCo, Algorithm 1; torch.optim.SGD with nesterov=True, dampening 0):
//
//   m     <- momentum * m + d
//   theta <- theta - lr * (d + momentum * m)          with the new m
//
// in fp32, each operation rounded once, no contraction: the same bits on every replica. With d = 1,
// lr 0.7 and momentum 0.9 the steps are 1.33, 1.897, 2.4073, 2.86657, … towards lr / (1 - momentum)
// = 7.
#pragma once

#include <span>

#include "base/job_spec.h"

namespace shoal::outer_opt {

// The three spans have the same length and do not overlap. Pure and thread-safe.
void nesterov_step(const OuterSpec& options, std::span<const float> average,
                   std::span<float> momentum, std::span<float> anchor);

}  // namespace shoal::outer_opt
