// See inner_optimizer.h.
#include "trainer/model/inner_optimizer.h"

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

void InnerOptimizer::step(double lr, double gradient_scale, const torch::Tensor& gradient,
                          torch::Tensor& parameters) {
  const torch::NoGradGuard no_grad;
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const Adam adam{lr, gradient_scale, 1 - std::pow(spec_.beta1, t), 1 - std::pow(spec_.beta2, t)};
  if (parameters.device().is_cpu()) {
    adam_fused(adam, gradient, parameters);
  } else {
    adam_by_torch(adam, gradient, parameters);
  }
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

void InnerOptimizer::adam_by_torch(const Adam& adam, const torch::Tensor& gradient,
                                   torch::Tensor& parameters) {
  for (const AdamRange& range : layout_.adam) {
    if (!range.decays) continue;
    parameters.narrow(0, range.first, range.count).mul_(1 - adam.lr * spec_.weight_decay);
  }
  for (const AdamRange& run : runs_) {
    const auto g = gradient.narrow(0, run.first, run.count) * adam.gradient_scale;
    auto m = m_.narrow(0, run.first, run.count), v = v_.narrow(0, run.second, run.count);
    m.mul_(spec_.beta1).add_(g, 1 - spec_.beta1);
    v.mul_(spec_.beta2).addcmul_(g, g, 1 - spec_.beta2);
    const auto denominator = v.sqrt().div_(std::sqrt(adam.correction2)).add_(replica::kAdamEps);
    parameters.narrow(0, run.first, run.count)
        .addcdiv_(m, denominator, -adam.lr / adam.correction1);
  }
}

}  // namespace shoal::trainer
