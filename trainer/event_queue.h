// The one way into the compute thread: commands from the agent (bounded; a full queue holds back
// the stream) and the few events of the trainer's own threads (never held back: at most one each is
// under way, and a thread that the compute thread waits for must not wait for it).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <variant>

#include "base/result.h"
#include "base/time.h"
#include "outer_opt/transport/peer_node.h"
#include "swarm/core/messages.h"

namespace shoal::trainer {

// Work in the background ended; `work` is the number it was started with, older ones are ignored.
struct ReduceEnded {
  std::uint64_t work = 0;
  std::int32_t attempt = 0;
  outer_opt::ReduceResult result;
};
struct FetchEnded {
  std::uint64_t work = 0;
  Status status;
};
struct AdamWanted {};   // a joiner fetches our state and waits for the moments
struct Woken {};        // something arrived from a neighbour in the pipeline
struct StreamEnded {};  // the agent is gone

using Event = std::variant<ToTrainer, ReduceEnded, FetchEnded, AdamWanted, Woken, StreamEnded>;

class EventQueue {
 public:
  explicit EventQueue(std::size_t commands_max) : commands_max_(commands_max) {}

  // Waits while `commands_max` events are queued; gives up (false) when the queue is closed.
  bool push_command(ToTrainer command) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || events_.size() < commands_max_; });
    if (closed_) return false;
    events_.emplace_back(std::move(command));
    changed_.notify_all();
    return true;
  }

  void push(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  std::optional<Event> pop(Duration wait) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(wait.ns), [&] { return !events_.empty(); });
    if (events_.empty()) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    changed_.notify_all();
    return event;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const std::size_t commands_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  bool closed_ = false;
};

}  // namespace shoal::trainer
