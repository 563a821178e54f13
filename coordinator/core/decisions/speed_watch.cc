#include "coordinator/core/decisions/speed_watch.h"

#include <algorithm>
#include <cmath>

namespace shoal::coordinator {
namespace {

constexpr Duration kMemory = seconds(8);  // of the moving average

}  // namespace

void SpeedWatch::follow(Duration time, double pace) {
  if (words_ < kWarmUp) {
    ++words_;
    pace_ = pace;
    return;
  }
  const double newest = 1 - std::exp(-time.seconds() / kMemory.seconds());
  pace_ += newest * (pace - pace_);
  best_ = std::max(best_, pace_);
}

void SpeedWatch::share_with(std::int32_t on_device) {
  on_device = std::max(1, on_device);
  if (on_device == sharing_) return;
  if (on_device > sharing_) best_ *= static_cast<double>(sharing_) / on_device;
  sharing_ = on_device;
  words_ = 0;  // the pace of before says nothing of this best
}

SpeedTurn SpeedWatch::worked(Duration time, double pace, double promised) {
  if (!std::isfinite(pace) || pace <= 0) return SpeedTurn::kNone;
  time = std::max(time, Duration());
  follow(time, pace);
  expected_ = std::max(std::isfinite(promised) ? promised : 0, best_);
  if (expected_ <= 0) return SpeedTurn::kNone;
  slow_for_ = ratio() < kSlowBelow / sharing_ ? slow_for_ + time : Duration();
  sound_for_ = ratio() > kSoundAbove / sharing_ ? sound_for_ + time : Duration();
  if (!slow_ && slow_for_ >= kSlowAfter) {
    slow_ = true;
    return SpeedTurn::kSlow;
  }
  if (slow_ && is_sound()) {
    slow_ = false;
    return SpeedTurn::kAsPromised;
  }
  return SpeedTurn::kNone;
}

}  // namespace shoal::coordinator
