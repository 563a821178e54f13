// See average_frames.h.
#include "outer_opt/core/reduce/average_frames.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/codec_pieces.h"
#include "outer_opt/core/codec/frame.h"

namespace shoal::outer_opt {

bool AverageFrames::suit(const ReducePlan& plan, std::int64_t frame_values) {
  if (frame_values < 1 || frame_values > kFrameValuesMax) return false;
  const bool owned =
      plan.topology == Topology::kButterfly || plan.topology == Topology::kParamServer;
  const bool dense = std::ranges::find(kDenseCodecs, plan.codec) != kDenseCodecs.end();
  if (!owned || !dense || plan.codec == CodecKind::kFp32 || plan.value_count < 1) return false;
  std::int64_t at = 0;
  for (const ReduceMember& member : plan.members) {
    if (member.part_first != at || member.part_count < 0) return false;
    if (member.part_count > plan.value_count - at) return false;
    at += member.part_count;
  }
  return at == plan.value_count;
}

AverageFrames::AverageFrames(const ReducePlan& plan, std::int64_t frame_values)
    : codec_(plan.codec), frame_values_(frame_values) {
  SHOAL_CHECK(suit(plan, frame_values));
  for (const ReduceMember& member : plan.members) {
    const std::size_t size = encoded(member.part_count);
    parts_.push_back({member.part_first, member.part_count, bytes_, size});
    bytes_ += size;
  }
}

// The size of this many values at the beginning of a part.
std::size_t AverageFrames::encoded(std::int64_t values) const {
  const Codec& c = codec(codec_);
  const std::int64_t full = values / frame_values_;
  return static_cast<std::size_t>(full) * c.encoded_size(static_cast<std::size_t>(frame_values_)) +
         c.encoded_size(static_cast<std::size_t>(values - full * frame_values_));
}

std::span<std::byte> AverageFrames::part(std::span<std::byte> all, std::size_t part) const {
  SHOAL_CHECK(all.size() == bytes_);
  return all.subspan(parts_[part].at, parts_[part].bytes);
}

void AverageFrames::visit(std::span<const std::byte> all, const ValueRange& range,
                          const Use& use) const {
  SHOAL_CHECK(all.size() == bytes_);
  std::array<float, kRunValues> scratch;
  const std::int64_t end = range.first + range.count;
  std::int64_t first = range.first;
  auto part = std::ranges::partition_point(
      parts_, [&](const Part& p) { return p.first + p.count <= first; });
  for (; first < end; ++part) {
    SHOAL_CHECK(part != parts_.end(), "values beyond the average");
    while (first < std::min(end, part->first + part->count)) {
      const ValueRange run = run_at(*part, first, end);
      const auto values = std::span(scratch).first(static_cast<std::size_t>(run.count));
      decode(all, *part, run, values);
      const std::int64_t count = std::min(end, run.first + run.count) - first;
      use(first, values.subspan(static_cast<std::size_t>(first - run.first),
                                static_cast<std::size_t>(count)));
      first += count;
    }
  }
}

// The blocks from that of `first` to that of `end` that are decoded at once, all in one frame.
ValueRange AverageFrames::run_at(const Part& part, std::int64_t first, std::int64_t end) const {
  const std::int64_t in_part = first - part.first;
  const std::int64_t frame = in_part / frame_values_ * frame_values_;
  const std::int64_t run = frame + (in_part - frame) / kCodecRun * kCodecRun;
  const std::int64_t wanted = end - part.first - run;
  const std::int64_t blocks = (wanted + kCodecRun - 1) / kCodecRun * kCodecRun;
  const std::int64_t most = std::min(blocks, static_cast<std::int64_t>(kRunValues));
  const std::int64_t run_end = std::min({run + most, frame + frame_values_, part.count});
  return {part.first + run, run_end - run};
}

void AverageFrames::decode(std::span<const std::byte> all, const Part& part, const ValueRange& run,
                           std::span<float> out) const {
  const std::size_t begin = encoded(run.first - part.first);
  const std::size_t end = encoded(run.first - part.first + run.count);
  const Status sound = codec(codec_).decode(all.subspan(part.at + begin, end - begin), out);
  if (!sound.ok()) std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace shoal::outer_opt
