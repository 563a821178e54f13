// What a worker under test says, from its thread to the test's: in order, but for the figures of
// progress, of which the newest are kept, and that it is ready, which is counted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "swarm/core/trainer_messages.h"

namespace shoal::trainer {

class Heard {
 public:
  void add(const FromTrainer& message) {
    const std::lock_guard lock(mutex_);
    if (const auto* progress = std::get_if<Progress>(&message)) {
      progress_ = *progress;
    } else if (std::holds_alternative<TrainerReady>(message)) {
      ++readies_;
    } else if (const auto* load = std::get_if<LoadProgress>(&message)) {
      load_ = *load;
    } else if (const auto* stats = std::get_if<PipelineStats>(&message)) {
      stats_ = *stats;
    } else {
      said_.push_back(message);
    }
    changed_.notify_all();
  }

  // The next message, which must be a T; an empty one after a test failure.
  template <typename T>
  T next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return !said_.empty(); })) {
      ADD_FAILURE() << "nothing was said";
      return {};
    }
    const FromTrainer message = said_.front();
    said_.pop_front();
    if (const T* wanted = std::get_if<T>(&message)) return *wanted;
    const auto* failed = std::get_if<ReplicaFailed>(&message);
    ADD_FAILURE() << "another message: " << message.index() << " "
                  << (failed ? failed->detail : "");
    return {};
  }

  // Waits until it was said so often that the trainer is ready for a replica.
  void ready(int times) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return readies_ >= times; }));
  }

  std::optional<LoadProgress> load() {
    const std::lock_guard lock(mutex_);
    return load_;
  }

  // The newest figures of progress, once there are both.
  std::pair<Progress, PipelineStats> figures() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return progress_ && stats_; }));
    return {progress_.value_or(Progress{}), stats_.value_or(PipelineStats{})};
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FromTrainer> said_;
  int readies_ = 0;
  std::optional<LoadProgress> load_;
  std::optional<Progress> progress_;
  std::optional<PipelineStats> stats_;
};

}  // namespace shoal::trainer
