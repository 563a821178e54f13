// Detector of slow replicas, with hysteresis: whether a replica computes at less than half of the
// pace that it should have, for so long that it is neither noise nor a short visit of another
// program. A pace is work per second of computing, in any unit that stays the same for the life of
// the replica; the time in which a replica waits for others must not be in it. What a replica
// should reach is the greater of what its device promises and the best that it has shown itself.
//
// A replica is slow after kSlowAfter of work below kSlowBelow, and as promised again after
// kSoundAfter of work above kSoundAbove. Replicas that share a device are in each other's way, so
// each must be slower than they can explain: both limits are divided by their number, and a
// replica's best is that of a device where all of them work.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace shoal::coordinator {

enum class SpeedTurn { kNone, kSlow, kAsPromised };

class SpeedWatch {
 public:
  static constexpr double kSlowBelow = 0.5, kSoundAbove = 0.7;
  static constexpr Duration kSlowAfter = seconds(30), kSoundAfter = seconds(10);
  static constexpr std::int32_t kWarmUp = 5;  // words before its pace counts as its best

  // The replica worked for so long at this pace since its last word. `promised`: by its device, in
  // the same unit; 0: not known. A pace that is not a positive number is ignored.
  SpeedTurn worked(Duration time, double pace, double promised);
  // So many replicas are on its device, itself included; 1 until it is told.
  void share_with(std::int32_t on_device);

  double pace() const { return pace_; }          // moving average; 0: not known
  double best() const { return best_; }          // of that; 0: not known
  double expected() const { return expected_; }  // 0: not known
  double ratio() const { return expected_ > 0 ? pace_ / expected_ : 0; }  // 0: not known
  bool is_slow() const { return slow_; }
  bool is_sound() const { return sound_for_ >= kSoundAfter; }  // has been, for long enough

 private:
  void follow(Duration time, double pace);

  std::int32_t words_ = 0;
  double pace_ = 0, best_ = 0, expected_ = 0;
  Duration slow_for_, sound_for_;
  std::int32_t sharing_ = 1;
  bool slow_ = false;
};

}  // namespace shoal::coordinator
