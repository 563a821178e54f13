// The buffers of a node's reduces, from one to the next: a reduce that begins with those of the one
// before has no page faults. Between two of them the system may take their memory.
//
// Thread-safe.
#pragma once

#include <vector>

#include "outer_opt/transport/frame_message.h"
#include "threads/mutex.h"

namespace shoal::outer_opt {

class SpareBuffers {
 public:
  std::vector<Buffer> take() SHOAL_EXCLUDES(mutex_);  // all that are there
  // Keeps at most 64 MiB, of all that were given back.
  void give_back(std::vector<Buffer> buffers) SHOAL_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<Buffer> buffers_ SHOAL_GUARDED_BY(mutex_);
  std::size_t bytes_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal::outer_opt
