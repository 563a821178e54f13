#include "python/abi/orders.h"

#include <utility>

namespace shoal::python {
namespace {

std::string what(std::int32_t kind) {
  switch (kind) {
    case SHOAL_MODEL:
      return "did not begin to train";
    case SHOAL_TRAIN:
      return "did not end its inner step";
    case SHOAL_EVALUATE:
      return "did not end its evaluation";
    case SHOAL_FORWARD:
    case SHOAL_BACKWARD:
    case SHOAL_LOSS:
      return "did not compute its microbatch";
    case SHOAL_STEP:
      return "did not take its inner step";
    default:
      return "did not take or give its parameters";
  }
}

replica::Failure too_late(std::int32_t kind, Duration limit) {
  return {ReplicaFailure::kInternal,
          "the program " + what(kind) + " within " + std::to_string(limit.ms() / 1000) + " s (" +
              (kind == SHOAL_TRAIN ? "call run.step(loss) once for each batch; " : "") +
              "shoal.join(order_limit_s=...) gives it longer)"};
}

bool has_loss(std::int32_t kind) { return kind == SHOAL_EVALUATE || kind == SHOAL_LOSS; }

bool has_result(std::int32_t kind) {
  return kind == SHOAL_MODEL || kind == SHOAL_TRAIN || kind == SHOAL_STEP ||
         kind == SHOAL_WRITE_CHECKPOINT || has_loss(kind);
}

}  // namespace

Answer Orders::ask(const shoal_order& order) {
  const MutexLock lock(mutex_);
  if (given_up_) throw OrderFailed(*given_up_);
  order_ = order;
  phase_ = Phase::kAsked;
  failure_.reset();
  changed_.notify_all();
  const bool answered =
      changed_.wait_for(mutex_, std::chrono::nanoseconds(limit_.ns),
                        [&]() SHOAL_REQUIRES(mutex_) { return phase_ == Phase::kAnswered; });
  phase_ = Phase::kNothing;
  if (!answered) throw OrderFailed(too_late(order.kind, limit_));
  if (failure_) throw OrderFailed(*failure_);
  return std::move(answer_);
}

void Orders::end(std::string why) {
  const MutexLock lock(mutex_);
  if (!end_) end_ = std::move(why);
  changed_.notify_all();
}

Result<std::optional<shoal_order>> Orders::next(Duration wait) {
  const MutexLock lock(mutex_);
  if (phase_ == Phase::kTaken) {
    return Error{Code::kConflict, "the last order was not answered", "", ""};
  }
  changed_.wait_for(mutex_, std::chrono::nanoseconds(wait.ns), [&]() SHOAL_REQUIRES(mutex_) {
    return phase_ == Phase::kAsked || end_.has_value();
  });
  if (phase_ == Phase::kAsked) {
    phase_ = Phase::kTaken;
    return std::optional(order_);
  }
  if (!end_) return std::optional<shoal_order>();
  shoal_order last = {};
  last.kind = SHOAL_END;
  last.text = end_->c_str();
  return std::optional(last);
}

Status Orders::answer(std::int32_t kind, Answer answer) {
  const MutexLock lock(mutex_);
  return take(kind == 0 ? !has_result(order_.kind) : kind == order_.kind, std::move(answer));
}

Status Orders::answer_loss(double mean) {
  const MutexLock lock(mutex_);
  return take(has_loss(order_.kind), {.loss = mean});
}

Status Orders::take(bool fits, Answer answer) {
  if (phase_ != Phase::kTaken || !fits) {
    return Error{Code::kConflict, "no such order waits for an answer; it may have come too late",
                 "", ""};
  }
  answer_ = std::move(answer);
  phase_ = Phase::kAnswered;
  changed_.notify_all();
  return {};
}

void Orders::fail(const replica::Failure& failure, bool forever) {
  const MutexLock lock(mutex_);
  if (forever) given_up_ = failure;
  if (phase_ != Phase::kAsked && phase_ != Phase::kTaken) return;
  failure_ = failure;
  phase_ = Phase::kAnswered;
  changed_.notify_all();
}

}  // namespace shoal::python
