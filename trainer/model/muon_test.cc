// Newton-Schulz against a singular value decomposition, a step that can be checked by hand, and the
// root mean square that makes one learning rate serve both optimizers.
#include "trainer/model/muon.h"

#include <cmath>

#include <gtest/gtest.h>

namespace shoal::trainer {
namespace {

// What five iterations make of one singular value: each is this polynomial.
torch::Tensor iterated(torch::Tensor s) {
  for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * s.pow(3) + 2.0315 * s.pow(5);
  return s;
}

TEST(Muon, OrthogonalisedIsThePolynomialOfTheSingularValues) {
  torch::manual_seed(1);
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{24, 24}, {8, 40}, {40, 8}, {1, 5}, {5, 1}}) {
    const auto matrix = torch::randn({rows, columns});
    const auto [u, s, vh] = torch::linalg_svd(matrix, false);
    const auto expected = torch::mm(u * iterated(s / matrix.norm()), vh);
    const auto result = orthogonalized(matrix);
    EXPECT_LT((result - expected).abs().max().item<double>(), 1e-4) << rows << "x" << columns;
    const auto values = std::get<1>(torch::linalg_svd(result, false));
    EXPECT_LT(values.max().item<double>(), 1.21);
    if (rows != columns) {  // a square one has small singular values
      EXPECT_GT(values.min().item<double>(), 0.68);
    }
  }
}

TEST(Muon, ScaleDoesNotMatterAndZerosStay) {
  torch::manual_seed(2);
  const auto matrix = torch::randn({6, 9});
  EXPECT_TRUE(torch::allclose(orthogonalized(matrix), orthogonalized(matrix * 1024), 1e-4, 1e-5));
  EXPECT_EQ(orthogonalized(torch::zeros({3, 4})).abs().max().item<float>(), 0);
}

// Golden. The row (3, 4) has the one singular value 5; five iterations make 0.6964364 of 1.
// Momentum is 0.05 G; the first update points where G does; it is 0.2 * sqrt(2) long, times the
// learning rate.
TEST(Muon, FirstStepByHand) {
  auto momentum = torch::zeros({1, 2}), values = torch::tensor({{1.0f, -1.0f}});
  muon_step(0.5, 0.25, torch::tensor({{3.0f, 4.0f}}), momentum, values);
  EXPECT_NEAR(momentum[0][0].item<double>(), 0.15, 1e-6);
  EXPECT_NEAR(momentum[0][1].item<double>(), 0.20, 1e-6);
  const double length = 0.5 * 0.2 * std::sqrt(2.0) * 0.6964364;
  EXPECT_NEAR(values[0][0].item<double>(), 0.75 - length * 0.6, 1e-5);
  EXPECT_NEAR(values[0][1].item<double>(), -0.75 - length * 0.8, 1e-5);
}

TEST(Muon, UpdatesAreAsLargeAsThoseOfAdamW) {
  torch::manual_seed(4);
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{64, 64}, {32, 128}, {128, 32}}) {
    auto momentum = torch::zeros({rows, columns}), values = torch::zeros({rows, columns});
    muon_step(1, 0, torch::randn({rows, columns}), momentum, values);
    const double root_mean_square = values.norm().item<double>() / std::sqrt(rows * columns);
    EXPECT_NEAR(root_mean_square, 0.2, 0.04) << rows << "x" << columns;
  }
}

}  // namespace
}  // namespace shoal::trainer
