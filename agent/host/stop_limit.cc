#include "agent/host/stop_limit.h"

#include <utility>

namespace shoal::agent {

StopLimit::StopLimit(Expired expired)
    : expired_(std::move(expired)), thread_([this] { watch(); }) {}

StopLimit::~StopLimit() {
  {
    const MutexLock guard(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StopLimit::begin(Duration limit) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(limit.ns);
  {
    const MutexLock guard(mutex_);
    if (deadline_ && *deadline_ <= deadline) return;
    deadline_ = deadline;
  }
  changed_.notify_all();
}

void StopLimit::waits_for(std::string what) {
  const MutexLock guard(mutex_);
  waits_for_ = std::move(what);
}

void StopLimit::watch() {
  MutexLock guard(mutex_);
  changed_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) { return over_ || deadline_; });
  while (!over_ && Clock::now() < *deadline_) {
    const auto until = *deadline_;
    (void)changed_.wait_until(mutex_, until,
                              [&]() SHOAL_REQUIRES(mutex_) { return over_ || *deadline_ < until; });
  }
  if (over_) return;
  const std::string hangs = waits_for_;
  guard.unlock();
  expired_(hangs);
}

}  // namespace shoal::agent
