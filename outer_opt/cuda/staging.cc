// See staging.h.
#include "outer_opt/cuda/staging.h"

#include <algorithm>
#include <utility>

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kTermsMax = 2;  // of a Work: a peer's contribution and the own one

template <typename T>
Status get(Accelerator& device, MemoryKind kind, std::size_t count, DeviceMemory<T>& out) {
  auto memory = DeviceMemory<T>::allocate(device, kind, count);
  if (!memory) return memory.error();
  out = std::move(*memory);
  return {};
}

Status get(Accelerator& device, std::unique_ptr<DeviceQueue>& out) {
  auto queue = device.make_queue();
  if (!queue) return queue.error();
  out = std::move(*queue);
  return {};
}

}  // namespace

Result<std::unique_ptr<Lane>> LaneShelf::make(std::size_t frame_values) {
  auto lane = std::make_unique<Lane>();
  const std::size_t bytes = frame_values * sizeof(float);  // no dense codec takes more
  lane->frame_values = frame_values;
  for (const Status& got :
       {get(device_, MemoryKind::kPinned, bytes, lane->pinned_in),
        get(device_, MemoryKind::kPinned, bytes, lane->pinned_out),
        get(device_, MemoryKind::kPinned, frame_values, lane->pinned_values),
        get(device_, MemoryKind::kPinned, 1, lane->pinned_flags),
        get(device_, MemoryKind::kPinned, kTermsMax * cuda::kStatisticsParts,
            lane->pinned_statistics),
        get(device_, MemoryKind::kDevice, kTermsMax * cuda::kStatisticsParts, lane->statistics),
        get(device_, MemoryKind::kDevice, bytes, lane->encoded),
        get(device_, MemoryKind::kDevice, bytes, lane->coded),
        get(device_, MemoryKind::kDevice, frame_values, lane->decoded),
        get(device_, MemoryKind::kDevice, 1, lane->flags), get(device_, lane->queue)}) {
    if (!got) return got.error();
  }
  return lane;
}

Result<std::unique_ptr<Lane>> LaneShelf::take(std::size_t frame_values) {
  {
    const MutexLock lock(mutex_);
    std::erase_if(idle_, [&](const auto& lane) { return lane->frame_values < frame_values; });
    if (!idle_.empty()) {
      auto lane = std::move(idle_.back());
      idle_.pop_back();
      return lane;
    }
  }
  return make(frame_values);
}

void LaneShelf::give_back(std::unique_ptr<Lane> lane) {
  const MutexLock lock(mutex_);
  idle_.push_back(std::move(lane));
}

Result<std::unique_ptr<Ferry>> Ferry::create(Accelerator& device) {
  auto ferry = std::make_unique<Ferry>();
  for (Side& side : ferry->sides_) {
    for (const Status& got :
         {get(device, MemoryKind::kPinned, kPiece, side.pinned), get(device, side.queue)}) {
      if (!got) return got.error();
    }
  }
  return ferry;
}

// One side is filled while the device takes the other.
Status Ferry::upload(std::span<const float> from, float* to) {
  for (std::size_t at = 0, turn = 0; at < from.size(); at += kPiece, ++turn) {
    Side& side = sides_[turn % 2];
    if (Status free = side.queue->wait(); !free) return free;
    const auto piece = from.subspan(at, std::min(kPiece, from.size() - at));
    std::copy(piece.begin(), piece.end(), side.pinned.data());
    side.queue->upload(side.pinned.data(), piece.size_bytes(), to + at);
  }
  for (Side& side : sides_) {
    if (Status done = side.queue->wait(); !done) return done;
  }
  return {};
}

// One side is emptied while the device fills the other.
Status Ferry::download(const float* from, std::span<float> to) {
  const std::size_t pieces = (to.size() + kPiece - 1) / kPiece;
  for (std::size_t i = 0; i < pieces + 1; ++i) {
    if (i < pieces) {
      const std::size_t count = std::min(kPiece, to.size() - i * kPiece);
      sides_[i % 2].queue->download(from + i * kPiece, count * sizeof(float),
                                    sides_[i % 2].pinned.data());
    }
    if (i == 0) continue;
    Side& full = sides_[(i - 1) % 2];
    if (Status done = full.queue->wait(); !done) return done;
    const auto piece = to.subspan((i - 1) * kPiece, std::min(kPiece, to.size() - (i - 1) * kPiece));
    std::copy_n(full.pinned.data(), piece.size(), piece.begin());
  }
  return {};
}

}  // namespace shoal::outer_opt
