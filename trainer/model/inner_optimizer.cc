// See inner_optimizer.h.
#include "trainer/model/inner_optimizer.h"

#include <algorithm>
#include <cmath>

#include "trainer/model/muon.h"
#include "trainer/plain/cpu_kernels.h"

namespace shoal::trainer {
namespace {

std::vector<AdamRange> runs_of(const std::vector<AdamRange>& ranges) {
  std::vector<AdamRange> runs;
  for (const AdamRange& range : ranges) {
    if (!runs.empty() && runs.back().first + runs.back().count == range.first) {
      runs.back().count += range.count;
    } else {
      runs.push_back(range);
    }
  }
  return runs;
}

torch::Tensor matrix_at(const torch::Tensor& flat, const MatrixPlace& place) {
  return flat.as_strided({place.rows, place.columns}, {place.stride, 1},
                         flat.storage_offset() + place.first);
}

}  // namespace

InnerOptimizer::InnerOptimizer(const TrainSpec& spec, OptimizerLayout layout,
                               std::int64_t first_moments, const torch::TensorOptions& device)
    : spec_(spec),
      layout_(std::move(layout)),
      runs_(runs_of(layout_.adam)),
      m_(torch::zeros({first_moments}, device)),
      v_(torch::zeros({layout_.second_moments}, device)) {}

double InnerOptimizer::gradient_norm(const torch::Tensor& gradient) {
  if (!gradient.device().is_cpu()) return gradient.norm().item<double>();
  return std::sqrt(cpu_kernels().sum_of_squares(gradient.numel(), gradient.data_ptr<float>()));
}

InnerOptimizer::Adam InnerOptimizer::next_adam(double lr, double gradient_scale) {
  ++steps_;
  const auto t = static_cast<double>(steps_);
  return {lr, gradient_scale, 1 - std::pow(spec_.beta1, t), 1 - std::pow(spec_.beta2, t)};
}

void InnerOptimizer::step(double lr, double gradient_scale, const torch::Tensor& gradient,
                          torch::Tensor& parameters) {
  if (!parameters.device().is_cpu()) {
    return step_by_torch(lr, gradient_scale, gradient, parameters);
  }
  const torch::NoGradGuard no_grad;
  adam_fused(next_adam(lr, gradient_scale), gradient, parameters);
  muon(lr, gradient_scale, gradient, parameters);
}

void InnerOptimizer::step_by_torch(double lr, double gradient_scale, const torch::Tensor& gradient,
                                   torch::Tensor& parameters) {
  const torch::NoGradGuard no_grad;
  adam_by_torch(next_adam(lr, gradient_scale), gradient, parameters);
  muon(lr, gradient_scale, gradient, parameters);
}

void InnerOptimizer::muon(double lr, double gradient_scale, const torch::Tensor& gradient,
                          torch::Tensor& parameters) {
  for (const MatrixPlace& place : layout_.matrices) {
    auto momentum = matrix_at(m_, place), values = matrix_at(parameters, place);
    muon_step(lr, lr * spec_.weight_decay, matrix_at(gradient, place) * gradient_scale, momentum,
              values);
  }
}

void InnerOptimizer::adam_fused(const Adam& adam, const torch::Tensor& gradient,
                                torch::Tensor& parameters) {
  AdamWStep step{static_cast<float>(adam.lr),
                 static_cast<float>(spec_.beta1),
                 static_cast<float>(spec_.beta2),
                 static_cast<float>(replica::kAdamEps),
                 0,
                 static_cast<float>(adam.correction1),
                 static_cast<float>(adam.correction2),
                 static_cast<float>(adam.gradient_scale)};
  for (const AdamRange& range : layout_.adam) {
    step.decay = range.decays ? static_cast<float>(adam.lr * spec_.weight_decay) : 0.0f;
    cpu_kernels().adamw(step, range.count, gradient.data_ptr<float>() + range.first,
                        parameters.data_ptr<float>() + range.first,
                        m_.data_ptr<float>() + range.first, v_.data_ptr<float>() + range.second);
  }
}

#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
// One launch for the ranges that decay, one for the others. torch divides by its scale, and keeps
// the number of the step on the device.
void InnerOptimizer::adam_by_torch(const Adam& adam, const torch::Tensor& gradient,
                                   torch::Tensor& parameters) {
  const auto scalar = gradient.options().dtype(torch::kFloat32);
  const auto step = torch::full({}, static_cast<double>(steps_), scalar);
  std::optional<torch::Tensor> inverse;
  if (adam.gradient_scale != 1) inverse = torch::full({}, 1 / adam.gradient_scale, scalar);
  for (const bool decays : {true, false}) {
    std::vector<torch::Tensor> values, gradients, first, second, steps;
    for (const AdamRange& range : layout_.adam) {
      if (range.decays != decays || range.count == 0) continue;
      values.push_back(parameters.narrow(0, range.first, range.count));
      gradients.push_back(gradient.narrow(0, range.first, range.count));
      first.push_back(m_.narrow(0, range.first, range.count));
      second.push_back(v_.narrow(0, range.second, range.count));
      steps.push_back(step);
    }
    if (values.empty()) continue;
    at::_fused_adamw_(values, gradients, first, second, {}, steps, adam.lr, spec_.beta1,
                      spec_.beta2, decays ? spec_.weight_decay : 0, replica::kAdamEps,
                      /*amsgrad=*/false, /*maximize=*/false, inverse);
  }
}
#else
namespace {

// How much of a vector takes its step at once: two of these are at most 2 bytes per value, and few
// enough for the calls not to count.
std::int64_t piece_of(std::int64_t values) {
  constexpr std::int64_t kLeast = 1 << 16, kMost = 1 << 24;
  return std::clamp(values / 4, kLeast, kMost);
}

}  // namespace

void InnerOptimizer::adam_by_torch(const Adam& adam, const torch::Tensor& gradient,
                                   torch::Tensor& parameters) {
  for (const AdamRange& range : layout_.adam) {
    if (!range.decays) continue;
    parameters.narrow(0, range.first, range.count).mul_(1 - adam.lr * spec_.weight_decay);
  }
  const std::int64_t longest = piece_of(parameters.numel());
  for (const AdamRange& run : runs_) {
    for (std::int64_t done = 0; done < run.count; done += longest) {
      AdamRange piece = run;
      piece.first += done, piece.second += done;
      piece.count = std::min(longest, run.count - done);
      adam_piece(adam, piece, gradient, parameters);
    }
  }
}

// Two vectors as long as the piece are in use beside it.
void InnerOptimizer::adam_piece(const Adam& adam, const AdamRange& piece,
                                const torch::Tensor& gradient, torch::Tensor& parameters) {
  const auto g = gradient.narrow(0, piece.first, piece.count) * adam.gradient_scale;
  auto m = m_.narrow(0, piece.first, piece.count), v = v_.narrow(0, piece.second, piece.count);
  m.mul_(spec_.beta1).add_(g, 1 - spec_.beta1);
  v.mul_(spec_.beta2).addcmul_(g, g, 1 - spec_.beta2);
  const auto denominator = v.sqrt().div_(std::sqrt(adam.correction2)).add_(replica::kAdamEps);
  parameters.narrow(0, piece.first, piece.count)
      .addcdiv_(m, denominator, -adam.lr / adam.correction1);
}

#endif

}  // namespace shoal::trainer
