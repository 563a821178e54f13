// See fused_ops.h: autograd nodes around the CPU kernels. The attention node is the largest: it
// reads q, k and v where the projection left them, one sgemm per head and block of queries, so
// nothing is transposed or copied, and the blocks skip the keys that causality hides.
#include "trainer/model/fused_ops.h"

#include <algorithm>
#include <cmath>

#include "trainer/plain/blas.h"
#include "trainer/plain/cpu_kernels.h"

namespace shoal::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

bool on_fast_cpu(const torch::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat32;
}

const float* data(const torch::Tensor& x) { return x.data_ptr<float>(); }
float* mutable_data(torch::Tensor& x) { return x.data_ptr<float>(); }

class RmsNorm : public Function<RmsNorm> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& weight, double eps) {
    const auto x = input.contiguous();
    auto y = torch::empty_like(x);
    auto inverse = torch::empty({x.size(0)}, x.options());
    cpu_kernels().rms_norm(x.size(0), x.size(1), static_cast<float>(eps), data(x), data(weight),
                           mutable_data(y), mutable_data(inverse));
    context->save_for_backward({x, weight, inverse});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& x = saved[0];
    const auto dy = gradients[0].contiguous();
    auto dx = torch::empty_like(x);
    auto dw = torch::zeros_like(saved[1]);
    cpu_kernels().rms_norm_backward(x.size(0), x.size(1), data(dy), data(x), data(saved[1]),
                                    data(saved[2]), mutable_data(dx), mutable_data(dw));
    return {dx, dw, torch::Tensor()};
  }
};

class SwiGlu : public Function<SwiGlu> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input) {
    const auto x = input.contiguous();
    auto y = torch::empty({x.size(0), x.size(1) / 2}, x.options());
    cpu_kernels().swiglu(y.size(0), y.size(1), data(x), mutable_data(y));
    context->save_for_backward({x});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto x = context->get_saved_variables()[0];
    const auto dy = gradients[0].contiguous();
    auto dx = torch::empty_like(x);
    cpu_kernels().swiglu_backward(dy.size(0), dy.size(1), data(dy), data(x), mutable_data(dx));
    return {dx};
  }
};

class Gelu : public Function<Gelu> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input) {
    const auto x = input.contiguous();
    auto y = torch::empty_like(x);
    cpu_kernels().gelu(x.numel(), data(x), mutable_data(y));
    context->save_for_backward({x});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto x = context->get_saved_variables()[0];
    const auto dy = gradients[0].contiguous();
    auto dx = torch::empty_like(x);
    cpu_kernels().gelu_backward(x.numel(), data(dy), data(x), mutable_data(dx));
    return {dx};
  }
};

// The gradient of the logits is known as soon as the loss is, so it is made in the forward pass.
class CrossEntropy : public Function<CrossEntropy> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& targets, double factor) {
    auto gradient = logits.clone(at::MemoryFormat::Contiguous);
    const auto wanted = targets.contiguous();
    const double sum =
        cpu_kernels().cross_entropy(logits.size(0), logits.size(1), wanted.data_ptr<std::int64_t>(),
                                    static_cast<float>(factor), mutable_data(gradient));
    context->save_for_backward({gradient});
    return torch::full({}, sum * factor, logits.options());
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto gradient = context->get_saved_variables()[0];
    const auto scale = gradients[0].item<float>();
    return {scale == 1.0f ? gradient : gradient * scale, torch::Tensor(), torch::Tensor()};
  }
};

// One head of one sequence: row-major blocks inside the wider matrices, all BLAS calls in one
// place. Fortran sees each row-major matrix as its transpose.
class Head {
 public:
  explicit Head(const AttentionShape& shape)
      : gemm_(blas().sgemm),
        head_(static_cast<int>(shape.head)),
        qkv_stride_(static_cast<int>((shape.heads + 2 * shape.kv_heads) * shape.head)),
        out_stride_(static_cast<int>(shape.heads * shape.head)) {}

  int qkv_stride() const { return qkv_stride_; }
  int out_stride() const { return out_stride_; }

  // c[rows, columns] = a[rows, head] * b[columns, head]^T
  void products(int rows, int columns, const float* a, int a_stride, const float* b, int b_stride,
                float* c, int c_stride) const {
    gemm("T", "N", columns, rows, head_, b, b_stride, a, a_stride, 0.0f, c, c_stride);
  }
  // c[rows, head] = (or +=) p[rows, inner] * b[inner, head]
  void weighted(int rows, int inner, const float* p, int p_stride, const float* b, int b_stride,
                float beta, float* c, int c_stride) const {
    gemm("N", "N", head_, rows, inner, b, b_stride, p, p_stride, beta, c, c_stride);
  }
  // c[columns, head] += p[rows, columns]^T * b[rows, head]
  void scattered(int rows, int columns, const float* p, int p_stride, const float* b, int b_stride,
                 float* c, int c_stride) const {
    gemm("N", "T", head_, columns, rows, b, b_stride, p, p_stride, 1.0f, c, c_stride);
  }

 private:
  void gemm(const char* trans_a, const char* trans_b, int m, int n, int k, const float* a, int lda,
            const float* b, int ldb, float beta, float* c, int ldc) const {
    const float one = 1.0f;
    gemm_(trans_a, trans_b, &m, &n, &k, &one, a, &lda, b, &ldb, &beta, c, &ldc);
  }
  Sgemm gemm_;
  int head_, qkv_stride_, out_stride_;
};

constexpr std::int64_t kQueryBlock = 64;

// Calls visit(sequence, head, kv head, first query, queries, keys) for every block.
template <typename Visit>
void for_each_block(const AttentionShape& shape, const Visit& visit) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t first = 0; first < shape.tokens; first += kQueryBlock) {
        const std::int64_t queries = std::min(kQueryBlock, shape.tokens - first);
        visit(b, h, h / group, first, queries, first + queries);
      }
    }
  }
}

