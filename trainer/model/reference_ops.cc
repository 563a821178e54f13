// The plain formulas of fused_ops.h in torch operations.
#include <cmath>

#include "trainer/model/fused_ops.h"

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
  const std::int64_t half = x.size(3) / 2;
  const auto cosine = rotary.cosine.narrow(0, 0, x.size(2));  // fp32: bf16 has no room for angles
  const auto sine = rotary.sine.narrow(0, 0, x.size(2));
  const auto a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return torch::cat({a * cosine - b * sine, b * cosine + a * sine}, 3).to(x.scalar_type());
}

torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
#else
  const std::int64_t tokens = q.size(2);
  const auto mask = torch::ones({tokens, tokens}, q.options().dtype(torch::kBool)).triu(1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  const auto scores = torch::matmul(q * scale, k.transpose(2, 3)).masked_fill(mask, -INFINITY);
  return torch::matmul(torch::softmax(scores, 3), v);
#endif
}

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  return x * torch::rsqrt(x.square().mean(-1, true) + eps) * weight;
}

torch::Tensor swiglu(const torch::Tensor& gate_up) {
  const auto parts = gate_up.chunk(2, 1);
  return torch::silu(parts[0]) * parts[1];
}

torch::Tensor gelu_tanh(const torch::Tensor& x) { return at::gelu(x, "tanh"); }

torch::Tensor causal_attention(const torch::Tensor& qkv, const AttentionShape& shape,
                               const RotaryTable& rotary) {
  const auto split = [&](std::int64_t first_head, std::int64_t heads) {
    return qkv.narrow(1, first_head * shape.head, heads * shape.head)
        .view({shape.batch, shape.tokens, heads, shape.head})
        .transpose(1, 2);
  };
  const auto q = rotate(split(0, shape.heads), rotary);
  auto k = rotate(split(shape.heads, shape.kv_heads), rotary);
  auto v = split(shape.heads + shape.kv_heads, shape.kv_heads);
  if (shape.kv_heads != shape.heads) {
    k = k.repeat_interleave(shape.heads / shape.kv_heads, 1);
    v = v.repeat_interleave(shape.heads / shape.kv_heads, 1);
  }
  return attend(q, k, v).transpose(1, 2).reshape(
      {shape.batch * shape.tokens, shape.heads * shape.head});
}

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                            double factor) {
  return at::cross_entropy_loss(logits.to(torch::kFloat32), targets, {}, at::Reduction::Sum) *
         factor;
}

}  // namespace reference
}  // namespace shoal::trainer
