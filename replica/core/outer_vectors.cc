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

std::span<float> HostVectors::room_of(Room& room) const {
  if (!room) room = std::make_unique<float[]>(values_);
  return {room.get(), values_};
}

void HostVectors::rest() {
  contribution_.reset();
  average_.reset();
}

Result<outer_opt::VectorStatistics> HostVectors::take_contribution(
    const OuterAlgorithm& algorithm, const LocalParameters& local, const OuterState& state,
    const outer_opt::Fragment& fragment) {
  const std::span<float> own = packed(contribution(), fragment);
  const bool whole = own.size() == values_;
  const std::span<float> scratch = whole ? std::span<float>() : average();
  algorithm.contribution(local, state, fragment, own, scratch);
  outer_opt::VectorStatistics statistics = outer_opt::statistics_of(own);
  if (!whole) statistics.nonfinite += outer_opt::statistics_of(scratch).nonfinite;
  return statistics;
}

Status HostVectors::step(OuterAlgorithm& algorithm, const CommitRound& commit,
                         const outer_opt::Fragment& fragment, OuterState& state) {
  algorithm.step(commit, fragment, packed(average(), fragment), state);
  return {};
}

Status HostVectors::read(std::int64_t first, std::span<float> contribution,
                         std::span<float> average) {
  const auto copy = [first](std::span<const float> from, std::span<float> to) {
    std::ranges::copy(from.subspan(static_cast<std::size_t>(first), to.size()), to.begin());
  };
  copy(this->contribution(), contribution);
  copy(this->average(), average);
  return {};
}

Status HostVectors::adopt(const outer_opt::Fragment& fragment, double blend,
                          const OuterState& state, LocalParameters& local) {
  const bool whole = outer_opt::value_count(fragment) == local.value_count();
  if (blend == 0 && whole) {
    local.write_parameters(state.anchor);
    return {};
  }
  std::vector<float> values(state.anchor.size());
  local.read_parameters(values);
  outer_opt::adopt(fragment, blend, state.anchor, values);
  local.write_parameters(values);
  return {};
}

}  // namespace shoal::replica
