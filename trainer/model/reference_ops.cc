// The plain formulas of fused_ops.h in torch operations.
#include <cmath>

#include "trainer/model/fused_ops.h"

#define SHOAL_TORCH_VERSION (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

namespace shoal::trainer {

RotaryTable rotary_table(std::int64_t context, const std::vector<double>& frequencies,
                         torch::Device device) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64);
  const auto angle =
      torch::outer(torch::arange(context, options), torch::tensor(frequencies, options));
  const auto to_device = [&](const torch::Tensor& t) {
    return t.to(torch::kFloat32).contiguous().to(device);
  };
  return {to_device(angle.cos()), to_device(angle.sin())};
}

namespace reference {
namespace {

// [batch, heads, tokens, head]
torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& rotary) {
  if (!rotary.cosine.defined()) return x;
  const auto cosine = rotary.cosine.narrow(0, 0, x.size(2));  // fp32: bf16 has no room for angles
  const auto sine = rotary.sine.narrow(0, 0, x.size(2));
  const auto halves = x.chunk(2, 3);
  const auto &a = halves[0], &b = halves[1];
  return torch::cat({a * cosine - b * sine, b * cosine + a * sine}, 3).to(x.scalar_type());
}

#if SHOAL_TORCH_VERSION >= 200
torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
}
#else
torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  const std::int64_t tokens = q.size(2);
  const auto mask = torch::ones({tokens, tokens}, q.options().dtype(torch::kBool)).triu(1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  const auto scores = torch::matmul(q * scale, k.transpose(2, 3)).masked_fill(mask, -INFINITY);
  return torch::matmul(torch::softmax(scores, 3), v);
}
#endif

// Each head of k and v serves several of q. Flash attention, which computes in half precision,
// reads them where they are; the other kernels want a copy for each head of q.
torch::Tensor attend_grouped(const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v) {
#if SHOAL_TORCH_VERSION >= 205
  if (q.scalar_type() == torch::kBFloat16) {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true, {},
                                            /*enable_gqa=*/true);
  }
#endif
  const std::int64_t each = q.size(1) / k.size(1);
  return attend(q, k.repeat_interleave(each, 1), v.repeat_interleave(each, 1));
}

}  // namespace

// One kernel each way since 2.9; before, rms_norm() was put together like this formula.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
#if SHOAL_TORCH_VERSION >= 209
  return at::rms_norm(x, {x.size(-1)}, weight, eps);
#else
  return x * torch::rsqrt(x.square().mean(-1, true) + eps) * weight;
#endif
}

torch::Tensor swiglu(const torch::Tensor& gate_up) {
  const auto parts = gate_up.chunk(2, 1);
  return torch::silu(parts[0]) * parts[1];
}

torch::Tensor gelu_tanh(const torch::Tensor& x) { return at::gelu(x, "tanh"); }

// Tensors are split rather than narrowed: the gradients of the parts are then one concatenation.
torch::Tensor causal_attention(const torch::Tensor& qkv, const AttentionShape& shape,
                               const RotaryTable& rotary) {
  const std::int64_t rotated = shape.heads + shape.kv_heads;
  const auto parts = qkv.view({shape.batch, shape.tokens, rotated + shape.kv_heads, shape.head})
                         .transpose(1, 2)
                         .split_with_sizes({rotated, shape.kv_heads}, 1);
  const auto qk = rotate(parts[0], rotary).split_with_sizes({shape.heads, shape.kv_heads}, 1);
  const auto attended = shape.kv_heads == shape.heads ? attend(qk[0], qk[1], parts[1])
                                                      : attend_grouped(qk[0], qk[1], parts[1]);
  return attended.transpose(1, 2).reshape({shape.batch * shape.tokens, shape.heads * shape.head});
}

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                            double factor) {
  return at::cross_entropy_loss(logits.to(torch::kFloat32), targets, {}, at::Reduction::Sum) *
         factor;
}

}  // namespace reference
}  // namespace shoal::trainer
