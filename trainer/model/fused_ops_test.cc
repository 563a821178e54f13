// Every fused operation against its plain formula: values and gradients; the rotary embedding also
// against complex multiplication.
#include "trainer/model/fused_ops.h"

#include <cmath>
#include <complex>
#include <functional>

#include <gtest/gtest.h>

#include "trainer/plain/rope.h"

namespace shoal::trainer {
namespace {

using Operation = std::function<torch::Tensor(const std::vector<torch::Tensor>&)>;

torch::Tensor random(std::vector<std::int64_t> shape, double scale = 1.0) {
  return torch::randn(shape) * scale;
}

void expect_close(const torch::Tensor& a, const torch::Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  const double error = (a - b).abs().max().item<double>();
  const double size = std::max(1.0, b.abs().max().item<double>());
  EXPECT_LT(error, 2e-5 * size) << what;
}

// Same inputs, same upstream gradient, through both.
void compare(const Operation& fused, const Operation& plain, std::vector<torch::Tensor> inputs) {
  std::vector<torch::Tensor> copies;
  for (auto& input : inputs) {
    copies.push_back(input.clone().set_requires_grad(true));
    input.set_requires_grad(true);
  }
  const auto a = fused(inputs), b = plain(copies);
  expect_close(a.detach(), b.detach(), "value");
  const auto upstream = torch::randn_like(b);
  a.backward(upstream);
  b.backward(upstream);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect_close(inputs[i].grad(), copies[i].grad(), "gradient " + std::to_string(i));
  }
}

class FusedOps : public testing::Test {
 protected:
  FusedOps() { torch::manual_seed(1); }
};

TEST_F(FusedOps, RmsNorm) {
  compare([](const auto& x) { return rms_norm(x[0], x[1], 1e-5); },
          [](const auto& x) { return reference::rms_norm(x[0], x[1], 1e-5); },
          {random({7, 48}), random({48})});
}

TEST_F(FusedOps, SwiGlu) {
  compare([](const auto& x) { return swiglu(x[0]); },
          [](const auto& x) { return reference::swiglu(x[0]); }, {random({5, 2 * 33}, 4.0)});
}

TEST_F(FusedOps, Gelu) {
  compare([](const auto& x) { return gelu_tanh(x[0]); },
          [](const auto& x) { return reference::gelu_tanh(x[0]); }, {random({5, 77}, 4.0)});
}

TEST_F(FusedOps, CrossEntropy) {
  const auto targets = torch::randint(0, 37, {11}, torch::kInt64);
  compare([&](const auto& x) { return cross_entropy(x[0], targets, 0.25); },
          [&](const auto& x) { return reference::cross_entropy(x[0], targets, 0.25); },
          {random({11, 37}, 3.0)});
}

struct AttentionCase {
  AttentionShape shape;
  bool rotary;
};

class FusedAttention : public testing::TestWithParam<AttentionCase> {};

// 130 tokens: two full blocks of queries and a rest.
TEST_P(FusedAttention, MatchesThePlainFormula) {
  torch::manual_seed(2);
  const auto& [shape, rotary] = GetParam();
  const RotaryTable table =
      rotary ? rotary_table(shape.tokens, rope_frequencies({}, shape.head), torch::kCPU)
             : RotaryTable{};
  const std::int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head;
  compare([&](const auto& x) { return causal_attention(x[0], shape, table); },
          [&](const auto& x) { return reference::causal_attention(x[0], shape, table); },
          {random({shape.batch * shape.tokens, width})});
}

INSTANTIATE_TEST_SUITE_P(Shapes, FusedAttention,
                         testing::Values(AttentionCase{{2, 16, 4, 4, 8}, false},
                                         AttentionCase{{2, 16, 4, 2, 8}, true},
                                         AttentionCase{{1, 130, 2, 1, 16}, true},
                                         AttentionCase{{3, 1, 2, 2, 4}, true}));

// The pair (i, i + head/2) at position t is the complex number z; it is turned by t *
// theta^(-2i/head). Attention to one key only returns its value, so the angles are read from the
// scores instead: q and k are chosen with one pair set, and the product of the turned vectors is
// Re(z_q * conj(z_k)).
TEST_F(FusedOps, RotaryEmbeddingIsAComplexRotation) {
  const std::int64_t head = 8, half = head / 2;
  const RotaryTable table = rotary_table(5, rope_frequencies({}, head), torch::kCPU);
  for (std::int64_t t = 0; t < 5; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t) *
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head));
      const auto z = std::polar(1.0, angle);
      EXPECT_NEAR(table.cosine[t][i].item<double>(), z.real(), 1e-6);
      EXPECT_NEAR(table.sine[t][i].item<double>(), z.imag(), 1e-6);
    }
  }
}

// Two tokens, one head: the weight of key 0 seen from query 1 is a sigmoid of the difference of
// scores, computed here with complex numbers from the definition.
TEST_F(FusedOps, RotatedScoresMatchComplexArithmetic) {
  const AttentionShape shape{1, 2, 1, 1, 4};
  const RotaryTable table = rotary_table(2, rope_frequencies({}, 4), torch::kCPU);
  const auto qkv = random({2, 12});
  const auto at = [&](int row, int column) { return qkv[row][column].item<double>(); };
  const auto turned = [&](int row, int first, int i) {
    const double angle = row * std::pow(10000.0, -2.0 * i / 4.0);
    return std::complex<double>(at(row, first + i), at(row, first + i + 2)) *
           std::polar(1.0, angle);
  };
  double scores[2] = {0, 0};
  for (int key = 0; key < 2; ++key) {
    for (int i = 0; i < 2; ++i) {
      scores[key] += (turned(1, 0, i) * std::conj(turned(key, 4, i))).real() / std::sqrt(4.0);
    }
  }
  const double weight = 1.0 / (1.0 + std::exp(scores[1] - scores[0]));
  const auto out = causal_attention(qkv, shape, table);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(out[0][i].item<double>(), at(0, 8 + i), 1e-5);
    EXPECT_NEAR(out[1][i].item<double>(), weight * at(0, 8 + i) + (1 - weight) * at(1, 8 + i),
                1e-5);
  }
}

}  // namespace
}  // namespace shoal::trainer
