// What goes into a StageSession and what it tells its driver to do: options, frames as far as the
// session cares, actions, and counters. Values only; stage_session.h says when each is told.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/enumerators.h"
#include "base/time.h"
#include "job/job_spec.h"
#include "messages/pipeline.h"
#include "outer_opt/core/round/round.h"

namespace shoal::swarm {

using shoal::to_string;

using TaskId = std::uint64_t;

struct SessionOptions {
  ReplicaId self;
  StageIndex stage = 0;
  std::int32_t stages = 2;
  std::int64_t microbatch = 1;  // sequences
  std::int64_t context = 1;     // tokens per sequence
  PipelineSchedule schedule = PipelineSchedule::kFlush;
  std::uint64_t seed = 1;
  double window_per_replica = 8;  // microbatches in flight per replica of the view; 1f1b: one
  Duration unreachable_limit = seconds(10);  // then CutOff
};
constexpr auto fields_of(Of<SessionOptions>) {
  using T = SessionOptions;
  return fields<&T::self, &T::stage, &T::stages, &T::microbatch, &T::context, &T::schedule,
                &T::seed, &T::window_per_replica, &T::unreachable_limit>();
}

// ---- frames, as far as the session cares. `attempt` is counted by the sender of the forward, per
// microbatch: it names one sending. It begins with the attempt that the sender got itself, so above
// 1 somebody on the way here has sent the microbatch again. A sender cancels what it gives up; two
// attempts that it did not cancel are two tasks (two of its own senders have sent it the same
// microbatch).

struct ForwardHeader {
  Microbatch microbatch;
  std::int32_t attempt = 1;
  bool operator==(const ForwardHeader&) const = default;
};

struct BackwardHeader {
  Microbatch microbatch;
  std::int32_t attempt = 1;
  Duration service;     // what the answering replica computed for it, forward and backward
  double loss_sum = 0;  // nats, summed over `tokens`; carried up to the router
  Tokens tokens;
  bool operator==(const BackwardHeader&) const = default;
};

// A forward that was not taken: of a past step or round, or refused for a reason that will not go
// away. The sender forgets the attempt (past) or takes another replica (else).
enum class RefusalReason { kPast, kNotInView, kBadTensor, kOverCredit };
constexpr auto enumerators_of(Of<RefusalReason>) {
  using enum RefusalReason;
  return enumerators<RefusalReason>({{kPast, "past"},
                                     {kNotInView, "not_in_view"},
                                     {kBadTensor, "bad_tensor"},
                                     {kOverCredit, "over_credit"}});
}

// ---- what the driver must do

enum class ComputeKind {
  kForward,   // input (stage 0: the data of the microbatch) -> output
  kBackward,  // gradient of the output -> gradient of the input; parameters' gradients are added
  kLast,      // last stage: forward, loss and, for kTrain, backward in one
};

// 2bw: passes of the oldest open step and of the one after it, in turn. Those of step s use the
// weights that s - 1 steps made, backward those of its forward (docs/pipeline.md).
struct Compute {  // one at a time; ends with computed()
  TaskId task = 0;
  ComputeKind kind = ComputeKind::kForward;
  Microbatch microbatch;
  bool add = true;  // false: this step's gradient holds the microbatch already; answer only
};
struct SendForward {  // the output of the task (again: it is kept until Forget)
  ReplicaId to;
  TaskId task = 0;
  ForwardHeader header;
};
struct SendBackward {  // the gradient of the task's input; nothing but the header for kLoss;
  ReplicaId to;        // the logits for kLogits
  TaskId task = 0;
  BackwardHeader header;
};
struct SendCancel {  // the receiver drops what it has not computed; no answer
  ReplicaId to;
  ForwardHeader header;
};
struct SendRefusal {
  ReplicaId to;
  ForwardHeader header;
  RefusalReason reason = RefusalReason::kPast;
};
struct SendGossip {
  ReplicaId to;
  ProgressGossip gossip;
};
struct Forget {
  TaskId task = 0;
};
// Divide the gradients added for this step by `tokens`, clip, one AdamW step, zero those gradients.
// tokens == 0: nothing was added, only the step number continues.
// Steps that a late replica skips are not told. Never while a pass is computed.
struct TakeStep {
  std::int64_t step = 0;
  Tokens tokens;         // whose gradients were added here
  bool drained = false;  // 2bw: no pass of the step after it was begun
};
// Every router is through with the round (or this replica was told to stop): report. Nothing is
// computed for training until the next open(), and nothing is under way. Sums are since the last
// boundary or commit.
struct ReachBoundary {
  // Where everybody stops. Added gradients of this very step, 2bw: and of the next one (a router
  // was lost, stop(), close()), are taken by TakeSteps before.
  std::int64_t step = 0;
  std::int64_t drawn = 0;  // router: microbatches whose answers came
  Tokens tokens;           // added here
  double loss_sum = 0;     // router: nats over drawn_tokens
  Tokens drawn_tokens;     // router
};
// Router: a microbatch that it drew is through, and counts in the next ReachBoundary's `drawn`.
struct CameBack {
  Microbatch microbatch;
};
// Router: every batch of its slice was answered; one for each evaluate(). tokens == 0: nothing was
// evaluated (no batch in the slice, or the parameters had moved on before it was through).
struct EvaluationDone {
  RoundKey key;  // of the committed state
  EvalSlice slice;
  double loss_sum = 0;
  Tokens tokens;
};
// Router: the gradient tensor of the task holds the logits. Ask again, or call sampled().
struct LogitsCame {
  TaskId task = 0;
};
// Streams to keep: dial these, close others. Told when it changed.
struct Dial {
  std::vector<PipelineMember> peers;  // of the next stage, and routers with a larger id
};
// No replica of the next stage can be reached although the view has some. The replica waits for
// one, for as long as it takes; those who would wait for it do not. Told once each time.
struct CutOff {
  std::string detail;
};
// The next stage refuses what this replica computes: it is of no use.
struct GiveUp {
  std::string detail;
};

using SessionAction =
    std::variant<SendForward, SendBackward, SendCancel, SendRefusal, SendGossip, Forget, TakeStep,
                 ReachBoundary, CameBack, EvaluationDone, LogitsCame, Dial, CutOff, GiveUp>;
using SessionActions = std::vector<SessionAction>;

// Counters for people and tests.
struct SessionStats {
  std::int32_t queued = 0, in_flight = 0;
  std::int64_t microbatches = 0, recomputed = 0, resent = 0;
  std::int64_t past = 0, unknown = 0, answered_only = 0, refused = 0;
  // Gradients added of a microbatch that had been sent before: another replica of this stage may
  // have added it, too (step_books.h).
  std::int64_t added_again = 0;
  Duration service;  // moving average, zero before the first
};
constexpr auto fields_of(Of<SessionStats>) {
  using T = SessionStats;
  return fields<&T::queued, &T::in_flight, &T::microbatches, &T::recomputed, &T::resent, &T::past,
                &T::unknown, &T::answered_only, &T::refused, &T::added_again, &T::service>();
}

}  // namespace shoal::swarm
