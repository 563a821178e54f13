// Which sequences a replica trains next, when it is at its boundary, when it adopts a result and
// when it stands still: the inner steps of a replica that has the whole model, as a machine without
// data. The trainer and the simulated one do what next() says.
//
// With sync.overlap_steps = tau the lease of a round ends tau steps behind the round's boundary,
// and the next one begins there:
//
//   boundary r-1       boundary r           boundary r+1
//       |--tau--|          |--tau--|            |--tau--|
//               [     lease of r   )[    lease of r+1    )
//
// At the boundary the replica reports and continues for at most tau steps while the result is made;
// it adopts it exactly tau steps behind the boundary, and when it is not there yet stands still. So
// what a round counts are the first inner steps of its lease and the tail of the lease before, and
// a tail counts with the round after. An abort changes nothing of that: what was trained stays, and
// the new lease follows on the old one.
//
// An order has all sequences that this replica may train, as far as the coordinator knows: what was
// trained since the last commit and not heard of yet is among them, and is not trained again. So
// an order stands alone, whichever went past this replica before it. What the replica will not
// train of its order is unused() at its boundary: behind a stop, and beyond the tail.
//
// A replica without a part in the result (weight 0) drops its tail and restarts from the anchor.
//
// With sync.algorithm = async a commit may find a replica in the middle of its lease and leave it
// there (kKept): the next order then has the same lease, and the cursor continues in it.
//
//   kIdle     --open-->      kTraining
//   kTraining --reported-->  kAhead
//   kAhead    --open (an abort)--> kTraining        kAhead, kTraining --committed--> kIdle
//
// Not thread-safe.
#pragma once

#include "outer_opt/core/round/lease_runs.h"

namespace shoal::outer_opt {

enum class CursorState { kIdle, kTraining, kAhead };

// What a commit makes of what a replica trained since the one before. kCounted: what it reported is
// in the result. kDropped: nothing of it is. kKept: nothing is, but all of it counts later.
enum class CommitOutcome { kCounted, kDropped, kKept };

class StepCursor {
 public:
  explicit StepCursor(const JobSpec& spec);  // derived fields are filled

  enum class Next {
    kStep,      // take_step(), train on it
    kAdopt,     // the committed result becomes local; then adopted()
    kBoundary,  // report; then reported()
    kStand      // nothing to do
  };
  Next next() const;
  Steps at() const { return at_; }  // of the job's schedule: the next inner step

  void open(const OpenRound& round);  // its runs are well_formed() in steps
  DataLease take_step();              // the sequences of one inner step
  void stop() { stopped_ = true; }    // the boundary is here, after what has to be adopted
  void reported();
  // Leased, not trained, and not to be trained before another order says so; as of the newest
  // reported().
  const LeaseRuns& unused() const { return unused_; }
  // The outer step was taken. kCounted: it keeps its tail and, where adopts_later(), the result
  // becomes local by kAdopt. kDropped: it holds the anchor and nothing else.
  void committed(CommitOutcome outcome);
  void adopted() { adopting_ = false; }

  // Whether the round that was reported allows steps behind its boundary.
  bool adopts_later() const { return tail_ > Steps(0); }
  Steps ahead() const { return ahead_; }  // taken behind that boundary, until the adoption

 private:
  bool may_go_ahead() const { return ahead_ < tail_ && !leases_.empty(); }
  std::int64_t sequences_of(Steps steps) const { return steps.count() * spec_.train.batch; }
  Steps left() const;  // of the leases

  JobSpec spec_;
  CursorState state_ = CursorState::kIdle;
  LeaseRuns leases_;   // to be trained, in order
  LeaseRuns trained_;  // since the last commit; behind a boundary that was adopted, since then
  LeaseRuns unused_;
  std::int64_t reported_ = 0;  // of trained_, in sequences
  Steps at_, boundary_;        // boundary_: of the open round
  Steps tail_, ahead_;         // steps allowed and taken behind the newest boundary
  bool stopped_ = false;       // told to
  bool adopting_ = false;      // committed, not adopted
};

}  // namespace shoal::outer_opt
