// See group_communicator.h.
#include "swarm/core/replica_group/group_communicator.h"

#include "base/check.h"

namespace shoal::swarm {

bool GroupCommunicator::ready(std::int32_t generation) const {
  return state_ == GroupState::kReady && view_.generation == generation;
}

void GroupCommunicator::form(Instant now, const GroupView& view) {
  SHOAL_CHECK(state_ == GroupState::kNone, "one communicator at a time");
  SHOAL_CHECK(view.generation >= 1 && view.size >= 1 && view.rank >= 0 && view.rank < view.size);
  state_ = GroupState::kForming;
  view_ = view;
  until_ = now + limit_;
}

void GroupCommunicator::add(Instant now) {
  SHOAL_CHECK(state_ == GroupState::kReady, "nothing can be added now");
  state_ = GroupState::kAdding;
  until_ = now + limit_;
}

GroupVerdict GroupCommunicator::judge(Instant now, GroupProgress progress, bool interrupted) const {
  if (progress == GroupProgress::kDone) return GroupVerdict::kDone;
  if (progress == GroupProgress::kFailed) return GroupVerdict::kFailed;
  if (interrupted) return GroupVerdict::kInterrupted;
  return now >= until_ ? GroupVerdict::kLate : GroupVerdict::kWait;
}

GroupVerdict GroupCommunicator::heard(Instant now, GroupProgress progress, bool interrupted) {
  SHOAL_CHECK(state_ == GroupState::kForming || state_ == GroupState::kAdding);
  const GroupVerdict verdict = judge(now, progress, interrupted);
  if (verdict == GroupVerdict::kDone) state_ = GroupState::kReady;
  if (verdict != GroupVerdict::kDone && verdict != GroupVerdict::kWait) leave();
  return verdict;
}

void GroupCommunicator::leave() { state_ = GroupState::kNone; }

}  // namespace shoal::swarm
