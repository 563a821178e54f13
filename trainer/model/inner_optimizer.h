// The inner optimizer over one flat vector. train.optimizer = adamw: AdamW (Loshchilov and Hutter
// 2019) with decoupled decay on the ranges that decay and bias correction. muon: the matrices of
// the blocks take the step of muon.h, everything else AdamW's, both at the same learning rate and
// weight decay. Which value belongs to which, and where its moments are, says optimizer_layout().
// On the CPU AdamW is one fused pass; on other devices torch's fused kernel, and with a libtorch
// before 2.4 a few of its operations on one piece of the vector after another, which need room for
// a small part of it. One thread at a time.
#pragma once

#include <vector>

#include "job/job_spec.h"
#include "replica/core/learning_rate.h"
#include "trainer/model/torch_pch.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {

class InnerOptimizer {
 public:
  // `first_moments`: as many as values; none of either when no step will be taken.
  InnerOptimizer(const TrainSpec& spec, OptimizerLayout layout, std::int64_t first_moments,
                 const torch::TensorOptions& device);

  // Euclidean norm of the whole gradient; not finite when any value is not.
  static double gradient_norm(const torch::Tensor& gradient);

  // One step with `gradient * gradient_scale`, which on other devices than a CPU may then be what
  // `gradient` holds.
  void step(double lr, double gradient_scale, const torch::Tensor& gradient,
            torch::Tensor& parameters);

  // The same as on other devices than a CPU, to rounding.
  void step_by_torch(double lr, double gradient_scale, const torch::Tensor& gradient,
                     torch::Tensor& parameters);

  torch::Tensor& m() { return m_; }
  torch::Tensor& v() { return v_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  struct Adam {  // of one step
    double lr, gradient_scale, correction1, correction2;
  };
  Adam next_adam(double lr, double gradient_scale);
  void adam_fused(const Adam& adam, const torch::Tensor& gradient, torch::Tensor& parameters);
  void adam_by_torch(const Adam& adam, const torch::Tensor& gradient, torch::Tensor& parameters);
  void adam_piece(const Adam& adam, const AdamRange& piece, const torch::Tensor& gradient,
                  torch::Tensor& parameters);
  void muon(double lr, double gradient_scale, const torch::Tensor& gradient,
            torch::Tensor& parameters);

  TrainSpec spec_;
  OptimizerLayout layout_;
  std::vector<AdamRange> runs_;  // ranges of AdamW without regard to decay
  torch::Tensor m_, v_;
  std::int64_t steps_ = 0;  // done; the bias correction counts them
};

}  // namespace shoal::trainer
