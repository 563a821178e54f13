#include "swarm/core/session/task_queue.h"

#include <algorithm>

namespace shoal::swarm {
namespace {
bool later(const Due& a, const Due& b) { return a.later_than(b); }
}  // namespace

bool Due::later_than(const Due& other) const {
  const Microbatch &a = microbatch, &b = other.microbatch;
  if (a.round != b.round) return a.round > b.round;
  if (a.step != b.step) return a.step > b.step;
  const bool a_trains = a.kind == PassKind::kTrain, b_trains = b.kind == PassKind::kTrain;
  if (a_trains != b_trains) return a_trains;
  if (a.index != b.index) return a.index > b.index;
  if (backward != other.backward) return other.backward;
  if (a.router != b.router) return a.router > b.router;
  return task > other.task;
}

void TaskQueue::push(const Due& due) {
  items_.push_back(due);
  std::push_heap(items_.begin(), items_.end(), later);
}

void TaskQueue::pop() {
  std::pop_heap(items_.begin(), items_.end(), later);
  items_.pop_back();
}

}  // namespace shoal::swarm
