// Counts refusals (base/refusals.h). Thread-safe, and never waits.
#pragma once

#include <array>
#include <atomic>

#include "base/refusals.h"

namespace shoal {

class RefusalCounter {
 public:
  void count(RefusalReason reason) { ++by_reason_[static_cast<std::size_t>(reason)]; }
  RefusalCounts counts() const {
    RefusalCounts now;
    for (std::size_t i = 0; i < by_reason_.size(); ++i) now.by_reason[i] = by_reason_[i];
    return now;
  }

 private:
  std::array<std::atomic<std::int64_t>, enumerator_count<RefusalReason>()> by_reason_{};
};

}  // namespace shoal
