// The inner loops of training that a CPU does badly as a chain of small tensor operations, in fp32
// over plain pointers. One source (cpu_kernels_impl.cc) is compiled once per instruction set and
// chosen at start; fused_ops.cc wraps them for autograd, and its tests hold each against the same
// formula in torch operations. Results differ in the last bits between instruction sets: nothing
// that replicas must share bit by bit is computed here. Thread-safe; no allocation.
#pragma once

#include <cstdint>

namespace shoal::trainer {

struct AdamWStep {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  float decay = 0;                         // lr * weight_decay, 0 where nothing decays
  float correction1 = 1, correction2 = 1;  // 1 - beta^t
  float gradient_scale = 1;                // clipping
};

struct CpuKernels {
  const char* name;  // "avx512", "avx2", "baseline"

  // y = x / rms(x) * w per row; `inverse` gets 1 / rms(x) per row for the backward pass.
  void (*rms_norm)(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* w,
                   float* y, float* inverse);
  // dx is overwritten, dw is added to.
  void (*rms_norm_backward)(std::int64_t rows, std::int64_t width, const float* dy, const float* x,
                            const float* w, const float* inverse, float* dx, float* dw);

  // Rows hold gate and up, `width` values each: y = silu(gate) * up.
  void (*swiglu)(std::int64_t rows, std::int64_t width, const float* gate_up, float* y);
  void (*swiglu_backward)(std::int64_t rows, std::int64_t width, const float* dy,
                          const float* gate_up, float* dgate_up);

  // y = gelu(x) in its tanh form, and dx = dy * gelu'(x).
  void (*gelu)(std::int64_t count, const float* x, float* y);
  void (*gelu_backward)(std::int64_t count, const float* dy, const float* x, float* dx);

  // Rotates the first `heads` heads of `row` (head values each, halves i and i + head/2 form a
  // pair) by the angles whose head/2 cosines and sines are given; sign -1 turns back.
  void (*rotate)(std::int64_t heads, std::int64_t head, const float* cosine, const float* sine,
                 float sign, float* row);

  // Row i of `scores` (stride values apart) becomes softmax(scale * scores[0 .. first + i]) with
  // zeros from there to `columns`.
  void (*causal_softmax)(std::int64_t rows, std::int64_t first, std::int64_t columns,
                         std::int64_t stride, float scale, float* scores);
  // dscores = scale * p * (dp - sum(p * dp)), in place of dp; rows as above.
  void (*causal_softmax_backward)(std::int64_t rows, std::int64_t first, std::int64_t columns,
                                  std::int64_t stride, float scale, const float* p, float* dp);

  // Sum over the rows of -log softmax(logits)[target]; `logits` become (softmax - onehot) * factor.
  double (*cross_entropy)(std::int64_t rows, std::int64_t vocab, const std::int64_t* targets,
                          float factor, float* logits);

  double (*sum_of_squares)(std::int64_t count, const float* x);
  // Decoupled weight decay (Loshchilov and Hutter 2019, Algorithm 2), bias-corrected.
  void (*adamw)(const AdamWStep& step, std::int64_t count, const float* gradient, float* parameter,
                float* m, float* v);
};

const CpuKernels& cpu_kernels();  // the best set for this processor

}  // namespace shoal::trainer
