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

void OuterVectors::read_average(std::int64_t first, std::span<float> out) const {
  visit_average({first, std::ssize(out)}, [&](std::int64_t at, std::span<const float> run) {
    std::ranges::copy(run, out.begin() + (at - first));
  });
}

HostVectors::HostVectors(std::int64_t value_count)
    : contribution_(static_cast<std::size_t>(value_count)) {}

// ---- the average

std::span<float> HostVectors::use_memory(std::size_t floats) {
  if (memory_.size() < floats) {
    memory_ = {};  // what it held is not needed any more
    memory_.resize(floats);
  }
  used_ = floats;
  return average_memory();
}

std::span<float> HostVectors::values_for_average(std::int64_t values) {
  frames_.reset();
  return use_memory(static_cast<std::size_t>(values));
}

outer_opt::AverageRoom HostVectors::room_for_average(const ReducePlan& plan,
                                                     std::int64_t frame_values, bool frames) {
  if (!frames || !outer_opt::AverageFrames::suit(plan, frame_values)) {
    return values_for_average(plan.value_count);
  }
  frames_.emplace(plan, frame_values);
  const std::span<float> memory =
      use_memory((frames_->bytes() + sizeof(float) - 1) / sizeof(float));
  memory.back() = 0;
  return outer_opt::AverageRoom::for_frames(std::as_writable_bytes(memory).first(frames_->bytes()));
}

std::span<const std::byte> HostVectors::frame_bytes() const {
  return std::as_bytes(std::span(memory_).first(used_)).first(frames_->bytes());
}

void HostVectors::visit_average(const outer_opt::ValueRange& range, const Use& use) const {
  if (frames_) return frames_->visit(frame_bytes(), range, use);
  use(range.first, std::span(memory_).subspan(static_cast<std::size_t>(range.first),
                                              static_cast<std::size_t>(range.count)));
}

// ---- a round

Result<outer_opt::VectorStatistics> HostVectors::take_contribution(
    const OuterAlgorithm& algorithm, const LocalParameters& local, const OuterState& state,
    const outer_opt::Fragment& fragment) {
  const std::span<float> own = packed(std::span(contribution_), fragment);
  const std::int64_t beside = algorithm.contribution(local, state, fragment, own);
  outer_opt::VectorStatistics statistics = outer_opt::statistics_of(own);
  statistics.nonfinite += beside;
  return statistics;
}

Status HostVectors::step(OuterAlgorithm& algorithm, const outer_opt::StepTerms& terms,
                         const outer_opt::Fragment& fragment, OuterState& state) {
  algorithm.begin_step(state);
  std::int64_t packed = 0;
  for (const outer_opt::ValueRange& range : fragment) {
    visit_average({packed, range.count}, [&](std::int64_t first, std::span<const float> run) {
      const outer_opt::ValueRange place{range.first + first - packed, std::ssize(run)};
      algorithm.step(terms, place, run, state);
    });
    packed += range.count;
  }
  return {};
}

Status HostVectors::read(std::int64_t first, std::span<float> contribution,
                         std::span<float> average) {
  std::copy_n(contribution_.begin() + first, contribution.size(), contribution.begin());
  read_average(first, average);
  return {};
}

Status HostVectors::adopt(const outer_opt::Fragment& fragment, double blend,
                          const OuterState& state, LocalParameters& local) {
  const bool whole = outer_opt::value_count(fragment) == local.value_count();
  if (blend == 0 && whole) {
    local.write_parameters(state.anchor);
    return {};
  }
  local.change_parameters([&](std::int64_t first, std::span<float> run) {
    const outer_opt::ValueRange place{first, std::ssize(run)};
    outer_opt::adopt(outer_opt::part_in(place, fragment), blend,
                     std::span(state.anchor).subspan(static_cast<std::size_t>(first), run.size()),
                     run);
  });
  return {};
}

}  // namespace shoal::replica
