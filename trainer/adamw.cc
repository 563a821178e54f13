// See adamw.h.
#include "trainer/adamw.h"

#include <cmath>

#include "trainer/cpu_kernels.h"

namespace shoal::trainer {

AdamW::AdamW(const TrainSpec& spec, std::vector<DecayRange> ranges, const torch::Tensor& parameters)
    : spec_(spec),
      ranges_(std::move(ranges)),
      m_(torch::zeros_like(parameters)),
      v_(torch::zeros_like(parameters)) {}

double AdamW::gradient_norm(const torch::Tensor& gradient) {
  if (!gradient.device().is_cpu()) return gradient.norm().item<double>();
  return std::sqrt(cpu_kernels().sum_of_squares(gradient.numel(), gradient.data_ptr<float>()));
}

void AdamW::step(double lr, double gradient_scale, const torch::Tensor& gradient,
                 torch::Tensor& parameters) {
  const torch::NoGradGuard no_grad;
  ++steps_;
  const double correction1 = 1 - std::pow(spec_.beta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(spec_.beta2, static_cast<double>(steps_));
  if (parameters.device().is_cpu()) {
    AdamWStep step{static_cast<float>(lr),
                   static_cast<float>(spec_.beta1),
                   static_cast<float>(spec_.beta2),
                   static_cast<float>(kAdamEps),
                   0,
                   static_cast<float>(correction1),
                   static_cast<float>(correction2),
                   static_cast<float>(gradient_scale)};
    for (const DecayRange& range : ranges_) {
      step.decay = range.decays ? static_cast<float>(lr * spec_.weight_decay) : 0.0f;
      cpu_kernels().adamw(step, range.count, gradient.data_ptr<float>() + range.first,
                          parameters.data_ptr<float>() + range.first,
                          m_.data_ptr<float>() + range.first, v_.data_ptr<float>() + range.first);
    }
    return;
  }
  const auto g = gradient * gradient_scale;
  m_.mul_(spec_.beta1).add_(g, 1 - spec_.beta1);
  v_.mul_(spec_.beta2).addcmul_(g, g, 1 - spec_.beta2);
  for (const DecayRange& range : ranges_) {
    if (range.decays)
      parameters.narrow(0, range.first, range.count).mul_(1 - lr * spec_.weight_decay);
  }
  const auto denominator = v_.sqrt().div_(std::sqrt(correction2)).add_(kAdamEps);
  parameters.addcdiv_(m_, denominator, -lr / correction1);
}

}  // namespace shoal::trainer
