// The one way into the thread that owns the core: a bounded queue. A full queue makes the poster
// wait, which is how back-pressure reaches the sockets; one that stays full means that the core's
// thread hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "agent/core/io.h"
#include "base/check.h"

namespace shoal::agent {

class InputQueue {
 public:
  // Any thread. Dropped after close().
  void post(Input input) {
    std::unique_lock guard(mutex_);
    const bool room =
        not_full_.wait_for(guard, kPostLimit, [this] { return closed_ || inputs_.size() < kMax; });
    SHOAL_CHECK(room, "the agent's core has not taken an input for a minute");
    if (closed_) return;
    inputs_.push_back(std::move(input));
    guard.unlock();
    not_empty_.notify_one();
  }

  // The next input; nothing when `until` passes first.
  std::optional<Input> take(std::optional<std::chrono::steady_clock::time_point> until) {
    std::unique_lock guard(mutex_);
    const auto some = [this] { return !inputs_.empty(); };
    if (!until) {
      not_empty_.wait(guard, some);
    } else if (!not_empty_.wait_until(guard, *until, some)) {
      return std::nullopt;
    }
    Input input = std::move(inputs_.front());
    inputs_.pop_front();
    guard.unlock();
    not_full_.notify_one();
    return input;
  }

  void close() {
    {
      const std::lock_guard guard(mutex_);
      closed_ = true;
      inputs_.clear();
    }
    not_full_.notify_all();
  }

 private:
  static constexpr std::size_t kMax = 4096;
  static constexpr std::chrono::seconds kPostLimit{60};
  std::mutex mutex_;
  std::condition_variable not_empty_, not_full_;
  std::deque<Input> inputs_;
  bool closed_ = false;
};

}  // namespace shoal::agent
