// See outer_state.h.
#include "trainer/plain/outer_state.h"

#include <utility>

#include "base/check.h"
#include "outer_opt/core/round/groups.h"
#include "outer_opt/core/step/nesterov.h"
#include "outer_opt/core/step/shared_adamw.h"
#include "trainer/plain/schedule.h"

namespace shoal::trainer {
namespace {

template <typename Value>
std::span<Value> part(std::span<Value> values, const DecayRange& range) {
  return values.subspan(static_cast<std::size_t>(range.first),
                        static_cast<std::size_t>(range.count));
}

void take_adamw_step(const TrainSpec& train, const RoundKey& key,
                     std::span<const DecayRange> ranges, std::span<const float> gradient,
                     OuterState& state) {
  outer_opt::SharedAdamWOptions options;
  options.lr = learning_rate(train, Steps(key.round - 1));
  options.weight_decay = train.weight_decay;
  options.beta1 = train.beta1, options.beta2 = train.beta2;
  options.eps = kAdamEps;
  options.clip = train.clip;
  options.norm = outer_opt::gradient_norm(gradient);
  options.step = OuterState::adam_step(key);
  for (const DecayRange& range : ranges) {
    outer_opt::shared_adamw_step(outer_opt::shared_adamw(options, range.decays),
                                 part(gradient, range), part(std::span(state.anchor), range),
                                 part(std::span(state.adam_m), range),
                                 part(std::span(state.adam_v), range));
  }
}

}  // namespace

OuterState zero_outer_state(const SyncSpec& sync, std::int64_t value_count) {
  const auto count = static_cast<std::size_t>(value_count);
  OuterState state;
  state.anchor.resize(count);
  if (sync.algorithm == SyncAlgorithm::kDdp) {
    state.adam_m.resize(count);
    state.adam_v.resize(count);
  } else if (sync.outer_state == shoal::OuterState::kReplicated) {
    state.momentum.resize(count);
  }
  return state;
}

Digest momentum_digest(const OuterState& state) {
  if (!state.shares_adam() && state.momentum.empty()) return {};
  if (!state.shares_adam()) return digest_of(std::span<const float>(state.momentum));
  Digester d;
  d.add(std::as_bytes(std::span(state.adam_m))).add(std::as_bytes(std::span(state.adam_v)));
  return d.finish();
}

void take_outer_step(const JobSpec& spec, const CommitRound& commit,
                     std::span<const DecayRange> ranges, const outer_opt::Fragment& fragment,
                     std::span<const float> average, OuterState& state) {
  SHOAL_CHECK(spec.sync.algorithm != SyncAlgorithm::kNone);
  if (state.shares_adam()) return take_adamw_step(spec.train, commit.key, ranges, average, state);
  if (outer_opt::averages_in_groups(spec.sync)) {
    const outer_opt::GroupStep step = outer_opt::group_step_for(spec.sync, commit.outer_lr);
    return outer_opt::group_step(step, average, state.momentum, state.anchor);
  }
  const OuterSpec outer{commit.outer_lr, spec.sync.outer.momentum};
  if (spec.sync.outer_state == shoal::OuterState::kSharded) {
    state.shards.follow(outer, average);
    return outer_opt::apply_step(average, state.anchor);
  }
  if (spec.sync.algorithm == SyncAlgorithm::kAsync) {
    return outer_opt::delayed_nesterov_step(outer, {commit.share, commit.decay, commit.push},
                                            average, state.momentum, state.anchor);
  }
  outer_opt::nesterov_step(outer, fragment, average, state.momentum, state.anchor);
}

void group_input(const JobSpec& spec, ReplicaId self, const OuterState& state,
                 std::span<float> pseudo_gradient, ReducePlan& plan) {
  const outer_opt::GroupStep step = outer_opt::group_step_for(spec.sync, plan.outer_lr);
  for (ReduceMember& member : plan.members) {
    const double clip = std::exchange(member.clip_factor, 1.0);
    if (member.replica != self) continue;
    outer_opt::make_group_input(step, clip, state.anchor, pseudo_gradient);
  }
}

}  // namespace shoal::trainer