void rotate_rows(const AttentionShape& shape, const torch::Tensor& cosine,
                 const torch::Tensor& sine, float sign, float* qkv, std::int64_t stride) {
  const std::int64_t half = shape.head / 2;
  for (std::int64_t row = 0; row < shape.batch * shape.tokens; ++row) {
    const std::int64_t position = row % shape.tokens;
    cpu_kernels().rotate(shape.heads + shape.kv_heads, shape.head, data(cosine) + position * half,
                         data(sine) + position * half, sign, qkv + row * stride);
  }
}

class CausalAttention : public Function<CausalAttention> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const AttentionShape& shape, const torch::Tensor& cosine,
                               const torch::Tensor& sine) {
    const Head head(shape);
    auto qkv = input.contiguous();
    if (cosine.numel() > 0) {
      qkv = qkv.clone();
      rotate_rows(shape, cosine, sine, 1.0f, mutable_data(qkv), head.qkv_stride());
    }
    const std::int64_t t = shape.tokens;
    auto p = torch::empty({shape.batch * shape.heads, t, t}, qkv.options());
    auto out = torch::empty({shape.batch * t, shape.heads * shape.head}, qkv.options());
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head));
    const float* base = data(qkv);
    float* p_base = mutable_data(p);
    float* out_base = mutable_data(out);
    const int stride = head.qkv_stride(), ti = static_cast<int>(t);
    for_each_block(shape, [&](std::int64_t b, std::int64_t h, std::int64_t kv, std::int64_t first,
                              std::int64_t queries, std::int64_t keys) {
      const float* sequence = base + b * t * stride;
      const float* q = sequence + first * stride + h * shape.head;
      const float* k = sequence + (shape.heads + kv) * shape.head;
      const float* v = k + shape.kv_heads * shape.head;
      float* rows = p_base + ((b * shape.heads + h) * t + first) * t;
      const int n = static_cast<int>(queries), m = static_cast<int>(keys);
      head.products(n, m, q, stride, k, stride, rows, ti);
      cpu_kernels().causal_softmax(queries, first, keys, t, scale, rows);
      head.weighted(n, m, rows, ti, v, stride, 0.0f,
                    out_base + (b * t + first) * head.out_stride() + h * shape.head,
                    head.out_stride());
    });
    context->save_for_backward({qkv, p, cosine, sine});
    context->saved_data["shape"] = c10::IValue(std::vector<std::int64_t>{
        shape.batch, shape.tokens, shape.heads, shape.kv_heads, shape.head});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const Head head(shape);
    const auto dout = gradients[0].contiguous();
    auto dqkv = torch::zeros_like(saved[0]);
    const std::int64_t t = shape.tokens;
    auto scratch = torch::empty({kQueryBlock, t}, dout.options());
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head));
    const float* base = data(saved[0]);
    const float* p_base = data(saved[1]);
    float* d_base = mutable_data(dqkv);
    float* dp = mutable_data(scratch);
    const int stride = head.qkv_stride(), ti = static_cast<int>(t);
    for_each_block(shape, [&](std::int64_t b, std::int64_t h, std::int64_t kv, std::int64_t first,
                              std::int64_t queries, std::int64_t keys) {
      const std::int64_t q_at = (b * t + first) * stride + h * shape.head;
      const std::int64_t k_at = b * t * stride + (shape.heads + kv) * shape.head;
      const std::int64_t v_at = k_at + shape.kv_heads * shape.head;
      const float* p = p_base + ((b * shape.heads + h) * t + first) * t;
      const float* d = data(dout) + (b * t + first) * head.out_stride() + h * shape.head;
      const int n = static_cast<int>(queries), m = static_cast<int>(keys);
      head.scattered(n, m, p, ti, d, head.out_stride(), d_base + v_at, stride);
      head.products(n, m, d, head.out_stride(), base + v_at, stride, dp, ti);
      cpu_kernels().causal_softmax_backward(queries, first, keys, t, scale, p, dp);
      head.weighted(n, m, dp, ti, base + k_at, stride, 0.0f, d_base + q_at, stride);
      head.scattered(n, m, dp, ti, base + q_at, stride, d_base + k_at, stride);
    });
    if (saved[2].numel() > 0) rotate_rows(shape, saved[2], saved[3], -1.0f, d_base, stride);
    return {dqkv, torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  return on_fast_cpu(x) ? RmsNorm::apply(x, weight, eps) : reference::rms_norm(x, weight, eps);
}

torch::Tensor swiglu(const torch::Tensor& gate_up) {
  return on_fast_cpu(gate_up) ? SwiGlu::apply(gate_up) : reference::swiglu(gate_up);
}

torch::Tensor gelu_tanh(const torch::Tensor& x) {
  return on_fast_cpu(x) ? Gelu::apply(x) : reference::gelu_tanh(x);
}

torch::Tensor causal_attention(const torch::Tensor& qkv, const AttentionShape& shape,
                               const RotaryTable& rotary) {
  if (!on_fast_cpu(qkv) || blas().sgemm == nullptr) {
    return reference::causal_attention(qkv, shape, rotary);
  }
  if (rotary.cosine.defined()) {
    return CausalAttention::apply(qkv, shape, rotary.cosine, rotary.sine);
  }
  const auto none = torch::empty({0}, qkv.options());
  return CausalAttention::apply(qkv, shape, none, none);
}

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                            double factor) {
  return on_fast_cpu(logits) ? CrossEntropy::apply(logits, targets, factor)
                             : reference::cross_entropy(logits, targets, factor);
}

}  // namespace shoal::trainer
