// Whether this host reaches the object store of checkpoints, learned from how its transfers end.
// Where nothing moves between them, the store may be down, or only unreachable from this host: the
// host cannot tell which. For kCarriedFor the coordinator is then asked to carry the files. When
// nothing moves there either, the store is tried again.
//
// Threads: all functions may be called by any thread.
#pragma once

#include <atomic>
#include <optional>

#include "base/result.h"
#include "base/time.h"

namespace shoal::agent {

class StoreReach {
 public:
  static constexpr Duration kCarriedFor = seconds(600);  // then the store is tried again

  struct Transfer {
    bool direct = true;           // with the store, not through the coordinator
    bool moved = false;           // something, in this try
    bool stalled = false;         // cancelled because nothing moved any more
    std::optional<Code> failure;  // none: all was sent or received
  };

  bool is_direct(Instant now) const { return now >= carried_until_.load(); }
  // True: from now on the coordinator carries the files.
  bool learn(const Transfer& ended, Instant now);

 private:
  std::atomic<Instant> carried_until_{Instant()};
};

}  // namespace shoal::agent
