// Slices on memory of others, returned through the destroy callback that gRPC runs with the last
// reference.
#include "wire/slices.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"

namespace shoal::wire {

grpc::Slice SlicePins::pin(std::span<const std::byte> memory) {
  {
    const MutexLock lock(mutex_);
    ++out_;
  }
  // gRPC only reads it; its interface is not const.
  return grpc::Slice(const_cast<std::byte*>(memory.data()), memory.size(), &SlicePins::returned,
                     this);
}

int SlicePins::out() const {
  const MutexLock lock(mutex_);
  return out_;
}

bool SlicePins::wait_returned(Duration limit) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(mutex_, std::chrono::nanoseconds(limit.ns),
                           [&]() SHOAL_REQUIRES(mutex_) { return out_ == 0; });
}

void SlicePins::returned(void* pins) {
  auto* self = static_cast<SlicePins*>(pins);
  const MutexLock lock(self->mutex_);  // held while notifying: the owner may go right after
  if (--self->out_ == 0) self->changed_.notify_all();
}

bool Received::take(const grpc::ByteBuffer& buffer) {
  slices_.clear();
  if (!buffer.Valid() || !buffer.Dump(&slices_).ok()) return false;
  size_ = buffer.Length();
  return true;
}

void Received::copy_front(std::span<std::byte> out) const {
  SHOAL_CHECK(out.size() <= size_);
  std::size_t filled = 0;
  for (const grpc::Slice& slice : slices_) {
    const std::size_t n = std::min(out.size() - filled, slice.size());
    if (n > 0) std::memcpy(out.data() + filled, slice.begin(), n);
    filled += n;
  }
}

std::vector<std::span<const std::byte>> Received::pieces(std::size_t skip) const {
  std::vector<std::span<const std::byte>> result;
  for (const grpc::Slice& slice : slices_) {
    const std::size_t cut = std::min(skip, slice.size());
    skip -= cut;
    if (cut == slice.size()) continue;
    result.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()) + cut,
                        slice.size() - cut);
  }
  return result;
}

}  // namespace shoal::wire
