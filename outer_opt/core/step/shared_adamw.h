// The outer step of sync.algorithm = ddp: AdamW (Loshchilov and Hutter 2019, Algorithm 2) on the
// averaged gradient of one inner step, taken by every replica on the same numbers:
//
//   g <- scale * gradient
//   m <- beta1 * m + (1 - beta1) * g            v <- beta2 * v + (1 - beta2) * (g * g)
//   theta <- (theta - decay * theta) - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// in fp32, each operation rounded once and in this order, no contraction: parameters and moments
// keep the same bits on every machine, which the fused AdamW of a trainer (another one per
// instruction set and device) does not promise.
#pragma once

#include <cstdint>
#include <span>

namespace shoal::outer_opt {

struct SharedAdamW {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  float decay = 0;           // lr * weight_decay, 0 where nothing decays
  float rate = 0, root = 0;  // lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
  float scale = 1;           // clipping
};

struct SharedAdamWOptions {
  double lr = 0, weight_decay = 0, beta1 = 0, beta2 = 0, eps = 0;
  double clip = 0;        // norm of the gradient; 0: off
  double norm = 0;        // of this gradient, by gradient_norm()
  std::int64_t step = 1;  // t, counted from 1
};

// A run of neighbors in a stage's vector with the same answer to "does it decay".
struct DecayRange {
  std::int64_t first = 0, count = 0;
  bool decays = false;
};

// The coefficients of one step; `decays` of the range that it is applied to.
SharedAdamW shared_adamw(const SharedAdamWOptions& options, bool decays);

// The four spans have the same length and do not overlap. Pure and thread-safe.
void shared_adamw_step(const SharedAdamW& step, std::span<const float> gradient,
                       std::span<float> parameters, std::span<float> m, std::span<float> v);

// Euclidean, summed in double in a fixed order.
double gradient_norm(std::span<const float> gradient);

}  // namespace shoal::outer_opt
