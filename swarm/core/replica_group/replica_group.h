// A replica group: processes of one host, one per device, that train one replica together. Rank 0
// is the leader, the trainer that the coordinator knows; the others are its members. In each inner
// step everybody computes the gradient of its share of the batch, the gradients are summed, and all
// take the same optimizer step. This is the leader's account of who is in, what everybody does, and
// which generation of the group that is; how gradients travel is not its business.
//
// A member that is lost is out for good: the group is formed again without it (the generation
// grows), and the step that was under way is void, nobody has taken it. The others begin it again
// with larger shares; a leader alone continues as a trainer without a group.
//
// Gradients are added on the devices when all who are in can do that with the same library, else by
// the leader, from their sockets. A library that fails though nobody is lost is left alone until
// somebody comes or goes: the step is void, and the leader adds.
//
//   state        joined   begin_step   gave   added   lost   add_failed   step_taken
//   starting     idle     -            -      -       gone   -            -
//   idle         -        computing    -      -       gone   -            idle
//   computing    -        -            gave   -       gone   idle         -
//   gave         -        -            -      added   gone   idle         idle (the leader adds)
//   added        -        -            -      -       gone   idle         idle (the devices add)
//   gone         -        -            -      -       gone   -            -
// lost() takes all others who are in a step back to idle.
//
// Pure; the caller is one thread.
#pragma once

#include <cstdint>
#include <vector>

namespace shoal::swarm {

enum class GroupMemberState { kStarting, kIdle, kComputing, kGave, kAdded, kGone };

enum class GroupSum { kLeader, kDevices };  // who adds the gradients

struct GroupShare {  // sequences [first, first + count)
  std::int64_t first = 0, count = 0;
  bool operator==(const GroupShare&) const = default;
};

class ReplicaGroup {
 public:
  // With the leader, who is idle. A library is the version of what adds on devices; 0: none.
  explicit ReplicaGroup(int size, std::int32_t library = 0);

  int size() const { return static_cast<int>(members_.size()); }
  std::int32_t generation() const { return generation_; }
  GroupMemberState state(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  bool in(int rank) const;           // neither starting nor gone
  std::vector<int> members() const;  // ranks that are in, the leader first

  GroupSum sum() const;  // never kDevices for a leader alone

  void joined(int rank, std::int32_t library = 0);
  void lost(int rank);
  void add_failed();  // the loss was reported before

  // Sequences [first, first + count) in whole microbatches, as equal as that goes, by rank; those
  // who are not in have none. Everybody who is in computes, also of an empty share.
  std::vector<GroupShare> begin_step(std::int64_t first, std::int64_t count,
                                     std::int64_t microbatch);
  void gave(int rank);
  bool all_gave() const;
  void added(int rank);   // its device has the sum
  bool complete() const;  // all who are in have what the step takes
  bool under_way() const { return under_way_; }
  void step_taken();

 private:
  void move(int rank, GroupMemberState to);
  void form_anew();
  bool all(GroupMemberState state) const;  // who are in
  std::vector<GroupMemberState> members_;
  std::vector<std::int32_t> libraries_;  // by rank
  std::int32_t generation_ = 1;
  bool under_way_ = false;
  bool add_failed_ = false;  // since somebody came or went
};

}  // namespace shoal::swarm
