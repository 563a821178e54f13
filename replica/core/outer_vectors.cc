// See outer_vectors.h.
#include "replica/core/outer_vectors.h"

#include <algorithm>

namespace shoal::replica {
namespace {

template <typename T>
std::span<T> packed(std::span<T> values, const outer_opt::Fragment& fragment) {
  return values.first(static_cast<std::size_t>(outer_opt::value_count(fragment)));
}

}  // namespace

HostVectors::HostVectors(std::int64_t value_count)
    : contribution_(static_cast<std::size_t>(value_count)), average_(contribution_.size()) {}

Result<outer_opt::VectorStatistics> HostVectors::take_contribution(
    const OuterAlgorithm& algorithm, const LocalParameters& local, const OuterState& state,
    const outer_opt::Fragment& fragment) {
  const std::span<float> own = packed(std::span(contribution_), fragment);
  algorithm.contribution(local, state, fragment, own, average_);
  outer_opt::VectorStatistics statistics = outer_opt::statistics_of(own);
  if (own.size() < contribution_.size()) {
    statistics.nonfinite += outer_opt::count_nonfinite(average_);
  }
  return statistics;
}

Status HostVectors::step(OuterAlgorithm& algorithm, const CommitRound& commit,
                         const outer_opt::Fragment& fragment, OuterState& state) {
  algorithm.step(commit, fragment, packed(std::span(average_), fragment), state);
  return {};
}

Status HostVectors::read(std::int64_t first, std::span<float> contribution,
                         std::span<float> average) {
  std::copy_n(contribution_.begin() + first, contribution.size(), contribution.begin());
  std::copy_n(average_.begin() + first, average.size(), average.begin());
  return {};
}

Status HostVectors::adopt(const outer_opt::Fragment& fragment, double blend,
                          const OuterState& state, LocalParameters& local) {
  const bool whole = outer_opt::value_count(fragment) == local.value_count();
  if (blend == 0 && whole) {
    local.write_parameters(state.anchor);
    return {};
  }
  local.read_parameters(contribution_);
  outer_opt::adopt(fragment, blend, state.anchor, contribution_);
  local.write_parameters(contribution_);
  return {};
}

}  // namespace shoal::replica
