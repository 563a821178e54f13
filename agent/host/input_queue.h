// The one way into the thread that owns the core: a bounded queue. A full queue makes the poster
// wait, which is how back-pressure reaches the sockets; one that stays full means that the core's
// thread hangs.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "agent/core/io.h"
#include "base/check.h"
#include "threads/mutex.h"

namespace shoal::agent {

class InputQueue {
 public:
  // Any thread. Dropped after close().
  void post(Input input) {
    MutexLock guard(mutex_);
    const bool room = not_full_.wait_for(mutex_, kPostLimit, [this]() SHOAL_REQUIRES(mutex_) {
      return closed_ || inputs_.size() < kMax;
    });
    SHOAL_CHECK(room, "the agent's core has not taken an input for a minute");
    if (closed_) return;
    inputs_.push_back(std::move(input));
    guard.unlock();
    not_empty_.notify_one();
  }

  // The next input; nothing when `until` passes first.
  std::optional<Input> take(std::optional<std::chrono::steady_clock::time_point> until) {
    MutexLock guard(mutex_);
    const auto some = [this]() SHOAL_REQUIRES(mutex_) { return !inputs_.empty(); };
    if (!until) {
      not_empty_.wait(mutex_, some);
    } else if (!not_empty_.wait_until(mutex_, *until, some)) {
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
      const MutexLock guard(mutex_);
      closed_ = true;
      inputs_.clear();
    }
    not_full_.notify_all();
  }

 private:
  static constexpr std::size_t kMax = 4096;
  static constexpr std::chrono::seconds kPostLimit{60};
  Mutex mutex_;
  CondVar not_empty_, not_full_;
  std::deque<Input> inputs_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::agent
