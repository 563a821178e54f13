// The pattern: tokens count up; the output of stage s is s + 1 everywhere, its gradient -(s + 1).
#include "swarm/pipeline/timed_compute.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace shoal::swarm {
namespace {

MaybeComputeFailure wrong(const std::string& what) {
  return ComputeFailure{ReplicaFailure::kInternal, what + " is not what was sent"};
}

// Both ends and the middle: enough to find a tensor that was mixed up or cut.
bool is_all(std::span<const float> values, std::int64_t size, float expected) {
  if (static_cast<std::int64_t>(values.size()) != size) return false;
  return values.empty() || (values.front() == expected && values.back() == expected &&
                            values[values.size() / 2] == expected);
}

// A tensor that is there already is left alone: the device's own work shall cost nothing.
void fill(std::vector<float>& values, std::int64_t size, float value) {
  if (!is_all(values, size, value)) values.assign(static_cast<std::size_t>(size), value);
}

}  // namespace

MaybeComputeFailure TimedCompute::draw(const Microbatch&, std::int64_t first_sequence,
                                       std::vector<std::uint32_t>& tokens) {
  const StageShape& shape = options_.shape;
  tokens.resize(static_cast<std::size_t>(shape.sequences * (shape.context + 1)));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] =
        static_cast<std::uint32_t>((first_sequence + static_cast<std::int64_t>(i)) % shape.vocab);
  }
  return {};
}

void TimedCompute::wait(Duration time) {
  if (time.ns <= 0) return;
  double factor = 1;
  if (options_.jitter > 0) factor = std::max(0.1, 1 + options_.jitter * prng_.normal());
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(static_cast<std::int64_t>(factor * static_cast<double>(time.ns))));
}

std::int64_t TimedCompute::sequences_in(std::span<const std::uint32_t> tokens) const {
  const std::int64_t width = options_.shape.context + 1;
  const auto count = static_cast<std::int64_t>(tokens.size());
  return count % width == 0 ? count / width : 0;
}

MaybeComputeFailure TimedCompute::check_input(const StagePass& pass) const {
  const StageShape& shape = options_.shape;
  const auto& tokens = pass.tokens;
  for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
    if (tokens[i] != (tokens[i - 1] + 1) % shape.vocab) return wrong("a token");
  }
  const std::int64_t sequences = sequences_in(tokens);
  if (sequences != shape.sequences && sequences != shape.sequences_of(PassKind::kLogits)) {
    return wrong("the number of tokens");
  }
  const std::int64_t size = options_.stage == 0 ? 0 : sequences * shape.context * shape.hidden;
  if (!is_all(pass.input, size, static_cast<float>(options_.stage))) return wrong("an activation");
  return {};
}

MaybeComputeFailure TimedCompute::forward(TaskId task, const StagePass& pass,
                                          std::vector<float>& output) {
  if (auto failure = check_input(pass)) return failure;
  wait(options_.forward);
  if (pass.kind == PassKind::kTrain) tasks_.put(task, pass.step);
  fill(output, sequences_in(pass.tokens) * options_.shape.context * options_.shape.hidden,
       static_cast<float>(options_.stage + 1));
  return {};
}

MaybeComputeFailure TimedCompute::backward(TaskId task, std::span<const float> output_gradient,
                                           bool add, std::vector<float>& input_gradient) {
  const std::int64_t size = options_.shape.rows() * options_.shape.hidden;
  if (!is_all(output_gradient, size, -static_cast<float>(options_.stage + 1))) {
    return wrong("a gradient");
  }
  const std::int64_t* step = tasks_.find(task);
  if (step == nullptr) {
    return ComputeFailure{ReplicaFailure::kInternal, "a backward without its forward"};
  }
  wait(options_.backward);
  microbatches_[*step] += add;
  if (options_.stage == 0) return {};
  fill(input_gradient, size, -static_cast<float>(options_.stage));
  return {};
}

MaybeComputeFailure TimedCompute::last(const StagePass& pass, bool add, LossSum& loss,
                                       std::vector<float>& input_gradient) {
  if (auto failure = check_input(pass)) return failure;
  const StageShape& shape = options_.shape;
  wait(pass.kind == PassKind::kTrain ? options_.forward + options_.backward : options_.forward);
  loss.tokens = Tokens(shape.rows());
  loss.nats = kLoss * static_cast<double>(shape.rows());
  if (pass.kind == PassKind::kLogits) {
    input_gradient.assign(static_cast<std::size_t>(shape.vocab), 0.0f);
    const std::uint32_t newest = pass.tokens[pass.tokens.size() - 2];  // after it comes the target
    input_gradient[(newest + 1) % static_cast<std::size_t>(shape.vocab)] = 100;
  }
  if (pass.kind != PassKind::kTrain) return {};
  microbatches_[pass.step] += add;
  if (options_.stage > 0) {
    fill(input_gradient, shape.rows() * shape.hidden, -static_cast<float>(options_.stage));
  }
  return {};
}

void TimedCompute::forget(TaskId task) { tasks_.erase(task); }

MaybeComputeFailure TimedCompute::step(std::int64_t step, Tokens tokens, Stepped& out) {
  const std::int64_t added = microbatches_[step];
  if (tokens.count() != added * options_.shape.rows()) {
    return ComputeFailure{ReplicaFailure::kInternal,
                          "a step over " + std::to_string(tokens.count()) + " tokens, " +
                              std::to_string(added) + " microbatches were added"};
  }
  microbatches_.erase(step);
  out.gradient_norm = 1;
  return {};
}

MaybeComputeFailure TimedCompute::settle() {
  std::int64_t left = 0;
  for (const auto& [step, added] : microbatches_) left += added;
  if (left == 0) return {};
  return ComputeFailure{ReplicaFailure::kInternal,
                        std::to_string(left) + " microbatches were added and not stepped over"};
}

}  // namespace shoal::swarm
