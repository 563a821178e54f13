// The inner optimizer over one flat vector: AdamW (Loshchilov and Hutter 2019) with decoupled decay
// on the ranges that decay, bias correction and the global gradient norm. On the CPU one fused
// pass; on other devices a few torch operations over the whole vector. One thread at a time.
#pragma once

#include <vector>

#include "base/job_spec.h"
#include "trainer/parameter_layout.h"
#include "trainer/schedule.h"
#include "trainer/torch_pch.h"

namespace shoal::trainer {

class AdamW {
 public:
  AdamW(const TrainSpec& spec, std::vector<DecayRange> ranges, const torch::Tensor& parameters);

  // Euclidean norm of the whole gradient; not finite when any value is not.
  static double gradient_norm(const torch::Tensor& gradient);

  // One step with `gradient * gradient_scale`.
  void step(double lr, double gradient_scale, const torch::Tensor& gradient,
            torch::Tensor& parameters);

  torch::Tensor& m() { return m_; }
  torch::Tensor& v() { return v_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  TrainSpec spec_;
  std::vector<DecayRange> ranges_;
  torch::Tensor m_, v_;
  std::int64_t steps_ = 0;  // done; the bias correction counts them
};

}  // namespace shoal::trainer
