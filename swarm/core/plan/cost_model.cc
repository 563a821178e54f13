// The formulas per unit. For parameters and activations they are those of job/job_spec.cc, split by
// unit; a test compares the sums. FLOPs: 2 per parameter of a matrix, and 4 * context *
// hidden for the two products of attention (Kaplan et al. 2020, section 2.1).
#include "swarm/core/plan/cost_model.h"

#include <algorithm>

#include "base/check.h"
#include "job/training_vectors.h"
#include "swarm/core/activation_codec.h"
#include "swarm/core/session/stage_session.h"

namespace shoal::swarm {
namespace {

constexpr double kFloatBytes = 4;
constexpr std::int64_t kMuonWorkspace = 5;  // see training_memory()
constexpr double kMostBytes = 9.0e18;

std::int64_t boundary_bytes_of(ActivationCodec codec, std::int64_t hidden) {
  return static_cast<std::int64_t>(encoded_size(codec, static_cast<std::size_t>(hidden)));
}

UnitCost embedding(const ModelSpec& m) {
  const bool gpt2 = m.family == ModelFamily::kGpt2;
  return {.parameters = (m.vocab + (gpt2 ? m.context : 0)) * m.hidden};
}

UnitCost block(const ModelSpec& m) {
  const bool llama = m.family == ModelFamily::kLlama;
  const std::int64_t matrices =
      2 * m.hidden * (query_width(m) + key_width(m)) + (llama ? 3 : 2) * m.hidden * m.ffn;
  const std::int64_t biases = m.qkv_bias ? query_width(m) + 2 * key_width(m) : 0;
  const std::int64_t vectors = llama ? 2 * m.hidden + biases : 9 * m.hidden + m.ffn;
  const auto attention = 4.0 * static_cast<double>(m.context) * static_cast<double>(query_width(m));
  const auto scores = 2.0 * static_cast<double>(m.heads) * static_cast<double>(m.context);
  return {.parameters = matrices + vectors,
          .forward_flops = 2.0 * static_cast<double>(matrices) + attention,
          .activation_values =
              static_cast<double>(8 * m.hidden + 4 * query_width(m) + 4 * m.ffn) + scores,
          .matrix_parameters = matrices};
}

UnitCost head(const ModelSpec& m) {
  const bool llama = m.family == ModelFamily::kLlama;
  const std::int64_t projection = m.vocab * m.hidden;
  const std::int64_t norm = (llama ? 1 : 2) * m.hidden;
  return {.parameters = norm + (*m.tie_embeddings ? 0 : projection),
          .forward_flops = 2.0 * static_cast<double>(projection),
          .activation_values = 3.0 * static_cast<double>(m.vocab)};
}

}  // namespace

CostOptions cost_options(const JobSpec& spec) {
  const JobSpec full = with_derived_fields(spec);
  CostOptions options{full.swarm.activations, full.swarm.recompute, 1};
  const std::int64_t stages = full.swarm.stages == 0 ? full.model.layers : full.swarm.stages;
  if (stages == 1) return options;
  const bool narrow = full.swarm.schedule == PipelineSchedule::kOneForwardOneBackward;
  if (full.swarm.schedule == PipelineSchedule::kTwoBufferedWeights) options.weight_versions = 2;
  const double window = narrow ? 1 : SessionOptions{}.window_per_replica;
  options.microbatches_in_flight =
      std::min(static_cast<std::int64_t>(window * static_cast<double>(stages)),
               options.weight_versions * (full.train.batch / full.train.microbatch));
  return options;
}

CostModel::CostModel(const JobSpec& spec, CostOptions options, std::optional<EndCosts> ends)
    : options_(options) {
  const JobSpec full = with_derived_fields(spec);
  const ModelSpec& m = full.model;
  SHOAL_CHECK(m.layers > 0 && m.hidden > 0 && options.microbatches_in_flight > 0);
  hidden_ = m.hidden;
  vectors_ = training_vectors(full);
  shared_vectors_ = shared_vectors(full);
  moments_travel_ = full.train.join == JoinMoments::kMoments &&
                    full.sync.algorithm != SyncAlgorithm::kDdp;  // its moments are shared
  whole_recomputes_ = full.swarm.recompute == Recompute::kRecompute;
  tokens_ = full.train.microbatch * m.context;
  boundary_bytes_ = boundary_bytes_of(options.codec, m.hidden);
  units_.push_back(embedding(m));
  units_.insert(units_.end(), static_cast<std::size_t>(m.layers), block(m));
  units_.push_back(head(m));
  if (ends) {
    units_.front().forward_flops = ends->embedding * units_[1].forward_flops;
    units_.back().forward_flops = ends->head * units_[1].forward_flops;
  }
  if (full.train.optimizer == Optimizer::kMuon) {
    muon_workspace_ = kMuonWorkspace * m.hidden * std::max({m.hidden, query_width(m), m.ffn});
  }
  matrix_sum_ = {0};
  flops_sum_ = activation_sum_ = {0};
  parameter_sum_ = {0};
  for (const UnitCost& unit : units_) {
    flops_sum_.push_back(flops_sum_.back() + unit.forward_flops);
    activation_sum_.push_back(activation_sum_.back() + unit.activation_values);
    parameter_sum_.push_back(parameter_sum_.back() + unit.parameters);
    matrix_sum_.push_back(matrix_sum_.back() + unit.matrix_parameters);
  }
}

double CostModel::forward_flops(UnitRange range) const {
  return flops_sum_[range.last] - flops_sum_[range.first];
}

double CostModel::backward_flops(UnitRange range) const {
  return forward_flops(range) * (options_.recompute == Recompute::kRecompute ? 3 : 2);
}

std::int64_t CostModel::parameters(UnitRange range) const {
  return parameter_sum_[range.last] - parameter_sum_[range.first];
}

std::int64_t CostModel::without_second_moment(UnitRange range) const {
  return muon_workspace_ > 0 ? matrix_sum_[range.last] - matrix_sum_[range.first] : 0;
}

// Values of one microbatch, per token. A whole model recomputes block by block and keeps the inputs
// of all blocks; a stage recomputes all its blocks at once.
double CostModel::activations_of(UnitRange range) const {
  const double all = activation_sum_[range.last] - activation_sum_[range.first];
  if (range != whole() || !whole_recomputes_) return all;
  const double one = unit(1).activation_values;
  return all - static_cast<double>(blocks()) * (one - static_cast<double>(hidden_)) + one;
}

Bytes CostModel::memory(UnitRange range) const {
  const auto tokens = static_cast<double>(tokens_);
  const double activations = tokens * activations_of(range);
  const double stash = options_.recompute == Recompute::kRecompute
                           ? tokens * static_cast<double>(hidden_)
                           : activations;
  const std::int64_t in_flight = range == whole() ? 1 : options_.microbatches_in_flight;
  const std::int64_t versions = range == whole() ? 1 : options_.weight_versions;
  const double vectors = vectors_ + 2 * static_cast<double>(versions - 1);
  const std::int64_t spared = without_second_moment(range);
  const std::int64_t muon = spared > 0 ? muon_workspace_ - spared : 0;
  const double values = static_cast<double>(parameters(range)) * vectors +
                        static_cast<double>(muon) + activations +
                        static_cast<double>(in_flight - 1) * stash;
  return Bytes(static_cast<std::int64_t>(std::min(values * kFloatBytes, kMostBytes)));
}

Bytes CostModel::state_bytes(UnitRange range) const {
  const std::int64_t moments = 2 * parameters(range) - without_second_moment(range);
  return Bytes((shared_vectors_ * parameters(range) + (moments_travel_ ? moments : 0)) * 4);
}

}  // namespace shoal::swarm
