// See learner.h. Batches are gathered into one host tensor that is reused; on the CPU that is also
// where the model reads them.
#include "trainer/learner.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "trainer/adamw.h"
#include "trainer/model.h"
#include "trainer/schedule.h"

namespace shoal::trainer {
namespace {

torch::Device torch_device(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::kCpu) return {torch::kCPU};
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(choice.index)};
}

torch::Tensor host_view(std::span<const float> values) {
  return torch::from_blob(const_cast<float*>(values.data()),
                          {static_cast<std::int64_t>(values.size())});
}

}  // namespace

struct Learner::State {
  State(const JobSpec& job, std::shared_ptr<const Dataset> dataset, const DeviceChoice& choice)
      : spec(job),
        data(std::move(dataset)),
        device(torch_device(choice)),
        model(job.model, job.train.precision, device),
        adam(job.train, decay_ranges(model.layout()), model.flat()) {}

  JobSpec spec;
  std::shared_ptr<const Dataset> data;
  torch::Device device;
  Model model;
  AdamW adam;
  torch::Tensor batch;  // [sequences, context + 1] int64, on the host
  int nonfinite_in_a_row = 0;
};

Learner::Learner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Learner::~Learner() = default;

MaybeFailure Learner::create(const JobSpec& spec, std::shared_ptr<const Dataset> data,
                             const DeviceChoice& device, std::unique_ptr<Learner>& out) {
  if (spec.train.precision == Precision::kBf16 && device.kind == DeviceKind::kCpu) {
    return Failure{ReplicaFailure::kModelDoesNotFit,
                   "train.precision: bf16 needs a CUDA device, this one is a CPU (use fp32)"};
  }
  return guarded(
      [&] { out.reset(new Learner(std::make_unique<State>(spec, std::move(data), device))); });
}

std::int64_t Learner::value_count() const { return state_->model.flat().numel(); }
const JobSpec& Learner::spec() const { return state_->spec; }
int Learner::nonfinite_in_a_row() const { return state_->nonfinite_in_a_row; }
std::int64_t Learner::adam_step() const { return state_->adam.steps(); }

void Learner::seed() {
  std::vector<float> initial(static_cast<std::size_t>(value_count()));
  initialize(state_->model.layout(), state_->spec.train.seed, initial);
  write_parameters(initial);
  state_->adam.m().zero_();
  state_->adam.v().zero_();
  state_->adam.set_steps(0);
}

MaybeFailure Learner::gather(bool held_out, std::int64_t first, std::int64_t count,
                             std::int64_t total) {
  const std::int64_t width = state_->spec.model.context + 1;
  torch::Tensor& batch = state_->batch;
  if (!batch.defined() || batch.size(0) != count) {
    batch = torch::empty({count, width}, torch::kInt64);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::span row(batch.data_ptr<std::int64_t>() + i * width,
                        static_cast<std::size_t>(width));
    const Status read = held_out ? state_->data->validation_sequence(first + i, total, row)
                                 : state_->data->training_sequence(first + i, row);
    if (!read) return data_failure(read.error());
  }
  return std::nullopt;
}

MaybeFailure Learner::train_step(Steps step, std::int64_t first_sequence, StepResult& out) {
  State& s = *state_;
  const TrainSpec& train = s.spec.train;
  const std::int64_t context = s.spec.model.context;
  const double factor = 1.0 / static_cast<double>(train.batch * context);
  MaybeFailure data_problem;
  const MaybeFailure failure = guarded([&] {
    s.model.flat_gradient().zero_();
    double loss = 0;
    for (std::int64_t done = 0; done < train.batch; done += train.microbatch) {
      const std::int64_t count = std::min(train.microbatch, train.batch - done);
      data_problem = gather(false, first_sequence + done, count, 0);
      if (data_problem) return;
      const auto tokens = s.batch.to(s.device);
      const auto part =
          s.model.loss(tokens.narrow(1, 0, context), tokens.narrow(1, 1, context), factor);
      part.backward();
      loss += part.item<double>();
    }
    const double norm = AdamW::gradient_norm(s.model.flat_gradient());
    out = {loss, norm, learning_rate(train, step), std::isfinite(loss) && std::isfinite(norm)};
    if (!out.finite) {
      ++s.nonfinite_in_a_row;
      return;
    }
    s.nonfinite_in_a_row = 0;
    const bool clips = train.clip > 0 && norm > train.clip;
    s.adam.step(out.lr, clips ? train.clip / norm : 1.0, s.model.flat_gradient(), s.model.flat());
  });
  return data_problem ? data_problem : failure;
}

MaybeFailure Learner::evaluate_batch(std::int64_t index, std::int64_t batches, EvalSum& sum) {
  State& s = *state_;
  const std::int64_t batch = s.spec.train.batch, context = s.spec.model.context;
  const std::int64_t total = s.data->validation_sequences(batches * batch);
  const std::int64_t first = index * batch, end = std::min(first + batch, total);
  MaybeFailure data_problem;
  const MaybeFailure failure = guarded([&] {
    const torch::NoGradGuard no_grad;
    for (std::int64_t at = first; at < end; at += s.spec.train.microbatch) {
      const std::int64_t count = std::min(s.spec.train.microbatch, end - at);
      data_problem = gather(true, at, count, total);
      if (data_problem) return;
      const auto tokens = s.batch.to(s.device);
      sum.loss_sum += s.model.loss(tokens.narrow(1, 0, context), tokens.narrow(1, 1, context), 1.0)
                          .item<double>();
      sum.tokens += Tokens(count * context);
    }
  });
  return data_problem ? data_problem : failure;
}

void Learner::read_parameters(std::span<float> out) const {
  SHOAL_CHECK(static_cast<std::int64_t>(out.size()) == value_count());
  host_view(out).copy_(state_->model.flat());
}

void Learner::write_parameters(std::span<const float> in) {
  SHOAL_CHECK(static_cast<std::int64_t>(in.size()) == value_count());
  state_->model.flat().copy_(host_view(in));
}

void Learner::read_adam(std::span<float> m, std::span<float> v) const {
  host_view(m).copy_(state_->adam.m());
  host_view(v).copy_(state_->adam.v());
}

void Learner::write_adam(std::span<const float> m, std::span<const float> v, std::int64_t step) {
  state_->adam.m().copy_(host_view(m));
  state_->adam.v().copy_(host_view(v));
  state_->adam.set_steps(step);
}

MaybeFailure Learner::next_logits(std::span<const std::int64_t> tokens, std::vector<float>& out) {
  SHOAL_CHECK(!tokens.empty() &&
              static_cast<std::int64_t>(tokens.size()) <= state_->spec.model.context);
  return guarded([&] {
    const torch::NoGradGuard no_grad;
    const auto length = static_cast<std::int64_t>(tokens.size());
    const auto input =
        torch::from_blob(const_cast<std::int64_t*>(tokens.data()), {1, length}, torch::kInt64);
    const auto logits = state_->model.logits(input.to(state_->device));
    const auto last = logits[length - 1].to(torch::kFloat32).cpu().contiguous();
    out.assign(last.data_ptr<float>(), last.data_ptr<float>() + last.numel());
  });
}

}  // namespace shoal::trainer
