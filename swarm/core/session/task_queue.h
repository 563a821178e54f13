// What is computed or sent next: tasks in the order of the microbatches they are about. Entries are
// not taken out when their task ends; the caller of pop checks whether one still holds.
#pragma once

#include <vector>

#include "swarm/core/session/session_types.h"

namespace shoal::swarm {

// Smaller is sooner: oldest step, evaluation before training, oldest microbatch, backward first.
struct Due {
  Microbatch microbatch;
  bool backward = false;
  TaskId task = 0;
  bool later_than(const Due& other) const;
};
constexpr auto fields_of(Of<Due>) {
  using T = Due;
  return fields<&T::microbatch, &T::backward, &T::task>();
}

class TaskQueue {
 public:
  bool empty() const { return items_.empty(); }
  const Due& top() const { return items_.front(); }
  void push(const Due& due);
  void pop();

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<TaskQueue>) {
    using T = TaskQueue;
    return fields<&T::items_>();
  }

  std::vector<Due> items_;  // a heap
};

}  // namespace shoal::swarm
