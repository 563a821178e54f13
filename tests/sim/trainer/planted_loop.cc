// See planted_loop.h.
#include "tests/sim/trainer/planted_loop.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {

PlantedLoop::PlantedLoop(Sim& sim, Prng& prng, replica::OuterLoopSetup setup,
                         replica::LocalParameters& local,
                         std::shared_ptr<replica::OuterState> state, const RoundKey& held)
    : OuterLoop(std::move(setup), local, std::move(state), held), sim_(sim), prng_(prng) {}

bool PlantedLoop::seldom(Bug bug) {
  return sim_.bug == bug && prng_.chance(0.1) && sim_.misbehave(bug);
}

void PlantedLoop::corrupt_average() {
  if (!seldom(Bug::kCorruptAverage)) return;
  std::vector<float> average(
      static_cast<std::size_t>(outer_opt::value_count(values_of(averaged_fragment()))));
  vectors().read_average(0, average);
  average[0] += 1.0f;
  std::ranges::copy(average, vectors().values_for_average(std::ssize(average)).begin());
}

bool PlantedLoop::settle_early(const outer_opt::ReduceInput& input) {
  if (input.encoded.empty() || !sim_.misbehave(Bug::kEagerFeedback)) return false;
  keep_unsent();
  return true;
}

void PlantedLoop::forget_anchor() {
  if (!sim_.misbehave(Bug::kForgottenAnchor)) return;
  const std::span<float> input = vectors().contribution();
  for (std::size_t i = 0; i < input.size(); ++i) input[i] -= state().anchor[i];
}

double PlantedLoop::share_in(const ReducePlan& plan) const {
  return OuterLoop::share_in(plan) * (sim_.misbehave(Bug::kOwnTwice) ? 2 : 1);
}

void PlantedLoop::skip_momentum() {
  for (auto& [name, values] : mutable_state().vectors) {
    const std::vector<float> nothing(values.size(), 0.0f);
    outer_opt::adopt(values_of(averaged_fragment()), 0, nothing, values);
  }
}

void PlantedLoop::leak_momentum() {
  for (auto& [name, values] : mutable_state().vectors) {
    const std::vector<float> right = values;
    for (float& value : values) value *= 0.5f;
    outer_opt::adopt(values_of(averaged_fragment()), 0, right, values);
  }
}

void PlantedLoop::take_step(const outer_opt::StepTerms& terms) {
  outer_opt::StepTerms told = terms;
  const bool has_momentum = !state().vectors.empty() && !state().shares_adam();
  if (has_momentum && seldom(Bug::kSkipMomentum)) skip_momentum();
  if (told.decay < 1 && seldom(Bug::kMissedRenewal)) told.decay = 1;
  OuterLoop::take_step(told);
  if (averaged_fragment() > 0 && sim_.misbehave(Bug::kLeakyFragment)) leak_momentum();
}

void PlantedLoop::move_with_anchor() {
  if (sim_.misbehave(Bug::kDroppedProgress)) {
    local().write_parameters(state().anchor);
  } else {
    OuterLoop::move_with_anchor();
  }
}

void PlantedLoop::take_back(std::span<float> local) {
  OuterLoop::take_back(local);
  if (sim_.misbehave(Bug::kForgetfulAbort)) {
    std::copy(state().anchor.begin(), state().anchor.end(), local.begin());
  }
}

void PlantedLoop::correct(std::span<float> local) {
  std::vector<float> right(local.begin(), local.end());
  OuterLoop::correct(right);
  if (!sim_.misbehave(Bug::kUncorrected)) std::copy(right.begin(), right.end(), local.begin());
}

void PlantedLoop::stay(bool counts) {
  OuterLoop::stay(counts && !sim_.misbehave(Bug::kForgottenProgress));
}

}  // namespace shoal::sim
