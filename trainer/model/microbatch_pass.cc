// See microbatch_pass.h.
#include "trainer/model/microbatch_pass.h"

#include <cmath>
#include <iostream>
#include <string>
#include <utility>

#include "trainer/model/inner_optimizer.h"

namespace shoal::trainer {
namespace {

// Attention's backward pass adds in any order, in bf16.
constexpr double kNormTolerance = 1e-2, kLossTolerance = 1e-3;

bool close(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::abs(b);  // false if either is not finite
}

void stays_eager(const std::string& why) {
  std::cerr << "shoal-trainer: inner steps run without a CUDA graph: "
            << why.substr(0, why.find('\n')) << std::endl;
}

}  // namespace

MicrobatchPass::MicrobatchPass(Model& model, std::int64_t sequences, double factor,
                               MakeCapturedWork make)
    : model_(model), sequences_(sequences), factor_(factor), make_(std::move(make)) {}
MicrobatchPass::~MicrobatchPass() = default;

void MicrobatchPass::begin() {
  model_.flat_gradient().zero_();
  if (loss_.defined()) {
    loss_.zero_();
  } else {
    loss_ = torch::zeros({}, model_.flat().options().dtype(torch::kFloat64));
  }
  fresh_ = true;
}

void MicrobatchPass::run(const torch::Tensor& tokens) {
  const std::int64_t context = tokens.size(1) - 1;
  const auto loss =
      model_.loss(tokens.narrow(1, 0, context), tokens.narrow(1, 1, context), factor_);
  loss.backward();
  loss_.add_(loss.detach());
}

void MicrobatchPass::run_eagerly(const torch::Tensor& tokens) {
  run(tokens.to(model_.flat().device(), torch::kInt64, /*non_blocking=*/true));
}

void MicrobatchPass::add(const torch::Tensor& tokens) {
  const bool first = std::exchange(fresh_, false), full = tokens.size(0) == sequences_;
  if (full && captured_) {
    input_.copy_(tokens, /*non_blocking=*/true);
    captured_->launch();
    return;
  }
  run_eagerly(tokens);
  if (full && first && make_) try_capture(tokens);
}

// Leaves the gradient and the loss of these tokens, whatever becomes of the capture.
void MicrobatchPass::try_capture(const torch::Tensor& tokens) {
  captured_ = std::exchange(make_, {})();
  std::string problem = "its gradient differs from the one without";
  try {
    if (captures_the_same(tokens)) return;
  } catch (const c10::Error& e) {
    problem = e.what_without_backtrace();
  } catch (const std::exception& e) {
    problem = e.what();
  }
  release();
  stays_eager(problem);
  begin();
  fresh_ = false;
  run_eagerly(tokens);  // a device that is lost says so here
}

bool MicrobatchPass::captures_the_same(const torch::Tensor& tokens) {
  const double loss = this->loss();
  const double norm = InnerOptimizer::gradient_norm(model_.flat_gradient());
  input_ = tokens.to(model_.flat().device(), torch::kInt64, /*non_blocking=*/false, /*copy=*/true);
  captured_->capture([this] { run(input_); });
  begin();
  fresh_ = false;
  captured_->launch();
  return close(this->loss(), loss, kLossTolerance) &&
         close(InnerOptimizer::gradient_norm(model_.flat_gradient()), norm, kNormTolerance);
}

double MicrobatchPass::loss() const { return loss_.item<double>(); }

bool MicrobatchPass::release() {
  input_.reset();
  return std::exchange(captured_, nullptr) != nullptr;
}

}  // namespace shoal::trainer
