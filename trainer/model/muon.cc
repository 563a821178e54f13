// See muon.h.
#include "trainer/model/muon.h"

#include <algorithm>
#include <cmath>

namespace shoal::trainer {
namespace {

constexpr int kIterations = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kMomentum = 0.95;
constexpr double kRootMeanSquare = 0.2;  // of AdamW's updates
constexpr double kSmallest = 1e-7;       // beside the norm, so that zeros can be divided

}  // namespace

torch::Tensor orthogonalized(const torch::Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);  // the smaller Gram matrix
  auto x = tall ? matrix.t() : matrix;
  if (!x.device().is_cpu()) x = x.to(torch::kBFloat16);
  x = x / (x.norm() + kSmallest);
  for (int i = 0; i < kIterations; ++i) {
    const auto gram = torch::mm(x, x.t());
    x = torch::addmm(x, torch::addmm(gram, gram, gram, kB, kC), x, kA);
  }
  return (tall ? x.t() : x).to(matrix.scalar_type());
}

void muon_step(double lr, double decay, const torch::Tensor& gradient, torch::Tensor& momentum,
               torch::Tensor& values) {
  momentum.mul_(kMomentum).add_(gradient, 1 - kMomentum);
  const auto update = orthogonalized(gradient * (1 - kMomentum) + momentum * kMomentum);
  const auto longest = static_cast<double>(std::max(values.size(0), values.size(1)));
  values.mul_(1 - decay).add_(update, -lr * kRootMeanSquare * std::sqrt(longest));
}

}  // namespace shoal::trainer
