// When sessions have something due: a priority queue by time. The watcher of the sessions visits
// these alone, because of a thousand idle ones none has anything due. A visit that has nothing to
// do is harmless, so none is taken back. Each session has few: its hello, the hold of its reads,
// the end of a measurement. Pure. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "coordinator/core/state/io.h"

namespace shoal::coordinator {

class VisitQueue {
 public:
  using Clock = std::chrono::steady_clock;

  void add(ConnectionId session, Clock::time_point at) { visits_.emplace(at, session); }

  // Those due now, the earliest first; a session may be among them several times.
  std::vector<ConnectionId> take(Clock::time_point now) {
    std::vector<ConnectionId> due;
    for (; !visits_.empty() && visits_.top().first <= now; visits_.pop()) {
      due.push_back(visits_.top().second);
    }
    return due;
  }

  std::size_t size() const { return visits_.size(); }

 private:
  using Visit = std::pair<Clock::time_point, ConnectionId>;
  std::priority_queue<Visit, std::vector<Visit>, std::greater<>> visits_;
};

}  // namespace shoal::coordinator
