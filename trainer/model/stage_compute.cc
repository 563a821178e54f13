// See stage_compute.h.
#include "trainer/model/stage_compute.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/check.h"
#include "replica/core/learning_rate.h"
#include "trainer/model/slowdown.h"
#include "trainer/model/stage_model_parts.h"

namespace shoal::trainer {
namespace {

using swarm::PassKind;
using swarm::StagePass;

struct Task {
  std::int64_t step = 0;
  torch::Tensor input;   // tokens [batch, context], or hidden [batch, context, hidden]
  torch::Tensor output;  // with its graph; none: computed again when the gradient comes
};

swarm::MaybeComputeFailure named(MaybeFailure failure) {
  if (!failure) return std::nullopt;
  return swarm::ComputeFailure{failure->kind, std::move(failure->detail)};
}

Failure bad_shape(const char* what, std::size_t values) {
  return {ReplicaFailure::kInternal,
          std::to_string(values) + " values are no " + what + " of whole sequences"};
}

void to_host(const torch::Tensor& tensor, std::vector<float>& out) {
  const auto values = tensor.detach().to(torch::kFloat32).cpu().contiguous();
  out.resize(static_cast<std::size_t>(values.numel()));
  std::memcpy(out.data(), values.data_ptr<float>(), out.size() * sizeof(float));
}

}  // namespace

struct TorchStage::State {
  State(StageModel& m, std::shared_ptr<const Dataset> d)
      : parts(m.parts()),
        data(std::move(d)),
        recompute(m.spec().swarm.recompute == Recompute::kRecompute) {}

  MaybeFailure tokens_of(const StagePass& pass, torch::Tensor& out) const;
  MaybeFailure input_of(const StagePass& pass, torch::Tensor& out) const;
  torch::Tensor like_output(const torch::Tensor& input, std::span<const float> gradient) const;
  MaybeFailure loss_of(const StagePass& pass, bool add, swarm::LossSum& loss,
                       std::vector<float>& input_gradient);
  MaybeFailure logits_of(const StagePass& pass, std::vector<float>& out);
  void run_backward(const torch::Tensor& output, const torch::Tensor& gradient,
                    const torch::Tensor& input, bool add, std::vector<float>& input_gradient);

