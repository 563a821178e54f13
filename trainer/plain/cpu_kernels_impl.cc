// See cpu_kernels.h. Plain loops that the compiler vectorizes: exp is a polynomial (Cephes' expf, 2
// ulp), so that no call stands in a loop, and every sum is an `omp simd` reduction. Compiled once
// per instruction set with SHOAL_KERNEL_SET as its namespace.
#include <bit>
#include <cmath>
#include <cstdint>

#include "trainer/plain/cpu_kernels.h"

namespace shoal::trainer::SHOAL_KERNEL_SET {
namespace {

#define SHOAL_STRING2(text) #text
#define SHOAL_STRING(text) SHOAL_STRING2(text)

inline float exp_fast(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float n = (x * 1.44269504088896341f + kRound) - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const auto power = (static_cast<std::int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(power);
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp_fast(-x)); }

void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* w,
              float* y, float* inverse) {
  for (std::int64_t row = 0; row < rows; ++row, x += width, y += width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(width) + eps);
    inverse[row] = scale;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) y[i] = x[i] * scale * w[i];
  }
}

void rms_norm_backward(std::int64_t rows, std::int64_t width, const float* dy, const float* x,
                       const float* w, const float* inverse, float* dx, float* dw) {
  for (std::int64_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    const float scale = inverse[row];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < width; ++i) dot += dy[i] * w[i] * x[i];
    const float pull = dot * scale * scale * scale / static_cast<float>(width);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      dx[i] = dy[i] * w[i] * scale - x[i] * pull;
      dw[i] += dy[i] * x[i] * scale;
    }
  }
}

void swiglu(std::int64_t rows, std::int64_t width, const float* gate_up, float* y) {
  for (std::int64_t row = 0; row < rows; ++row, gate_up += 2 * width, y += width) {
    const float* gate = gate_up;
    const float* up = gate_up + width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
  }
}

void swiglu_backward(std::int64_t rows, std::int64_t width, const float* dy, const float* gate_up,
                     float* dgate_up) {
  for (std::int64_t row = 0; row < rows;
       ++row, gate_up += 2 * width, dgate_up += 2 * width, dy += width) {
    const float* gate = gate_up;
    const float* up = gate_up + width;
    float* dgate = dgate_up;
    float* dup = dgate_up + width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const float s = sigmoid(gate[i]);
      const float silu = gate[i] * s;
      dgate[i] = dy[i] * up[i] * (s + silu * (1.0f - s));
      dup[i] = dy[i] * silu;
    }
  }
}

// tanh(u) = 2 * sigmoid(2u) - 1; gelu(x) = x * sigmoid(2u) with u = sqrt(2/pi) * (x + 0.044715
// x^3).
constexpr float kGelu = 0.7978845608028654f;
constexpr float kGeluCube = 0.044715f;

void gelu(std::int64_t count, const float* x, float* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float u = kGelu * (x[i] + kGeluCube * x[i] * x[i] * x[i]);
    y[i] = x[i] * sigmoid(2.0f * u);
  }
}

void gelu_backward(std::int64_t count, const float* dy, const float* x, float* dx) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float square = x[i] * x[i];
    const float s = sigmoid(2.0f * kGelu * x[i] * (1.0f + kGeluCube * square));
    const float du = kGelu * (1.0f + 3.0f * kGeluCube * square);
    dx[i] = dy[i] * (s + x[i] * 2.0f * s * (1.0f - s) * du);
  }
}

void rotate(std::int64_t heads, std::int64_t head, const float* cosine, const float* sine,
            float sign, float* row) {
  const std::int64_t half = head / 2;
  for (std::int64_t h = 0; h < heads; ++h, row += head) {
#pragma omp simd
    for (std::int64_t i = 0; i < half; ++i) {
      const float a = row[i], b = row[i + half];
      const float s = sign * sine[i];
      row[i] = a * cosine[i] - b * s;
      row[i + half] = b * cosine[i] + a * s;
    }
  }
}

void causal_softmax(std::int64_t rows, std::int64_t first, std::int64_t columns,
                    std::int64_t stride, float scale, float* scores) {
  for (std::int64_t row = 0; row < rows; ++row, scores += stride) {
    const std::int64_t seen = first + row + 1;
    float top = scores[0];
#pragma omp simd reduction(max : top)
    for (std::int64_t i = 0; i < seen; ++i) top = scores[i] > top ? scores[i] : top;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < seen; ++i) {
      const float e = exp_fast(scale * (scores[i] - top));
      scores[i] = e;
      sum += e;
    }
    const float inverse = 1.0f / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < seen; ++i) scores[i] *= inverse;
    for (std::int64_t i = seen; i < columns; ++i) scores[i] = 0;
  }
}

void causal_softmax_backward(std::int64_t rows, std::int64_t first, std::int64_t columns,
                             std::int64_t stride, float scale, const float* p, float* dp) {
  for (std::int64_t row = 0; row < rows; ++row, p += stride, dp += stride) {
    const std::int64_t seen = first + row + 1;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < seen; ++i) dot += p[i] * dp[i];
#pragma omp simd
    for (std::int64_t i = 0; i < seen; ++i) dp[i] = scale * p[i] * (dp[i] - dot);
    for (std::int64_t i = seen; i < columns; ++i) dp[i] = 0;
  }
}

double cross_entropy(std::int64_t rows, std::int64_t vocab, const std::int64_t* targets,
                     float factor, float* logits) {
  double total = 0;
  for (std::int64_t row = 0; row < rows; ++row, logits += vocab) {
    float top = logits[0];
#pragma omp simd reduction(max : top)
    for (std::int64_t i = 0; i < vocab; ++i) top = logits[i] > top ? logits[i] : top;
    const float chosen = logits[targets[row]] - top;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < vocab; ++i) {
      const float e = exp_fast(logits[i] - top);
      logits[i] = e;
      sum += e;
    }
    total += std::log(static_cast<double>(sum)) - static_cast<double>(chosen);
    const float weight = factor / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < vocab; ++i) logits[i] *= weight;
    logits[targets[row]] -= factor;
  }
  return total;
}

double sum_of_squares(std::int64_t count, const float* x) {
  constexpr std::int64_t kBlock = 4096;  // fp32 inside a block, fp64 over blocks
  double total = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t end = first + kBlock < count ? first + kBlock : count;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = first; i < end; ++i) sum += x[i] * x[i];
    total += static_cast<double>(sum);
  }
  return total;
}

void adamw(const AdamWStep& step, std::int64_t count, const float* gradient, float* parameter,
           float* m, float* v) {
  const AdamWStep s = step;
  const float rate = s.lr / s.correction1;
  const float root = 1.0f / std::sqrt(s.correction2);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * s.gradient_scale;
    m[i] = s.beta1 * m[i] + (1.0f - s.beta1) * g;
    v[i] = s.beta2 * v[i] + (1.0f - s.beta2) * g * g;
    const float kept = parameter[i] - s.decay * parameter[i];
    parameter[i] = kept - rate * m[i] / (std::sqrt(v[i]) * root + s.eps);
  }
}

}  // namespace

extern const CpuKernels kKernels;
const CpuKernels kKernels = {SHOAL_STRING(SHOAL_KERNEL_SET),
                             rms_norm,
                             rms_norm_backward,
                             swiglu,
                             swiglu_backward,
                             gelu,
                             gelu_backward,
                             rotate,
                             causal_softmax,
                             causal_softmax_backward,
                             cross_entropy,
                             sum_of_squares,
                             adamw};

}  // namespace shoal::trainer::SHOAL_KERNEL_SET
