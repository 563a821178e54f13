// One process's end of the communicator with which the devices of a replica group (replica_group.h)
// add their gradients, NCCL's for GPUs. It says when a communicator is there, being made, in use
// and to be given up; making and aborting it is the driver's (swarm/cuda/device_group.h).
//
// A collective never ends by itself when another member is gone, so every wait is bounded: by the
// limit, and by the word of the replica group, whose sockets know of a death. A communicator that a
// wait was given up on is of no use any more; the next one is made for the next generation of the
// replica group.
//
//   state     form      add      heard: waiting   done    failed, interrupted, late   leave
//   none      forming   -        -                -       -                           none
//   forming   -         -        forming          ready   none                        none
//   ready     -         adding   -                -       -                           none
//   adding    -         -        adding           ready   none                        none
// There is a communicator in every state but none; a member that goes to none aborts it.
//
// Pure; the caller is one thread.
#pragma once

#include <cstdint>

#include "base/enumerators.h"
#include "base/time.h"

namespace shoal::swarm {

using shoal::to_string;

struct GroupView {
  std::int32_t generation = 0;  // of the replica group, from 1
  int rank = 0, size = 0;       // in the communicator: ranks without gaps, the leader's is 0
};

enum class GroupState { kNone, kForming, kReady, kAdding };

enum class GroupProgress { kWaiting, kDone, kFailed };  // what a communicator says of itself

enum class GroupVerdict { kWait, kDone, kFailed, kInterrupted, kLate };
constexpr auto enumerators_of(Of<GroupVerdict>) {
  using enum GroupVerdict;
  return enumerators<GroupVerdict>({{kWait, "waiting"},
                                    {kDone, "done"},
                                    {kFailed, "failed"},
                                    {kInterrupted, "interrupted"},
                                    {kLate, "late"}});
}

class GroupCommunicator {
 public:
  explicit GroupCommunicator(Duration limit) : limit_(limit) {}  // of one wait

  GroupState state() const { return state_; }
  bool ready(std::int32_t generation) const;

  void form(Instant now, const GroupView& view);
  void add(Instant now);
  // In the midst of form or add. What is done counts, even if it is late or interrupted.
  GroupVerdict heard(Instant now, GroupProgress progress, bool interrupted);
  void leave();

 private:
  GroupVerdict judge(Instant now, GroupProgress progress, bool interrupted) const;

  Duration limit_;
  GroupState state_ = GroupState::kNone;
  GroupView view_;
  Instant until_;
};

}  // namespace shoal::swarm