  StageModel::Parts& parts;
  std::shared_ptr<const Dataset> data;
  bool recompute;
  std::unordered_map<swarm::TaskId, Task> tasks;
};

// [sequences, context + 1] int64 on the device; a sequence of an evaluation that is none is of -1.
MaybeFailure TorchStage::State::tokens_of(const StagePass& pass, torch::Tensor& out) const {
  const std::int64_t width = parts.spec.model.context + 1, vocab = parts.spec.model.vocab;
  const auto count = static_cast<std::int64_t>(pass.tokens.size());
  if (count == 0 || count % width != 0) return bad_shape("tokens", pass.tokens.size());
  const auto host = torch::empty({count / width, width}, torch::kInt64);
  std::int64_t* to = host.data_ptr<std::int64_t>();
  for (auto rest = pass.tokens; !rest.empty();
       rest = rest.subspan(static_cast<std::size_t>(width))) {
    const auto row = rest.first(static_cast<std::size_t>(width));
    const bool none = pass.kind == PassKind::kLoss && row.front() == swarm::kNoToken;
    if (!none && *std::max_element(row.begin(), row.end()) >= vocab) {
      return Failure{ReplicaFailure::kDataInvalid, "a microbatch holds a token at or above vocab"};
    }
    to = none ? std::fill_n(to, width, -1) : std::copy(row.begin(), row.end(), to);
  }
  out = host.to(parts.device);
  return std::nullopt;
}

// What the model takes: without the context's next token, or the hidden values. They are copied:
// the caller's memory ends with the call.
MaybeFailure TorchStage::State::input_of(const StagePass& pass, torch::Tensor& out) const {
  const std::int64_t context = parts.spec.model.context, width = parts.spec.model.hidden;
  if (parts.model.has_embedding()) {
    if (auto failure = tokens_of(pass, out)) return failure;
    out = out.narrow(1, 0, context).clamp_min(0);
    return std::nullopt;
  }
  const std::span<const float> hidden = pass.input;
  const auto count = static_cast<std::int64_t>(hidden.size());
  if (count == 0 || count % (context * width) != 0) return bad_shape("input", hidden.size());
  const auto host = torch::empty({count / (context * width), context, width});
  std::memcpy(host.data_ptr<float>(), hidden.data(), hidden.size_bytes());
  out = host.to(parts.device);
  return std::nullopt;
}

torch::Tensor TorchStage::State::like_output(const torch::Tensor& input,
                                             std::span<const float> gradient) const {
  const std::int64_t rows = input.size(0) * input.size(1), width = parts.spec.model.hidden;
  SHOAL_CHECK(static_cast<std::int64_t>(gradient.size()) == rows * width, "another shape");
  return torch::from_blob(const_cast<float*>(gradient.data()), {rows, width}).to(parts.device);
}

// Without `add` the parameters are left out of the backward pass.
void TorchStage::State::run_backward(const torch::Tensor& output, const torch::Tensor& gradient,
                                     const torch::Tensor& input, bool add,
                                     std::vector<float>& input_gradient) {
  input_gradient.clear();
  const bool wanted = !parts.model.has_embedding();
  if (add) {
    torch::autograd::backward({output}, {gradient});
    if (!wanted) return;
    to_host(input.grad(), input_gradient);
    input.mutable_grad().reset();
  } else if (wanted) {
    to_host(torch::autograd::grad({output}, {input}, {gradient})[0], input_gradient);
  }
}

TorchStage::TorchStage(StageModel& model, std::shared_ptr<const Dataset> data)
    : state_(std::make_unique<State>(model, std::move(data))) {}
TorchStage::~TorchStage() = default;

swarm::StageShape TorchStage::shape() const {
  const JobSpec& spec = state_->parts.spec;
  return {spec.train.microbatch, spec.model.context, spec.model.hidden, spec.model.vocab};
}

swarm::MaybeComputeFailure TorchStage::draw(const swarm::Microbatch& microbatch,
                                            std::int64_t first_sequence,
                                            std::vector<std::uint32_t>& tokens) {
  SHOAL_CHECK(state_->data != nullptr, "only stage 0 draws");
  const Dataset& data = *state_->data;
  const JobSpec& spec = state_->parts.spec;
  const std::int64_t held_out = data.validation_sequences(spec.eval.batches * spec.train.batch);
  std::vector<std::int64_t> row(static_cast<std::size_t>(spec.model.context + 1));
  tokens.clear();
  for (std::int64_t i = 0; i < spec.train.microbatch; ++i) {
    const std::int64_t at = first_sequence + i;
    const bool held = microbatch.kind == PassKind::kLoss;
    if (held && at >= held_out) {
      tokens.insert(tokens.end(), row.size(), swarm::kNoToken);
      continue;
    }
    const Status read =
        held ? data.validation_sequence(at, held_out, row) : data.training_sequence(at, row);
    if (!read) return named(data_failure(read.error()));
    for (const std::int64_t token : row) tokens.push_back(static_cast<std::uint32_t>(token));
  }
  return std::nullopt;
}

swarm::MaybeComputeFailure TorchStage::forward(swarm::TaskId task, const StagePass& pass,
                                               std::vector<float>& output) {
  State& s = *state_;
  const SlowedPiece piece(s.parts.choice.speed);
  MaybeFailure failure;
  const MaybeFailure thrown = guarded([&] {
    Task kept{.step = pass.step};
    failure = s.input_of(pass, kept.input);
    if (failure) return;
    const bool keep = pass.kind == PassKind::kTrain;
    const bool graph = keep && !s.recompute;
    const torch::AutoGradMode grad_mode(graph);
    if (graph && !s.parts.model.has_embedding()) kept.input.set_requires_grad(true);
    const auto result = s.parts.of(pass.step).hidden(kept.input);
    to_host(result, output);
    if (graph) kept.output = result;
    if (keep) s.tasks[task] = std::move(kept);
  });
  return named(failure ? failure : thrown);
}

swarm::MaybeComputeFailure TorchStage::backward(swarm::TaskId task,
                                                std::span<const float> output_gradient, bool add,
                                                std::vector<float>& input_gradient) {
  State& s = *state_;
  const SlowedPiece piece(s.parts.choice.speed);
  return named(guarded([&] {
    const auto it = s.tasks.find(task);
    SHOAL_CHECK(it != s.tasks.end(), "a gradient for a task that is not kept");
    Task& kept = it->second;
    if (!kept.output.defined()) {
      if (!s.parts.model.has_embedding()) kept.input.set_requires_grad(true);
      kept.output = s.parts.of(kept.step).hidden(kept.input);
    }
    const auto output = std::exchange(kept.output, {});  // the graph ends with this pass
    s.run_backward(output, s.like_output(kept.input, output_gradient), kept.input, add,
                   input_gradient);
  }));
}

// Loss, and for kTrain the gradients.
MaybeFailure TorchStage::State::loss_of(const StagePass& pass, bool add, swarm::LossSum& loss,
                                        std::vector<float>& input_gradient) {
  torch::Tensor x, all;
  loss = {};
  if (auto failure = tokens_of(pass, all)) return failure;
  if (auto failure = input_of(pass, x)) return failure;
  if (x.size(0) != all.size(0)) return bad_shape("input", pass.input.size());
  if (pass.kind == PassKind::kLoss) {
    const auto there = all.select(1, 0).ge(0).nonzero().view(-1);
    all = all.index_select(0, there);
    x = x.index_select(0, there);
    if (all.size(0) == 0) return std::nullopt;
  }
  const bool train = pass.kind == PassKind::kTrain;
  const torch::AutoGradMode grad_mode(train);
  if (train && !parts.model.has_embedding()) x.set_requires_grad(true);
  const std::int64_t context = parts.spec.model.context;
  const auto sum = parts.of(pass.step).loss(x, all.narrow(1, 1, context), 1.0);
  loss = {sum.item<double>(), Tokens(x.size(0) * context)};
  if (train) run_backward(sum, torch::ones_like(sum), x, add, input_gradient);
  return std::nullopt;
}

MaybeFailure TorchStage::State::logits_of(const StagePass& pass, std::vector<float>& out) {
  const torch::NoGradGuard no_grad;
  torch::Tensor x;
  if (auto failure = input_of(pass, x)) return failure;
  Model& model = parts.of(pass.step);
  const auto hidden = model.hidden(x).view({x.size(0), x.size(1), -1});
  to_host(model.network().head(hidden.select(1, x.size(1) - 1)), out);
  return std::nullopt;
}

swarm::MaybeComputeFailure TorchStage::last(const StagePass& pass, bool add, swarm::LossSum& loss,
                                            std::vector<float>& input_gradient) {
  State& s = *state_;
  const SlowedPiece piece(s.parts.choice.speed);
  MaybeFailure failure;
  input_gradient.clear();
  const MaybeFailure thrown = guarded([&] {
    failure = pass.kind == PassKind::kLogits ? s.logits_of(pass, input_gradient)
                                             : s.loss_of(pass, add, loss, input_gradient);
  });
  return named(failure ? failure : thrown);
}

void TorchStage::forget(swarm::TaskId task) { state_->tasks.erase(task); }
std::size_t TorchStage::tasks() const { return state_->tasks.size(); }

swarm::MaybeComputeFailure TorchStage::step(std::int64_t step, Tokens tokens, Stepped& out) {
  State& s = *state_;
  const SlowedPiece piece(s.parts.choice.speed);
  StepResult result;
  result.lr = replica::learning_rate(s.parts.spec.train, Steps(step));
  MaybeFailure failure;
  const MaybeFailure thrown = guarded([&] {
    s.parts.renew(step);
    if (tokens.count() == 0) return;
    const double scale = 1.0 / static_cast<double>(tokens.count());
    failure = s.parts.take_step(Steps(step), tokens, scale, result);
    s.parts.model.flat_gradient().zero_();
  });
  out = {result.gradient_norm, result.lr, result.finite};
  return named(failure ? failure : thrown);
}

swarm::MaybeComputeFailure TorchStage::settle() {
  return named(guarded([&] { state_->parts.settle(); }));
}

}  // namespace shoal::trainer
