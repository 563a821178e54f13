#include "python/abi/program_stage.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace shoal::python {
namespace {

using swarm::MaybeComputeFailure;
using swarm::PassKind;
using swarm::StagePass;

constexpr int kNonfiniteMax = 10;  // skipped steps in a row, as of the built-in trainer

std::uint64_t number_of(std::span<const std::uint32_t> words) {
  SHOAL_CHECK(words.size() == 2);
  return words[0] | std::uint64_t{words[1]} << 32;
}

// `given` is only read.
void attach(shoal_order& order, std::span<const float> given, std::vector<float>& wanted) {
  order.values = const_cast<float*>(given.data());
  order.value_count = std::ssize(given);
  order.output = wanted.data();
  order.output_count = std::ssize(wanted);
}

}  // namespace

swarm::StageShape ProgramStage::shape() const {
  return {spec_.train.microbatch, spec_.model.context, spec_.model.hidden, spec_.model.vocab,
          swarm::StageData::kNumber};
}

std::size_t ProgramStage::values() const {
  return static_cast<std::size_t>(shape().rows() * shape().hidden);
}

MaybeComputeFailure ProgramStage::draw(const swarm::Microbatch&, std::int64_t first_sequence,
                                       std::vector<std::uint32_t>& tokens) {
  const auto number = static_cast<std::uint64_t>(first_sequence);
  tokens = {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)};
  return std::nullopt;
}

shoal_order ProgramStage::order_of(std::int32_t kind, const StagePass& pass) const {
  shoal_order order = {};
  order.kind = kind;
  order.step = pass.step;
  order.first_sequence = static_cast<std::int64_t>(number_of(pass.tokens));
  order.sequences = spec_.train.microbatch;
  if (pass.kind == PassKind::kTrain) order.flags = SHOAL_TRAINS;
  if (pass.kind == PassKind::kLoss) order.count = spec_.eval.batches * spec_.train.batch;
  return order;
}

MaybeComputeFailure ProgramStage::forward(swarm::TaskId task, const StagePass& pass,
                                          std::vector<float>& output) {
  shoal_order order = order_of(SHOAL_FORWARD, pass);
  order.index = static_cast<std::int64_t>(task);
  output.resize(values());
  attach(order, pass.input, output);
  orders_.ask(order);
  if (pass.kind == PassKind::kTrain) kept_.insert(task);
  return std::nullopt;
}

MaybeComputeFailure ProgramStage::backward(swarm::TaskId task,
                                           std::span<const float> output_gradient, bool add,
                                           std::vector<float>& input_gradient) {
  const bool kept = kept_.erase(task) == 1;
  SHOAL_CHECK(kept, "a gradient for a task that is not kept");
  shoal_order order = {};
  order.kind = SHOAL_BACKWARD;
  order.flags = add ? SHOAL_ADD : 0;
  order.index = static_cast<std::int64_t>(task);
  input_gradient.resize(first_ ? 0 : values());
  attach(order, output_gradient, input_gradient);
  orders_.ask(order);
  return std::nullopt;
}

MaybeComputeFailure ProgramStage::last(const StagePass& pass, bool add, swarm::LossSum& loss,
                                       std::vector<float>& input_gradient) {
  SHOAL_CHECK(pass.kind != PassKind::kLogits);
  const bool train = pass.kind == PassKind::kTrain;
  shoal_order order = order_of(SHOAL_LOSS, pass);
  if (train && add) order.flags |= SHOAL_ADD;
  input_gradient.resize(train ? values() : 0);
  attach(order, pass.input, input_gradient);
  loss = {};
  const double mean = orders_.ask(order).loss;
  // The program has no such held-out items. In training the gradient shows what is not finite.
  if (!train && std::isnan(mean)) return std::nullopt;
  loss.tokens = Tokens(shape().rows());
  loss.nats = mean * static_cast<double>(loss.tokens.count());
  return std::nullopt;
}

void ProgramStage::forget(swarm::TaskId task) {
  if (kept_.erase(task) == 0) return;
  shoal_order order = {};
  order.kind = SHOAL_FORGET;
  order.index = static_cast<std::int64_t>(task);
  orders_.ask(order);
}

MaybeComputeFailure ProgramStage::step(std::int64_t step, Tokens tokens, Stepped& out) {
  if (tokens.count() == 0) return std::nullopt;
  shoal_order order = {};
  order.kind = SHOAL_STEP;
  order.step = step;
  order.count = tokens.count();
  Answer answer = orders_.ask(order);
  for (LoggedValue& one : answer.logged) one.step = Steps(step + 1);
  out = {answer.gradient_norm, answer.lr, std::isfinite(answer.gradient_norm),
         std::move(answer.logged)};
  nonfinite_in_a_row_ = out.finite ? 0 : nonfinite_in_a_row_ + 1;
  if (nonfinite_in_a_row_ < kNonfiniteMax) return std::nullopt;
  return swarm::ComputeFailure{
      ReplicaFailure::kNonFiniteLoss,
      "the gradient was not finite in " + std::to_string(kNonfiniteMax) +
          " steps in a row, the last one step " + std::to_string(step) +
          " (lower the learning rate of the program, or clip its gradients)"};
}

}  // namespace shoal::python
