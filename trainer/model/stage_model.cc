// See stage_model.h.
#include "trainer/model/stage_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "replica/core/learning_rate.h"
#include "trainer/model/stage_model_parts.h"
#include "trainer/plain/blas.h"
#include "trainer/plain/threads.h"

namespace shoal::trainer {
namespace {

constexpr int kNonfiniteMax = 10;  // skipped steps in a row before the replica gives up

torch::Device torch_device(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::kCpu) return {torch::kCPU};
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(choice.ordinal)};
}

torch::Tensor host_view(std::span<const float> values) {
  return torch::from_blob(const_cast<float*>(values.data()),
                          {static_cast<std::int64_t>(values.size())});
}

std::span<float> values_in_place(const torch::Tensor& flat) {
  return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

// Sets the threads of this process from now on: OpenMP's, for libtorch itself, and the BLAS
// library's.
void use_threads(int threads) {
  at::set_num_threads(threads);
  set_blas_threads(threads);
}

bool is_ddp(const JobSpec& spec) { return spec.sync.algorithm == SyncAlgorithm::kDdp; }

InnerOptimizer make_optimizer(const JobSpec& spec, Model& model) {
  const torch::TensorOptions device = model.flat().options();
  if (is_ddp(spec)) return {spec.train, {}, 0, device};
  return {spec.train, optimizer_layout(model.layout(), spec.train.optimizer), model.flat().numel(),
          device};
}

MaybeFailure refuse(const JobSpec& spec, UnitRange units, const DeviceChoice& device) {
  if (spec.train.precision == Precision::kBf16 && !has_bf16(device)) {
    const char* const what = device.kind == DeviceKind::kCpu ? "a CPU" : "an older one";
    return Failure{ReplicaFailure::kModelDoesNotFit,
                   std::string("train.precision: bf16 needs a GPU of compute capability 8.0 or "
                               "newer, this device is ") +
                       what + " (use fp32)"};
  }
  if (*spec.model.tie_embeddings && units != whole_model(spec.model)) {
    return Failure{ReplicaFailure::kModelDoesNotFit,
                   "model.tie_embeddings: true needs embedding and head in one stage"};
  }
  return std::nullopt;
}

}  // namespace

StageModel::Parts::Parts(const JobSpec& job, UnitRange range, const DeviceChoice& on)
    : spec(job),
      units(range),
      choice(on),
      device(torch_device(on)),
      model(job.model, range, job.train.precision, device),
      optimizer(make_optimizer(job, model)) {
  if (is_ddp(job)) gradient_sum = torch::zeros_like(model.flat());
  if (range == whole_model(job.model)) {  // a stage does it as a whole: stage_compute.h
    if (job.swarm.recompute == Recompute::kRecompute) model.network().recompute_blocks();
    return;
  }
  if (job.swarm.schedule != PipelineSchedule::kTwoBufferedWeights) return;
  older = std::make_unique<Model>(job.model, range, job.train.precision, device);
}

StageModel::Parts::Parts(const JobSpec& job, const DeviceChoice& on, std::span<const float> weights)
    : spec(job),
      units(whole_model(job.model)),
      choice(on),
      device(torch_device(on)),
      model(job.model, host_view(weights).to(device)),
      optimizer(job.train, {}, 0, model.flat().options()) {}

void StageModel::Parts::renew(std::int64_t step) {
  if (!older || (step & 1) == parity) return;
  older->flat().copy_(model.flat());
  std::swap(model, *older);
  parity = step & 1;
}

void StageModel::Parts::settle() {
  if (older) older->flat().copy_(model.flat());
}

MaybeFailure StageModel::Parts::take_step(Steps step, Tokens tokens, double scale,
                                          StepResult& out) {
  const TrainSpec& train = spec.train;
  const double norm = scale * InnerOptimizer::gradient_norm(model.flat_gradient());
  out.gradient_norm = norm;
  out.lr = replica::learning_rate(train, step);
  out.finite = std::isfinite(out.loss) && std::isfinite(norm);
  if (out.finite) {
    nonfinite_in_a_row = 0;
    if (gradient_sum.defined()) {
      const torch::NoGradGuard no_grad;
      gradient_sum.add_(model.flat_gradient(), scale * static_cast<double>(tokens.count()));
      gradient_tokens += tokens;
      return std::nullopt;
    }
    const double clip = train.clip > 0 && norm > train.clip ? train.clip / norm : 1.0;
    optimizer.step(out.lr, scale * clip, model.flat_gradient(), model.flat());
    return std::nullopt;
  }
  if (++nonfinite_in_a_row < kNonfiniteMax) return std::nullopt;
  return Failure{ReplicaFailure::kNonFiniteLoss,
                 "loss or gradient was not finite in " + std::to_string(kNonfiniteMax) +
                     " steps in a row, the last one step " + std::to_string(step.count()) +
                     " (lower train.lr or set train.clip)"};
}

StageModel::StageModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StageModel::~StageModel() = default;

