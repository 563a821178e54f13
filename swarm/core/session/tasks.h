// The tasks of one replica. A task is one microbatch here, from the arrival of its input to the
// answer; this is the machine that each of them goes through, and what waits for the device or for
// a next replica.
//
//   free        -> queued         it arrived, or this router drew it
//               -> asked          a sample's pass, before the parameters are at rest
//   asked       -> queued
//   queued      -> computing      forward, or all of it at the last stage
//   computing   -> waiting        for a next replica
//               -> discarded      nobody wants the result; the device still finishes it
//               -> free           the last stage has answered
//   waiting     -> below          it was sent on
//   below       -> waiting        its replica was lost or has refused it
//               -> parked         the same, and the retry budget is spent
//               -> past           refused as past: the receiver is ahead, gossip will tell
//               -> returned       the gradient of its output is here
//               -> free           answered without a gradient: evaluation, logits
//   parked      -> waiting
//   returned    -> computing_back
//   computing_back -> discarded, free
//   discarded   -> free
//   asked, queued, waiting, below, parked, past, returned -> free    dropped
//
// A task that is dropped takes what it has below with it (SendCancel), so that nobody computes for
// an answer that nobody waits for. Tasks live in slots, found by id and by (microbatch, neighbor,
// attempt). A Task& holds until the next task is born.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "swarm/core/session/retry_budget.h"
#include "swarm/core/session/session_types.h"
#include "swarm/core/session/step_books.h"
#include "swarm/core/session/task_queue.h"
#include "swarm/core/session/wiring.h"

namespace shoal::swarm {

inline constexpr double kForwardWork = 1. / 3;     // of forward and backward together
inline constexpr std::int32_t kBadTensorsMax = 3;  // of one task, then GiveUp

enum class TaskState : std::uint8_t {
  kFree,
  kAsked,
  kQueued,
  kComputing,
  kWaiting,
  kParked,
  kBelow,
  kPast,
  kReturned,
  kComputingBack,
  kDiscarded,
};
constexpr auto enumerators_of(Of<TaskState>) {
  using enum TaskState;
  return enumerators<TaskState>({{kFree, "free"},
                                 {kAsked, "asked"},
                                 {kQueued, "queued"},
                                 {kComputing, "computing"},
                                 {kWaiting, "waiting"},
                                 {kParked, "parked"},
                                 {kBelow, "below"},
                                 {kPast, "past"},
                                 {kReturned, "returned"},
                                 {kComputingBack, "computing_back"},
                                 {kDiscarded, "discarded"}});
}
bool allowed(TaskState from, TaskState to);

struct Task {
  TaskId id = 0;
  TaskState state = TaskState::kFree;
  Microbatch microbatch;
  ReplicaId from;  // none: drawn here
  std::int32_t attempt_in = 0;
  bool adds = false;  // the pass under way adds its gradient
  ReplicaId to;
  std::int32_t attempt_out = 0;
  std::int32_t bad_tensors = 0;
  Duration service;
  double loss_sum = 0;
  Tokens tokens;

  bool live() const { return state != TaskState::kFree && state != TaskState::kDiscarded; }
  // Its place in a step is known: all but a sample's pass that waits for the parameters.
  bool placed() const { return live() && state != TaskState::kAsked; }
  bool own() const { return !from; }
  // The gradient of its output is here.
  bool answered() const {
    return state == TaskState::kReturned || state == TaskState::kComputingBack;
  }
};
constexpr auto fields_of(Of<Task>) {
  using T = Task;
  return fields<&T::id, &T::state, &T::microbatch, &T::from, &T::attempt_in, &T::adds, &T::to,
                &T::attempt_out, &T::bad_tensors, &T::service, &T::loss_sum, &T::tokens>();
}

class Tasks {
 public:
  // `stats`: those of the session, counted here. All three outlive this.
  Tasks(bool last_stage, StepBooks& books, Wiring& wiring, SessionStats& stats, Instant now);

  // ---- births
  TaskId arrive(ReplicaId from, const ForwardHeader& header);
  TaskId draw(const Microbatch& microbatch);
  TaskId ask();
  void draw_asked(TaskId asked, const Microbatch& microbatch);

  // ---- who they are
  Task* find(TaskId id);
  Task* received(ReplicaId from, const ForwardHeader& header);
  Task* below(ReplicaId to, const ForwardHeader& header);
  std::int32_t received_from(ReplicaId sender) const;  // live
  std::int32_t count(TaskState state) const;
  // Calls `what` for every live one; it may drop it.
  template <typename What>
  void for_each(What what) {
    for (Task& task : slots_) {
      if (task.live()) what(task);
    }
  }

  // ---- the device
  bool computing() const { return computed_ != 0; }
  const Due* next();  // the first in order
  Compute begin();    // that one
  // The pass under way ended. The task, when it is to be answered now: finish() it.
  Task* computed(Duration service, double loss_sum, Tokens tokens, SessionActions& out);

  // ---- the next stage
  void send_waiting(SessionActions& out);
  void wait(Task& task);                // for a next replica
  void retry(Instant now, Task& task);  // the same, within the budget
  void unpark(Instant now);
  void refused_as_past(Task& task);
  // The answer came. True: it is all there is to do, finish() it; else backward is queued.
  bool take_answer(Task& task, const BackwardHeader& header);
  std::optional<Instant> next_deadline() const;

  // ---- ends
  void finish(Task& task, SessionActions& out);  // the answer goes up; of an own one: Forget
  void drop(Task& task, SessionActions& out);
  void refuse_up(const Task& task, RefusalReason reason, SessionActions& out) const;

 private:
  static void transition(Task& task, TaskState to);
  Task& reserve(TaskState state);
  void register_task(Task& task, const Microbatch& microbatch, ReplicaId sender,
                     std::int32_t attempt);
  void send(Task& task, ReplicaId to, SessionActions& out);
  void count_answer(const Task& task);
  void detach(Task& task);
  void release(Task& task, SessionActions& out);
  template <typename Wanted>
  Task* find_by(const Microbatch& microbatch, Wanted wanted);

  friend FieldAccess;
  friend constexpr auto fields_of(Of<Tasks>) {
    using T = Tasks;
    return fields(field<&T::last_stage_>(), field<&T::books_>(not_state(kOfSession)),
                  field<&T::wiring_>(not_state(kOfSession)),
                  field<&T::stats_>(not_state(kOfSession)), field<&T::slots_>(),
                  field<&T::free_slots_>(), field<&T::serial_>(), field<&T::index_>(),
                  field<&T::received_>(), field<&T::ready_>(), field<&T::waiting_>(),
                  field<&T::parked_>(), field<&T::computed_>(), field<&T::retries_>());
  }

  static constexpr const char* kOfSession = "a part of the session, with a digest of its own";

  bool last_stage_;
  StepBooks* const books_;
  Wiring* const wiring_;
  SessionStats* const stats_;
  std::vector<Task> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t serial_ = 0;
  std::vector<std::pair<Microbatch, TaskId>>
      index_;  // sorted; several tasks may share a microbatch
  FlatMap<ReplicaId, std::int32_t> received_;
  TaskQueue ready_, waiting_;
  std::vector<TaskId> parked_;
  TaskId computed_ = 0;
  RetryTokens retries_;
};

}  // namespace shoal::swarm
