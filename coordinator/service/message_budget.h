// How many messages one machine may say, over all its sessions: a token bucket. A member that
// floods the coordinator is read as fast as an agent with its replicas could need, and no faster,
// so that it costs the jobs of others little. gRPC's flow control then holds it back. Pure. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace shoal::coordinator {

class MessageBudget {
 public:
  using Clock = std::chrono::steady_clock;
  // A heartbeat, and what answers to orders; a replica says two figures a second, and a few words
  // in each round, of which the shortest take some 20 ms.
  static constexpr double kPerSecond = 250;
  static constexpr double kBurstSeconds = 2;

  explicit MessageBudget(Clock::time_point now) : at_(now) {}

  // kPerSecond for the machine, and as many more for each of its replicas.
  void allow(std::int64_t replicas) {
    per_second_ = kPerSecond * static_cast<double>(1 + replicas);
  }

  // False: it must wait.
  bool take(Clock::time_point now) {
    left_ = left(now);
    at_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

  // It has said nothing for a while.
  bool is_full(Clock::time_point now) const { return left(now) >= most(); }

 private:
  double most() const { return per_second_ * kBurstSeconds; }
  double left(Clock::time_point now) const {
    return std::min(left_ + std::chrono::duration<double>(now - at_).count() * per_second_, most());
  }

  double per_second_ = kPerSecond, left_ = kPerSecond * kBurstSeconds;
  Clock::time_point at_;
};

}  // namespace shoal::coordinator
