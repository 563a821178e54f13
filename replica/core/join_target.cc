// See join_target.h.
#include "replica/core/join_target.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace shoal::replica {

using outer_opt::HeldState;
using outer_opt::JoinShape;
using outer_opt::ValueRange;

HeldState held_state(const RoundKey& key, std::shared_ptr<const OuterState> state) {
  const OuterState& s = *state;
  return {key, s.anchor, s.momentum, s.adam_m, s.adam_v, std::move(state)};
}

JoinShape join_shape(const OuterAlgorithm& algorithm, const OuterState& state,
                     std::vector<outer_opt::Fragment> fragments, std::int64_t moments) {
  JoinShape shape;
  shape.mode = algorithm.join_mode();
  shape.values = std::ssize(state.anchor);
  const std::array vectors = {&state.anchor, &state.momentum, &state.adam_m, &state.adam_v};
  shape.vectors = std::ranges::count_if(vectors, [](const auto* v) { return !v->empty(); });
  shape.moments = state.shares_adam() ? 0 : moments;
  shape.fragments = std::move(fragments);
  return shape;
}

void OuterStateTarget::place(const ValueRange& run, std::span<const float> values) {
  const auto count = static_cast<std::size_t>(run.count);
  for (auto* vector : {&state_.anchor, &state_.momentum, &state_.adam_m, &state_.adam_v}) {
    if (vector->empty()) continue;
    std::ranges::copy(values.first(count), vector->begin() + run.first);
    values = values.subspan(count);
  }
}

void OuterStateTarget::follow(const outer_opt::StepTerms& terms, const ValueRange& run,
                              std::span<const float> average) {
  algorithm_.step(terms, run, average, state_);
}

Digest OuterStateTarget::digest_of(const ValueRange& run) const {
  const std::array<std::span<const float>, 4> vectors = {state_.anchor, state_.momentum,
                                                         state_.adam_m, state_.adam_v};
  return outer_opt::digest_of_piece(vectors, run);
}

bool are_possible(const outer_opt::MomentsCopy& moments) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto square = [](float value) { return std::isfinite(value) && value >= 0; };
  return moments.step >= 0 && std::ranges::all_of(moments.first, finite) &&
         std::ranges::all_of(moments.second, square);
}

void OuterStateTarget::place_moments(std::int64_t first, std::span<const float> values) {
  for (const float value : values) {
    const auto i = static_cast<std::size_t>(first++);
    const std::size_t firsts = moments_.first.size();
    (i < firsts ? moments_.first[i] : moments_.second[i - firsts]) = value;
  }
}

}  // namespace shoal::replica
