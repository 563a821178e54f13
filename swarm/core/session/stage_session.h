// One replica's part in the pipeline, without tensors, sockets or a clock: which pass its device
// computes next, to whom the result goes, what is sent again when a neighbor is lost, whose
// gradient is added, and when the inner step is over. A replica of stage 0 is a router as well. The
// runtime of swarm/pipeline and the simulator drive the same object. docs/pipeline.md tells the
// protocol and why it is so.
//
// Tensors are named by the task they belong to: a task is one microbatch at this replica, from the
// arrival of its input to the answer. The driver keeps input, output, gradient and graph of a task
// until Forget.
//
//   arrived --Compute kForward--> forwarded --SendForward--> below --answer--> answered
//   --Compute kBackward--> done --SendBackward--> Forget
//   (last stage: arrived --Compute kLast--> done; router: born at admission, ends without a send)
//
// Every task ends with one Forget, also the one that is dropped; a router's may be dropped before
// its first Compute.
//
// It is made of machines with a table each: tasks.h (a microbatch here), peers.h (a neighbor),
// step_barrier.h (the round), reach.h (the next stage), gossip_schedule.h (what is told). This
// object gives every input to those it concerns and lets them act on one another.
//
// Not thread-safe; one thread drives it. Every call appends to `out` what the driver must do, in
// that order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/digest.h"
#include "base/time.h"
#include "messages/pipeline.h"
#include "outer_opt/core/round/round.h"
#include "swarm/core/session/session_types.h"

namespace shoal::swarm {

class StageSession {
 public:
  // Holds round `held`, whose state opens inner step `step`.
  StageSession(const SessionOptions& options, RoundNumber held, std::int64_t step, Instant now);
  ~StageSession();

  // ---- the coordinator's, in any order and repeated
  void view(Instant now, const PipelineView& view, SessionActions& out);
  // Train the steps [from, to) of the round after the held one; other rounds are ignored. Without
  // steps the boundary follows at once. A router spreads what is left of its leases evenly over the
  // steps to come, in whole microbatches, at least 1 a step; none when nothing is leased.
  void open(Instant now, const OpenRound& round, SessionActions& out);
  void close(Instant now, SessionActions& out);  // router: the current step is the last
  void stop(Instant now, SessionActions& out);  // boundary at once: the round was frozen without us
  // The outer step was taken: holds `round`, whose state opens inner step `step`. Passes of the
  // next round that waited are taken up. Older rounds are ignored. After the boundary: no pass of
  // training may be under way.
  void committed(Instant now, RoundNumber round, std::int64_t step, SessionActions& out);
  // Router: batches i of [0, batches) with i % slices == slice, as kLoss passes. A batch is
  // `microbatches` of them: pass j of batch i has the index i * microbatches + j.
  void evaluate(Instant now, const RoundKey& key, const EvalSlice& slice, std::int64_t microbatches,
                SessionActions& out);
  // Router: one kLogits pass, sent when the parameters are at rest; the driver puts the tokens by
  // under the task this returns. They stay at rest, and the first step of a round is not over,
  // until sampled(), which gives up what is under way. Forget without LogitsCame: the sampling is
  // over.
  TaskId logits(Instant now, SessionActions& out);
  void sampled(Instant now, SessionActions& out);

  // ---- the network's
  void connected(Instant now, ReplicaId peer, SessionActions& out);
  void lost(Instant now, ReplicaId peer, SessionActions& out);  // the stream ended, for any reason
  // The id the driver keeps the payload under; none: drop it (it was refused or is known already).
  std::optional<TaskId> forward(Instant now, ReplicaId from, const ForwardHeader& header,
                                SessionActions& out);
  // The task whose output's gradient the payload is; none: drop it. Put it by before acting on
  // `out`: the answer of a kLogits pass is passed on at once.
  std::optional<TaskId> backward(Instant now, ReplicaId from, const BackwardHeader& header,
                                 SessionActions& out);
  void cancelled(Instant now, ReplicaId from, const ForwardHeader& header, SessionActions& out);
  void refused(Instant now, ReplicaId from, const ForwardHeader& header, RefusalReason reason,
               SessionActions& out);
  void gossip(Instant now, ReplicaId from, const ProgressGossip& gossip, SessionActions& out);

  // ---- the device's
  // What to compute now; oldest step and microbatch first, backward before forward among equals.
  // Requires that no computing is under way.
  std::optional<Compute> next();
  // The last next() ended. `loss_sum` and `tokens` of kLast.
  void computed(Instant now, Duration service, double loss_sum, Tokens tokens, SessionActions& out);

  void tick(Instant now, SessionActions& out);  // a deadline has passed
  std::optional<Instant> next_deadline() const;

  bool training() const;
  std::int64_t step() const;
  SessionStats stats() const;
  Digest digest() const;  // of all state

  struct State;  // the machines, in stage_session.cc

 private:
  std::unique_ptr<State> state_;
};

}  // namespace shoal::swarm
