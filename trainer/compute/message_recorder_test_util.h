// Hands the messages of a worker under test from its thread to the test, in order. Two kinds do not
// queue: the newest figures of progress replace the older ones, and `ready` is counted.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "messages/trainer_messages.h"
#include "threads/mutex.h"

namespace shoal::trainer {

class MessageRecorder {
 public:
  void add(const FromTrainer& message) {
    const MutexLock lock(mutex_);
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
    const MutexLock lock(mutex_);
    if (!changed_.wait_for(mutex_, kPatience,
                           [&]() SHOAL_REQUIRES(mutex_) { return !said_.empty(); })) {
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

  // Waits until the trainer has said this many times that it is ready for a replica.
  void ready(int times) {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, kPatience,
                                  [&]() SHOAL_REQUIRES(mutex_) { return readies_ >= times; }));
  }

  std::optional<LoadProgress> load() {
    const MutexLock lock(mutex_);
    return load_;
  }

  // The newest figures of progress and of the pipeline, once both have arrived.
  std::pair<Progress, PipelineStats> figures() {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, kPatience,
                                  [&]() SHOAL_REQUIRES(mutex_) { return progress_ && stats_; }));
    return {progress_.value_or(Progress{}), stats_.value_or(PipelineStats{})};
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};

  Mutex mutex_;
  CondVar changed_;
  std::deque<FromTrainer> said_ SHOAL_GUARDED_BY(mutex_);
  int readies_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::optional<LoadProgress> load_ SHOAL_GUARDED_BY(mutex_);
  std::optional<Progress> progress_ SHOAL_GUARDED_BY(mutex_);
  std::optional<PipelineStats> stats_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::trainer