MaybeFailure StageModel::create(const JobSpec& spec, UnitRange units, const DeviceChoice& device,
                                std::unique_ptr<StageModel>& out) {
  MaybeFailure refused;
  const MaybeFailure thrown = guarded([&] { refused = refuse(spec, units, device); });
  if (refused || thrown) return refused ? refused : thrown;
  if (device.kind == DeviceKind::kCpu) use_threads(useful_threads(spec, device.threads));
  return guarded([&] { out.reset(new StageModel(std::make_unique<Parts>(spec, units, device))); });
}

MaybeFailure StageModel::create_frozen(const JobSpec& spec, const DeviceChoice& device,
                                       std::span<const float> weights,
                                       std::unique_ptr<StageModel>& out) {
  if (device.kind == DeviceKind::kCpu) use_threads(useful_threads(spec, device.threads));
  return guarded(
      [&] { out.reset(new StageModel(std::make_unique<Parts>(spec, device, weights))); });
}

std::int64_t StageModel::value_count() const { return parts_->model.flat().numel(); }
const JobSpec& StageModel::spec() const { return parts_->spec; }
UnitRange StageModel::units() const { return parts_->units; }
std::int64_t StageModel::second_moment_count() const { return parts_->optimizer.v().numel(); }
std::int64_t StageModel::adam_step() const { return parts_->optimizer.steps(); }
int StageModel::nonfinite_in_a_row() const { return parts_->nonfinite_in_a_row; }

void StageModel::seed() {
  std::vector<float> initial(static_cast<std::size_t>(value_count()));
  initialize(parts_->model.layout(), parts_->spec.train.seed, initial);
  start_from(initial);
}

void StageModel::start_from(std::span<const float> initial) {
  write_parameters(initial);
  parts_->optimizer.m().zero_();
  parts_->optimizer.v().zero_();
  parts_->optimizer.set_steps(0);
}

void StageModel::read_parameters(std::span<float> out) const {
  SHOAL_CHECK(static_cast<std::int64_t>(out.size()) == value_count());
  host_view(out).copy_(parts_->model.flat());
}

void StageModel::read_part(std::int64_t first, std::span<float> out) const {
  const torch::NoGradGuard no_grad;
  host_view(out).copy_(parts_->model.flat().narrow(0, first, std::ssize(out)));
}

void StageModel::write_parameters(std::span<const float> in) {
  SHOAL_CHECK(static_cast<std::int64_t>(in.size()) == value_count());
  parts_->model.flat().copy_(host_view(in));
  parameters_written();
}

void StageModel::visit_parameters(const Visit& visit) const {
  if (parts_->device.is_cuda()) return LocalParameters::visit_parameters(visit);
  visit(0, values_in_place(parts_->model.flat()));
}

void StageModel::change_parameters(const Change& change) {
  if (parts_->device.is_cuda()) return LocalParameters::change_parameters(change);
  change(0, values_in_place(parts_->model.flat()));
  parameters_written();
}

float* StageModel::parameters_in_place() {
  if (parts_->device.is_cuda()) torch::cuda::synchronize(parts_->device.index());
  return parts_->model.flat().data_ptr<float>();
}

void StageModel::parameters_written() {
  parts_->settle();
  ++parts_->writes;
}

std::int64_t StageModel::writes() const { return parts_->writes; }

void StageModel::read_step_gradient(std::span<float> out) const {
  SHOAL_CHECK(static_cast<std::int64_t>(out.size()) == value_count());
  host_view(out).copy_(parts_->model.flat_gradient());
}

void StageModel::write_step_gradient(std::span<const float> in) {
  SHOAL_CHECK(static_cast<std::int64_t>(in.size()) == value_count());
  parts_->model.flat_gradient().copy_(host_view(in));
}

std::span<float> StageModel::step_gradient_in_place() {
  return values_in_place(parts_->model.flat_gradient());
}

bool StageModel::keeps_gradient() const { return parts_->gradient_sum.defined(); }

void StageModel::read_gradient(std::span<float> out) const {
  SHOAL_CHECK(keeps_gradient() && static_cast<std::int64_t>(out.size()) == value_count());
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, parts_->gradient_tokens.n));
  host_view(out).copy_(parts_->gradient_sum / tokens);
}

void StageModel::clear_gradient() {
  SHOAL_CHECK(keeps_gradient());
  parts_->gradient_sum.zero_();
  parts_->gradient_tokens = Tokens();
}

void StageModel::read_adam(std::span<float> m, std::span<float> v) const {
  SHOAL_CHECK(!keeps_gradient(), "the outer state has them");
  host_view(m).copy_(parts_->optimizer.m());
  host_view(v).copy_(parts_->optimizer.v());
}

void StageModel::write_adam(std::span<const float> m, std::span<const float> v, std::int64_t step) {
  SHOAL_CHECK(!keeps_gradient(), "the outer state has them");
  parts_->optimizer.m().copy_(host_view(m));
  parts_->optimizer.v().copy_(host_view(v));
  parts_->optimizer.set_steps(step);
  ++parts_->writes;
}

}  // namespace shoal::trainer
