// See lease_walk.h. Leases are consumed strictly in order; the step number follows the schedule and
// decides nothing but the boundary and the learning rate.
#include "outer_opt/core/participant/lease_walk.h"

#include <algorithm>

#include "base/check.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::outer_opt {

LeaseWalk::LeaseWalk(const JobSpec& spec) : spec_(spec) {}

LeaseWalk::Next LeaseWalk::next() const {
  if (state_ == WalkState::kIdle) return Next::kStand;
  if (state_ == WalkState::kAhead) return may_go_ahead() ? Next::kStep : Next::kStand;
  const bool ends = stopped_ || at_ >= boundary_ || leases_.empty();
  if (adopting_ && (ends || !may_go_ahead())) return Next::kAdopt;
  return ends ? Next::kBoundary : Next::kStep;
}

void LeaseWalk::open(const OpenRound& round) {
  const bool goes_on = spec_.sync.algorithm == SyncAlgorithm::kAsync && round.leases == given_;
  if (goes_on) {
    boundary_ = at_ + left();
    stopped_ = false;
    state_ = WalkState::kTraining;
    return;
  }
  given_ = round.leases;
  if (spec_.sync.overlap_steps == Steps(0)) leases_.clear();
  if (leases_.empty()) {
    const Steps end = round.to_step + overlap_at(spec_, round.to_step);
    at_ = end - Steps(count_sequences(round.leases) / spec_.train.batch);
  }
  for (const DataLease& lease : round.leases) {
    if (lease.count > 0) leases_.push_back(lease);
  }
  boundary_ = round.to_step;
  stopped_ = false;
  state_ = WalkState::kTraining;
}

DataLease LeaseWalk::take_step() {
  SHOAL_CHECK(next() == Next::kStep && leases_.front().count >= spec_.train.batch);
  if (state_ == WalkState::kAhead || adopting_) ahead_ += Steps(1);
  DataLease& lease = leases_.front();
  const DataLease taken{lease.first, spec_.train.batch};
  lease.first += taken.count;
  lease.count -= taken.count;
  if (lease.count == 0) leases_.pop_front();
  at_ += Steps(1);
  return taken;
}

void LeaseWalk::reported() {
  SHOAL_CHECK(state_ == WalkState::kTraining && !adopting_);
  state_ = WalkState::kAhead;
  tail_ = overlap_at(spec_, boundary_);
  ahead_ = Steps(0);
}

void LeaseWalk::committed(Settled settled) {
  if (settled == Settled::kKept) return;
  given_.clear();
  adopting_ = settled == Settled::kCounted && adopts_later();
  keep_steps(adopting_ ? tail_ - ahead_ : Steps(0));
  // One that was told to stop early is on the schedule again.
  if (adopting_) at_ = std::max(at_, boundary_ + ahead_);
  if (!adopting_) tail_ = ahead_ = Steps(0);
  state_ = WalkState::kIdle;
}

Steps LeaseWalk::left() const {
  std::int64_t sequences = 0;
  for (const DataLease& lease : leases_) sequences += lease.count;
  return Steps(sequences / spec_.train.batch);
}

void LeaseWalk::keep_steps(Steps steps) {
  std::int64_t keep = steps.count() * spec_.train.batch;
  for (DataLease& lease : leases_) {
    lease.count = std::min(lease.count, keep);
    keep -= lease.count;
  }
  while (!leases_.empty() && leases_.back().count == 0) leases_.pop_back();
}

}  // namespace shoal::outer_opt
