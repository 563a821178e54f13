// Muon for one matrix: momentum, orthogonalized (Jordan et al. 2024, "Muon: an optimizer for hidden
// layers in neural networks"; inner optimizer of MuLoCo, Thérien et al. 2025).
//
//   M <- 0.95 M + 0.05 G            N = 0.95 M + 0.05 G          (Nesterov)
//   W <- (1 - decay) W - lr * 0.2 * sqrt(max(rows, columns)) * orthogonalized(N)
//
// The factor gives an update the root mean square of AdamW's, so both share learning rate and
// weight decay (Liu et al. 2025, "Muon is scalable for LLM training", section 2.2). There is no
// second moment. Matrices are taken whole; a stage of a pipeline holds whole ones.
#pragma once

#include "trainer/model/torch_pch.h"

namespace shoal::trainer {

// Five iterations X <- a X + (b A + c A^2) X with A = X X^T, from G / |G|, with the coefficients of
// Jordan et al.: singular values come close to 1 (0.68 to 1.21 for those above 0.002 of |G|),
// singular vectors stay. In fp32 on a CPU, in bf16 elsewhere, which the authors found to be enough.
// Zeros stay zeros.
torch::Tensor orthogonalized(const torch::Tensor& matrix);

// `momentum` and `values` are changed in place; views of a larger vector may be given.
void muon_step(double lr, double decay, const torch::Tensor& gradient, torch::Tensor& momentum,
               torch::Tensor& values);

}  // namespace shoal::trainer
