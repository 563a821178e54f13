// See spare_buffers.h.
#include "outer_opt/transport/spare_buffers.h"

#include <utility>

#include "threads/idle_memory.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kBytesMax = std::size_t{64} << 20;

}  // namespace

std::vector<Buffer> SpareBuffers::take() {
  const MutexLock lock(mutex_);
  bytes_ = 0;
  return std::exchange(buffers_, {});
}

void SpareBuffers::give_back(std::vector<Buffer> buffers) {
  const MutexLock lock(mutex_);
  for (Buffer& buffer : buffers) {
    if (bytes_ + buffer.size() > kBytesMax) continue;
    forget_bytes(buffer);
    bytes_ += buffer.size();
    buffers_.push_back(std::move(buffer));
  }
}

}  // namespace shoal::outer_opt
