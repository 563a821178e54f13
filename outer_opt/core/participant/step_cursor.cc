// See step_cursor.h. Leases are consumed strictly in order; the step number follows the schedule
// and decides nothing but the boundary and the learning rate.
#include "outer_opt/core/participant/step_cursor.h"

#include <algorithm>

#include "base/check.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::outer_opt {

StepCursor::StepCursor(const JobSpec& spec) : spec_(spec) {}

StepCursor::Next StepCursor::next() const {
  if (state_ == CursorState::kIdle) return Next::kStand;
  if (state_ == CursorState::kAhead) return may_go_ahead() ? Next::kStep : Next::kStand;
  const bool ends = stopped_ || at_ >= boundary_ || leases_.empty();
  if (adopting_ && (ends || !may_go_ahead())) return Next::kAdopt;
  return ends ? Next::kBoundary : Next::kStep;
}

void StepCursor::open(const OpenRound& round) {
  const bool kept = spec_.sync.algorithm == SyncAlgorithm::kAsync && !trained_.empty();
  const bool in_tail = spec_.sync.overlap_steps > Steps(0) && !leases_.empty();
  leases_ = without(round.leases, trained_);
  unused_.clear();
  const Steps end = round.to_step + overlap_at(spec_, round.to_step);
  if (!kept && !in_tail) at_ = end - left();
  boundary_ = kept ? at_ + left() : round.to_step;
  stopped_ = false;
  state_ = CursorState::kTraining;
}

DataLease StepCursor::take_step() {
  SHOAL_CHECK(next() == Next::kStep && leases_.front().count >= spec_.train.batch);
  if (state_ == CursorState::kAhead || adopting_) ahead_ += Steps(1);
  const DataLease taken = take_first(leases_, spec_.train.batch).front();
  append(trained_, taken);
  at_ += Steps(1);
  return taken;
}

void StepCursor::reported() {
  SHOAL_CHECK(state_ == CursorState::kTraining && !adopting_);
  state_ = CursorState::kAhead;
  tail_ = overlap_at(spec_, boundary_);
  ahead_ = Steps(0);
  reported_ = count_sequences(trained_);
  unused_ = std::move(leases_);
  leases_ = take_first(unused_, sequences_of(tail_));
}

void StepCursor::committed(CommitOutcome outcome) {
  if (outcome == CommitOutcome::kKept) return;
  adopting_ = outcome == CommitOutcome::kCounted && adopts_later();
  // What was trained behind the boundary belongs to the round to come.
  take_first(trained_, adopting_ ? reported_ : count_sequences(trained_));
  if (!adopting_) leases_.clear();
  // One that was told to stop early is on the schedule again.
  if (adopting_) at_ = std::max(at_, boundary_ + ahead_);
  if (!adopting_) tail_ = ahead_ = Steps(0);
  state_ = CursorState::kIdle;
}

Steps StepCursor::left() const { return Steps(count_sequences(leases_) / spec_.train.batch); }

}  // namespace shoal::outer_opt
