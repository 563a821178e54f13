// Events of the pipeline simulator in a 4-ary heap, ordered by time, then by the order of
// scheduling. Plain values of 32 bytes: millions per second are the point.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace shoal::sim::swarm {

enum class EventKind : std::uint8_t {
  kForwardArrives,
  kBackwardArrives,
  kComputed,
  kCredit,
  kAnswer,
  kStepOpens,
  kDeath,
  kDetected,
  kReturns,
  kReady,  // a download is done
  kRebalance,
  kTimeout,
  kRetry,
};

struct Event {
  std::int64_t at_ns;
  std::uint32_t order;      // set by the heap
  std::int32_t microbatch;  // or an incarnation, or an index into the trace
  std::int32_t agent;       // it has one replica at a time
  std::uint32_t serial;     // of the attempt; an event of an older one is from the past
  std::uint8_t stage;
  EventKind kind;
};

class EventHeap {
 public:
  bool empty() const { return heap_.empty(); }
  void push(Event event) {
    event.order = next_++;
    heap_.push_back(event);
    std::size_t at = heap_.size() - 1;
    while (at > 0 && before(event, heap_[(at - 1) / 4])) {
      heap_[at] = heap_[(at - 1) / 4];
      at = (at - 1) / 4;
    }
    heap_[at] = event;
  }
  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    std::size_t at = 0;
    for (std::size_t child = 1; child < size; child = 4 * at + 1) {
      const std::size_t end = child + 4 < size ? child + 4 : size;
      std::size_t least = child;
      for (std::size_t i = child + 1; i < end; ++i) {
        if (before(heap_[i], heap_[least])) least = i;
      }
      if (!before(heap_[least], last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    if (size > 0) heap_[at] = last;
    return first;
  }

 private:
  static bool before(const Event& a, const Event& b) {
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns
                              : static_cast<std::int32_t>(a.order - b.order) < 0;
  }
  std::vector<Event> heap_;
  std::uint32_t next_ = 0;  // may wrap: only neighbors in time are compared
};

}  // namespace shoal::sim::swarm
