// Where a session puts the average of a plan at a member that keeps all of it: as fp32 values, or
// as the frames that carried it. Frames are the codec's bytes per value in place of four, and every
// owner decodes what it has encoded (average_encoder.h), so they give back the average bit for bit.
//
// Frames lie in the order of the parts, and within a part in the order of the vector. Pure;
// thread-safe as far as const.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "outer_opt/core/reduce/spare_values.h"
#include "outer_opt/core/round/reduce_plan.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::outer_opt {

// The memory is the caller's, and outlives the session.
struct AverageRoom {
  AverageRoom() = default;
  AverageRoom(std::span<float> all) : values(all) {}
  AverageRoom(std::vector<float>& all) : values(all) {}

  static AverageRoom for_frames(std::span<std::byte> all, SpareValues& sums) {
    AverageRoom room;
    room.frames = all;
    room.sums = &sums;
    return room;
  }
  bool keeps_frames() const { return !frames.empty(); }

  std::span<float> values;      // plan.value_count, a reducer's those of its part; or
  std::span<std::byte> frames;  // AverageFrames::bytes(), and beside it
  SpareValues* sums = nullptr;  // for sums of frames that are under way
};

class AverageFrames {
 public:
  // Whether an average of this plan can be kept so: a butterfly's in a dense codec other than fp32,
  // whose parts cover the vector in order, with frames of a size that sessions accept.
  static bool suit(const ReducePlan& plan, std::int64_t frame_values);

  // suit() must hold. Frames have `frame_values` values, the last one of a part what is left.
  AverageFrames(const ReducePlan& plan, std::int64_t frame_values);

  std::size_t bytes() const { return bytes_; }
  // All frames of a part, as bytes of `all`, which are those of the average.
  std::span<std::byte> part(std::span<std::byte> all, std::size_t part) const;
  // Hands the values of the range to `use`, run after run of at most kRunValues in order. Bytes
  // that are no values of the codec, because memory has lost them, become NaN.
  using Use = std::function<void(std::int64_t first, std::span<const float> run)>;
  void visit(std::span<const std::byte> all, const ValueRange& range, const Use& use) const;

 private:
  struct Part {
    std::int64_t first = 0, count = 0;
    std::size_t at = 0, bytes = 0;
  };

  std::size_t encoded(std::int64_t values) const;
  ValueRange run_at(const Part& part, std::int64_t first, std::int64_t end) const;
  void decode(std::span<const std::byte> all, const Part& part, const ValueRange& run,
              std::span<float> out) const;

  CodecKind codec_;
  std::int64_t frame_values_;
  std::vector<Part> parts_;  // of every member, empty ones too
  std::size_t bytes_ = 0;
};

}  // namespace shoal::outer_opt
