// Makes a device as slow as one likes, so that a cluster of unequal machines can be tried on equal
// ones: after a piece of work that took d the same thread waits d * (1 / speed - 1). Measuring the
// device waits in the same way, so that what is reported is what it then does.
#pragma once

#include <chrono>
#include <thread>

namespace shoal::trainer {

// `speed` in (0, 1]: 0.25 makes work take four times as long.
inline std::chrono::nanoseconds extra_wait(std::chrono::nanoseconds took, double speed) {
  const double extra = static_cast<double>(took.count()) * (1 / speed - 1);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(extra));
}

// One piece of work, from here to the end of the block.
class SlowedPiece {
 public:
  explicit SlowedPiece(double speed) : speed_(speed), start_(std::chrono::steady_clock::now()) {}
  ~SlowedPiece() {
    if (speed_ >= 1) return;
    std::this_thread::sleep_for(extra_wait(std::chrono::steady_clock::now() - start_, speed_));
  }
  SlowedPiece(const SlowedPiece&) = delete;
  SlowedPiece& operator=(const SlowedPiece&) = delete;

 private:
  double speed_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace shoal::trainer
