// The differentiable operations of the models, apart from matrix products. On the CPU in fp32 they
// run on the fused loops of cpu_kernels.h, one autograd node each. Everywhere else they run on
// torch operations, with torch's scaled-dot-product attention where this libtorch offers it.
// `reference` holds the plain formulas: other devices run them, and tests compare with them. Rows
// are tokens: [batch * tokens, width].
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/model/torch_pch.h"

namespace shoal::trainer {

struct AttentionShape {
  std::int64_t batch = 0, tokens = 0;
  std::int64_t heads = 0, kv_heads = 0, head = 0;  // head: values per head
};

// Angles of the rotary embedding (Su et al. 2021) in the rotate-half form of the Hugging Face
// models: values i and i + head/2 of a head are a pair, turned by position * frequency i
// (trainer/plain/rope.h).
struct RotaryTable {
  torch::Tensor cosine, sine;  // [context, head / 2] fp32; undefined: no rotation
};
RotaryTable rotary_table(std::int64_t context, const std::vector<double>& frequencies,
                         torch::Device device);

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps);
torch::Tensor swiglu(const torch::Tensor& gate_up);
torch::Tensor gelu_tanh(const torch::Tensor& x);
// qkv: [batch * tokens, (heads + 2 * kv_heads) * head] -> [batch * tokens, heads * head].
torch::Tensor causal_attention(const torch::Tensor& qkv, const AttentionShape& shape,
                               const RotaryTable& rotary);
// factor * sum over rows of -log softmax(logits)[target]; a scalar in fp32.
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                            double factor);

namespace reference {
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps);
torch::Tensor swiglu(const torch::Tensor& gate_up);
torch::Tensor gelu_tanh(const torch::Tensor& x);
torch::Tensor causal_attention(const torch::Tensor& qkv, const AttentionShape& shape,
                               const RotaryTable& rotary);
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                            double factor);
}  // namespace reference

}  // namespace shoal::trainer
