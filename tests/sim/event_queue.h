// Virtual time: a queue of closures ordered by (instant, sequence number). Nothing runs in parallel
// and nothing reads a clock, so one seed is one history. Two events of the same instant run in the
// order in which they were scheduled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace shoal::sim {

class EventQueue {
 public:
  explicit EventQueue(Instant start) : now_(start) {}

  const Instant& now() const { return now_; }
  std::int64_t executed() const { return executed_; }
  bool empty() const { return heap_.empty(); }
  Instant next_at() const { return heap_.front().at; }

  void at(Instant when, std::function<void()> run) {
    heap_.push_back({when < now_ ? now_ : when, ++sequence_, std::move(run)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  void after(Duration delay, std::function<void()> run) { at(now_ + delay, std::move(run)); }

  void run_one() {
    SHOAL_CHECK(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.at;
    ++executed_;
    event.run();
  }

 private:
  struct Event {
    Instant at;
    std::uint64_t sequence;
    std::function<void()> run;
  };
  static bool later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }
  Instant now_;
  std::uint64_t sequence_ = 0;
  std::int64_t executed_ = 0;
  std::vector<Event> heap_;
};

}  // namespace shoal::sim
