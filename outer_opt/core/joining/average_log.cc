// See average_log.h.
#include "outer_opt/core/joining/average_log.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kSegmentValues = 1 << 11;  // a joiner gets whole ones
static_assert(kSegmentValues % kCodecRun == 0);

std::size_t size_of(const std::vector<AverageSegment>& segments) {
  std::size_t bytes = 0;
  for (const AverageSegment& segment : segments) bytes += segment.values.bytes.size();
  return bytes;
}

std::vector<AverageSegment> encode_segments(CodecKind codec, const OwnedRuns& owned,
                                            const ReadAverage& average) {
  std::vector<AverageSegment> segments;
  std::array<float, kSegmentValues> scratch;
  for (const ValueRange& run : owned) {
    for (std::int64_t done = 0; done < run.count; done += kSegmentValues) {
      const std::int64_t first = run.first + done;
      const std::int64_t count = std::min(kSegmentValues, run.count - done);
      const auto values = std::span(scratch).first(static_cast<std::size_t>(count));
      average(first, values);
      segments.push_back({first, count, encode_exactly(codec, values)});
    }
  }
  return segments;
}

}  // namespace

ValueRange packed_range(const Fragment& fragment, const ValueRange& run) {
  ValueRange packed;
  std::int64_t before = 0;
  for (const ValueRange& range : fragment) {
    const std::int64_t first = std::max(range.first, run.first);
    const std::int64_t end = std::min(range.first + range.count, run.first + run.count);
    if (first < end) {
      if (packed.count == 0) packed.first = before + first - range.first;
      packed.count += end - first;
    }
    before += range.count;
  }
  return packed;
}

void AverageLog::add(const StepTerms& terms, const Fragment& fragment, CodecKind codec,
                     const OwnedRuns& owned, const ReadAverage& average) {
  const OwnedRuns whole = {{0, value_count(fragment)}};
  Round round{terms, fragment, codec,
              encode_segments(codec, owned.empty() ? whole : owned, average)};
  round.bytes = size_of(round.segments);
  push(std::move(round));
}

void AverageLog::add_empty(RoundNumber round) {
  Round empty;
  empty.terms.round = round;
  push(std::move(empty));
}

void AverageLog::push(Round round) {
  if (!rounds_.empty() && round.terms.round != rounds_.back().terms.round + 1) clear();
  bytes_ += round.bytes;
  rounds_.push_back(std::move(round));
  while (bytes_ > limit_ && !rounds_.empty()) {
    bytes_ -= rounds_.front().bytes;
    rounds_.pop_front();
  }
}

void AverageLog::clear() {
  rounds_.clear();
  bytes_ = 0;
}

bool AverageLog::follows(RoundNumber round) const {
  return !rounds_.empty() && round + 1 >= rounds_.front().terms.round &&
         round <= rounds_.back().terms.round;
}

std::vector<AverageSlice> AverageLog::after(RoundNumber round, const ValueRange& run,
                                            std::size_t enough) const {
  SHOAL_CHECK(follows(round) && round < rounds_.back().terms.round, "rounds that are not kept");
  std::vector<AverageSlice> slices;
  std::size_t bytes = 0;
  for (auto i = static_cast<std::size_t>(round + 1 - rounds_.front().terms.round);
       i < rounds_.size() && (slices.empty() || bytes < enough); ++i) {
    slices.push_back(slice_of(rounds_[i], run));
    bytes += size_of(slices.back().segments);
  }
  return slices;
}

AverageSlice AverageLog::slice_of(const Round& round, const ValueRange& run) const {
  AverageSlice slice{round.terms, round.fragment.empty(), round.codec, {}};
  const ValueRange packed = packed_range(round.fragment, run);
  if (packed.count == 0) return slice;
  const std::int64_t end = packed.first + packed.count;
  auto segment = std::ranges::partition_point(
      round.segments, [&](const AverageSegment& s) { return s.first + s.count <= packed.first; });
  for (; segment != round.segments.end() && segment->first < end; ++segment) {
    slice.segments.push_back(*segment);
  }
  return slice;
}

}  // namespace shoal::outer_opt
