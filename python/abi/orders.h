// Where two threads meet: the compute thread of the library, which asks, and the program's, which
// takes orders and answers. One order at a time. A program that fails is asked nothing any more.
//
// Why not callbacks: what a program raises stays in its own thread, with its own trace, and its
// device is used by one thread only.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "base/time.h"
#include "python/abi/shoal_replica.h"
#include "replica/runtime/failure.h"
#include "threads/mutex.h"

namespace shoal::python {

struct Answer {
  std::vector<TensorShape> tensors;  // of kinds SHOAL_MODEL
  Digest data;
  double loss = 0, lr = 0;   // of SHOAL_TRAIN; without lr of SHOAL_EVALUATE and SHOAL_LOSS
  double gradient_norm = 0;  // of SHOAL_STEP, as is lr
  std::vector<LoggedValue> logged = {};  // of SHOAL_TRAIN and SHOAL_STEP; their step is unknown yet
  std::vector<FileEntry> files = {};     // of SHOAL_WRITE_CHECKPOINT
};

// ask() was not answered, or by a failure; the replica is unusable.
class OrderFailed : public std::runtime_error {
 public:
  explicit OrderFailed(replica::Failure failure)
      : std::runtime_error(failure.detail), failure_(std::move(failure)) {}
  const replica::Failure& failure() const { return failure_; }

 private:
  replica::Failure failure_;
};

class Orders {
 public:
  explicit Orders(Duration limit) : limit_(limit) {}  // of each answer

  // The compute thread; what the order points to must live until it returns. Throws OrderFailed.
  Answer ask(const shoal_order& order) SHOAL_EXCLUDES(mutex_);
  // Any thread. The first word stands; what is being asked is unaffected.
  void end(std::string why) SHOAL_EXCLUDES(mutex_);

  // The program's thread. kConflict: the last order was not answered.
  Result<std::optional<shoal_order>> next(Duration wait) SHOAL_EXCLUDES(mutex_);
  // kConflict: no order of this kind waits (kind 0: one without a result).
  Status answer(std::int32_t kind, Answer answer) SHOAL_EXCLUDES(mutex_);
  Status answer_loss(double mean) SHOAL_EXCLUDES(mutex_);  // of either kind that has one
  // The order that waits fails, if there is one; with `forever` all later ones, too.
  void fail(const replica::Failure& failure, bool forever) SHOAL_EXCLUDES(mutex_);

 private:
  enum class Phase { kNothing, kAsked, kTaken, kAnswered };

  Status take(bool fits, Answer answer) SHOAL_REQUIRES(mutex_);

  const Duration limit_;
  Mutex mutex_;
  CondVar changed_;
  Phase phase_ SHOAL_GUARDED_BY(mutex_) = Phase::kNothing;
  shoal_order order_ SHOAL_GUARDED_BY(mutex_) = {};
  Answer answer_ SHOAL_GUARDED_BY(mutex_);
  std::optional<replica::Failure> failure_ SHOAL_GUARDED_BY(mutex_);  // of this order
  std::optional<replica::Failure> given_up_ SHOAL_GUARDED_BY(mutex_);
  std::optional<std::string> end_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::python
