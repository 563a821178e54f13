// See join_target.h.
#include "replica/core/join_target.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shoal::replica {

using outer_opt::HeldState;
using outer_opt::JoinShape;
using outer_opt::ValueRange;

namespace {

std::vector<std::span<const float>> vectors_of(const OuterState& state) {
  std::vector<std::span<const float>> vectors{state.anchor};
  for (const NamedVector& vector : state.vectors) vectors.emplace_back(vector.values);
  return vectors;
}

}  // namespace

HeldState held_state(const RoundKey& key, std::shared_ptr<const OuterState> state) {
  return {key, vectors_of(*state), std::move(state)};
}

JoinShape join_shape(const OuterAlgorithm& algorithm, const OuterState& state,
                     std::vector<outer_opt::Fragment> fragments, std::int64_t moments) {
  JoinShape shape;
  shape.mode = algorithm.join_mode();
  shape.values = std::ssize(state.anchor);
  shape.vectors = 1 + std::ssize(state.vectors);
  shape.moments = state.shares_adam() ? 0 : moments;
  shape.fragments = std::move(fragments);
  return shape;
}

void OuterStateTarget::place(const ValueRange& run, std::span<const float> values) {
  const auto count = static_cast<std::size_t>(run.count);
  const auto place_next = [&](std::vector<float>& vector) {
    std::ranges::copy(values.first(count), vector.begin() + run.first);
    values = values.subspan(count);
  };
  place_next(state_.anchor);
  for (NamedVector& vector : state_.vectors) place_next(vector.values);
}

void OuterStateTarget::follow(const outer_opt::StepTerms& terms, const ValueRange& run,
                              std::span<const float> average) {
  algorithm_.step(terms, run, average, state_);
}

Digest OuterStateTarget::digest_of(const ValueRange& run) const {
  return outer_opt::digest_of_piece(vectors_of(state_), run);
}

bool are_possible(const outer_opt::MomentsCopy& moments) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto square = [](float value) { return std::isfinite(value) && value >= 0; };
  return moments.step >= 0 && std::ranges::all_of(moments.first, finite) &&
         std::ranges::all_of(moments.second, square);
}

void OuterStateTarget::place_moments(std::int64_t first, std::span<const float> values) {
  if (moments_.is_open) {
    const auto begin = static_cast<std::size_t>(first);
    moments_.first.resize(std::max(moments_.first.size(), begin + values.size()));
    std::ranges::copy(values, moments_.first.begin() + first);
    return;
  }
  for (const float value : values) {
    const auto i = static_cast<std::size_t>(first++);
    const std::size_t firsts = moments_.first.size();
    (i < firsts ? moments_.first[i] : moments_.second[i - firsts]) = value;
  }
}

}  // namespace shoal::replica
