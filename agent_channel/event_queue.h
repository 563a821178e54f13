// The one way into the compute thread of a process that an agent started: commands from the agent
// (bounded; a full queue holds back the stream) and the few events of the process's own threads
// (never held back: at most one each is under way, and a thread that the compute thread waits for
// must not wait for it). Event is a variant with ToTrainer among its alternatives.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "base/time.h"
#include "messages/trainer_messages.h"
#include "threads/mutex.h"

namespace shoal::agent_channel {

struct StreamEnded {};  // the agent is gone, and no other one has connected

template <typename Event>
class EventQueue {
 public:
  explicit EventQueue(std::size_t commands_max) : commands_max_(commands_max) {}

  // Waits while `commands_max` events are queued; gives up (false) when the queue is closed.
  bool push_command(ToTrainer command) {
    const MutexLock lock(mutex_);
    changed_.wait(
        mutex_, [&]() SHOAL_REQUIRES(mutex_) { return closed_ || events_.size() < commands_max_; });
    if (closed_) return false;
    events_.emplace_back(std::move(command));
    changed_.notify_all();
    return true;
  }

  void push(Event event) {
    const MutexLock lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  std::optional<Event> pop(Duration wait) {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, std::chrono::nanoseconds(wait.ns),
                      [&]() SHOAL_REQUIRES(mutex_) { return !events_.empty(); });
    if (events_.empty()) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    changed_.notify_all();
    return event;
  }

  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const std::size_t commands_max_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Event> events_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::agent_channel
