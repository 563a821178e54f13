// See outer_vectors.h.
#include "replica/core/outer_vectors.h"

#include <algorithm>

#include "outer_opt/core/codec/checksum.h"

namespace shoal::replica {
namespace {

// A block of a contribution that is read: much for a transfer from a device, little for the caches.
constexpr std::size_t kBlockValues = 1 << 16;

std::uint64_t checksum_of(std::span<const float> values) {
  outer_opt::RunningChecksum checksum;
  checksum.add(std::as_bytes(values));
  return checksum.value();
}

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
    : value_count_(static_cast<std::size_t>(value_count)) {}

// ---- the contribution

std::span<float> HostVectors::values_for_contribution() {
  local_ = nullptr;
  contribution_.resize(value_count_);
  return contribution_;
}

Result<outer_opt::VectorStatistics> HostVectors::take_contribution(const Boundary& boundary) {
  const auto& [algorithm, local, state, fragment, stands] = boundary;
  const bool whole = outer_opt::value_count(fragment) == local.value_count();
  if (!stands || !whole || !local.reads_parts()) {
    const std::span<float> own = packed(values_for_contribution(), fragment);
    const std::int64_t beside = algorithm.contribution(local, state, fragment, own);
    outer_opt::VectorStatistics statistics = outer_opt::statistics_of(own);
    statistics.nonfinite += beside;
    return statistics;
  }
  local_ = &local;
  anchor_ = state.anchor;
  contribution_ = std::vector<float>();
  outer_opt::RunningStatistics statistics;
  checksums_.resize((value_count_ + kBlockValues - 1) / kBlockValues);
  std::vector<float> room;
  for (std::size_t block = 0; block < checksums_.size(); ++block) {
    const std::span<const float> values = read_block(block, room);
    statistics.add(values);
    checksums_[block] = checksum_of(values);
  }
  return statistics.value();
}

std::span<const float> HostVectors::read_block(std::size_t block, std::vector<float>& room) const {
  const std::size_t first = block * kBlockValues;
  room.resize(std::min(kBlockValues, value_count_ - first));
  read_difference(static_cast<std::int64_t>(first), room);
  return room;
}

bool HostVectors::contribution_is_intact(const outer_opt::ValueRange& range) const {
  if (local_ == nullptr || range.count == 0) return true;
  std::vector<float> room;
  const auto last = static_cast<std::size_t>(range.first + range.count - 1) / kBlockValues;
  for (auto block = static_cast<std::size_t>(range.first) / kBlockValues; block <= last; ++block) {
    if (checksum_of(read_block(block, room)) != checksums_[block]) return false;
  }
  return true;
}

outer_opt::VectorSource HostVectors::contribution_source(std::int64_t values) {
  const auto count = static_cast<std::size_t>(values);
  if (local_ == nullptr) return std::span<const float>(contribution_).first(count);
  return {count, [this](std::int64_t first, std::span<float> out) { read_difference(first, out); }};
}

void HostVectors::read_difference(std::int64_t first, std::span<float> out) const {
  local_->read_part(first, out);
  const auto anchor = anchor_.subspan(static_cast<std::size_t>(first), out.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = anchor[i] - out[i];
}

// ---- the average

std::span<float> HostVectors::use_memory(std::size_t floats) {
  if (memory_.size() < floats) {
    memory_ = std::vector<float>();  // what it held is not needed any more
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
  return outer_opt::AverageRoom::for_frames(std::as_writable_bytes(memory).first(frames_->bytes()),
                                            sums_);
}

void HostVectors::visit_idle(const std::function<void(std::span<float>)>& use) {
  use(contribution_);
  use(average_memory());
  sums_.visit(use);
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
  if (!contribution.empty()) {
    contribution_source(static_cast<std::int64_t>(value_count_)).read(first, contribution);
  }
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
