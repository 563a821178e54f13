// How values travel between the host and a device: through pinned memory, in pieces, so that one
// piece is copied while another is worked on. A lane is what one frame of a reduce needs, with a
// queue of its own; frames in different lanes overlap. LaneShelf keeps lanes from one attempt to
// the next, since pinned memory is slow to get.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "outer_opt/cuda/accelerator.h"
#include "threads/mutex.h"

namespace shoal::outer_opt {

// What can be wrong with a frame, as the device tells it.
struct FrameFlags {
  int payload = 0;  // the peer's
  int own = 0;      // the own values are not finite
  int average = 0;  // overflows
};

struct Lane {
  std::size_t frame_values = 0;  // at most
  DeviceMemory<std::byte> pinned_in, pinned_out;
  DeviceMemory<float> pinned_values;
  DeviceMemory<FrameFlags> pinned_flags;
  DeviceMemory<cuda::PartialStatistics>
      pinned_statistics;  // of each term of a work, as the next one
  // On the device. `coded` is what was encoded here, `decoded` values whose squares are summed.
  DeviceMemory<cuda::PartialStatistics> statistics;
  DeviceMemory<std::byte> encoded, coded;
  DeviceMemory<float> decoded;
  DeviceMemory<FrameFlags> flags;
  std::unique_ptr<DeviceQueue> queue;  // last: it ends before the memory that it uses
};

// Thread-safe. As many lanes as were in use at the same time.
class LaneShelf {
 public:
  explicit LaneShelf(Accelerator& device) : device_(device) {}

  // For frames of at most `frame_values` values.
  Result<std::unique_ptr<Lane>> take(std::size_t frame_values);
  void give_back(std::unique_ptr<Lane> lane);

 private:
  Result<std::unique_ptr<Lane>> make(std::size_t frame_values);

  Accelerator& device_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_ SHOAL_GUARDED_BY(mutex_);
};

// Whole vectors between pageable memory and the device. One thread at a time.
class Ferry {
 public:
  static Result<std::unique_ptr<Ferry>> create(Accelerator& device);
  Status upload(std::span<const float> from, float* to);
  Status download(const float* from, std::span<float> to);

 private:
  static constexpr std::size_t kPiece = 1 << 20;  // values

  struct Side {
    DeviceMemory<float> pinned;
    std::unique_ptr<DeviceQueue> queue;
  };
  Side sides_[2];
};

}  // namespace shoal::outer_opt
