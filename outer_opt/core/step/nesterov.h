// The outer optimizer: SGD with Nesterov momentum on the averaged pseudo-gradient (Douillard et al.
// 2023, DiLoCo, Algorithm 1; torch.optim.SGD with nesterov=True, dampening 0):
//
//   m     <- momentum * m + d
//   theta <- theta - lr * (d + momentum * m)          with the new m
//
// in fp32, each operation rounded once, no contraction: the same bits on every replica. With d = 1,
// lr 0.7 and momentum 0.9 the steps are 1.33, 1.897, 2.4073, 2.86657, … towards lr / (1 - momentum)
// = 7.
//
// Sharded (momentum_shards.h), the owner of a part takes the step for it and sends the step
//
//   u = lr * (d + momentum * (momentum * m + d))
//
// from which m' = (u / lr + momentum * m) / (1 + momentum) follows.
//
// Delayed Nesterov (Liu et al. 2024, Asynchronous Local-SGD, Algorithm 3 with c = 0) is for
// averages of which each stands for a share of the replicas only: with all of the momentum at each
// of them, every pseudo-gradient would be pushed several times. There momentum is renewed once per
// unit of shares, and in between theta goes by the plain pseudo-gradients. Here the renewal is
// spread over the averages: one that brings the job p rounds of everybody further (p may be any
// fraction) does p renewals, of which p = 0 and p = 1 are those of the paper. `u` is what is kept
// of momentum * m and the shares since:
//
//   u     <- u + share * d
//   theta <- theta - lr * (share * d + push * u)
//   u     <- decay * u
//   with  push  = momentum (1 + ... + momentum^(p-1)) = momentum (1 - decay) / (1 - momentum)
//         decay = momentum^p
//
// So every pseudo-gradient is pushed lr / (1 - momentum) in all, however the others arrive. With
// share 1 and p = 1 that is Nesterov, bit for bit.
#pragma once

#include <span>

#include "job/job_spec.h"
#include "outer_opt/core/round/reduce_plan.h"
#include "outer_opt/core/step/outer_optimizer.h"

namespace shoal::outer_opt {

// The three spans have the same length and do not overlap. Pure and thread-safe.
void nesterov_step(const OuterSpec& options, std::span<const float> average,
                   std::span<float> momentum, std::span<float> anchor);

class Nesterov final : public OuterOptimizer {
 public:
  using OuterOptimizer::OuterOptimizer;
  void step(const StepTerms& terms, std::span<const float> average, StateRuns state,
            std::span<float> anchor) const override;
  OuterKernel kernel() const override { return OuterKernel::kNesterov; }
};

// The average becomes the step u. Equal lengths.
void owner_step(const OwnerTerms& outer, std::span<const float> momentum, std::span<float> average);
// m becomes m'. Equal lengths.
void follow_step(const OwnerTerms& outer, std::span<const float> step, std::span<float> momentum);

struct DelayedTerms {
  double share = 1;
  double decay = 1, push = 0;
  bool operator==(const DelayedTerms&) const = default;
};
// 0 <= momentum < 1, renewals >= 0. A power differs in its last bit between machines: one computes
// the terms for all.
DelayedTerms delayed_terms(double share, double momentum, double renewals);

// The same step with delayed terms; `kept` is u.
void delayed_nesterov_step(const OuterSpec& options, const DelayedTerms& terms,
                           std::span<const float> average, std::span<float> kept,
                           std::span<float> anchor);

}  // namespace shoal::outer_opt
