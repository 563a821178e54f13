// A replica group: processes of one host, one per device, that train one replica together. Rank 0
// is the leader, the trainer that the coordinator knows; the others are its members. In each inner
// step each process computes the gradient of its share of the batch, the gradients are summed, and
// all take the same optimizer step. This class is the leader's account of the group: its members,
// what each of them is doing, and the generation. It does not know how gradients travel.
//
// A lost member never returns. The group is formed again without it, with the next generation, and
// the step under way is void: no process has taken it. The others begin it again with larger
// shares. A leader that is left alone continues as a trainer without a group.
//
// The devices add the gradients when all members can do that with the same library. Otherwise the
// leader adds what it receives from their sockets. When the library fails although no member is
// lost, the step is void, and the leader adds until the membership changes.
//
//   state        joined   begin_step   gave   added   lost   add_failed   step_taken
//   starting     idle     -            -      -       gone   -            -
//   idle         -        computing    -      -       gone   -            idle
//   computing    -        -            gave   -       gone   idle         -
//   gave         -        -            -      added   gone   idle         idle (the leader adds)
//   added        -        -            -      -       gone   idle         idle (the devices add)
//   gone         -        -            -      -       gone   -            -
// lost() also takes all other members that are in a step back to idle.
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
  // Begins with an idle leader. `library`: the version of the library that adds gradients on
  // devices; 0: none.
  explicit ReplicaGroup(int size, std::int32_t library = 0);

  int size() const { return static_cast<int>(members_.size()); }
  std::int32_t generation() const { return generation_; }
  GroupMemberState state(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  bool in(int rank) const;           // neither starting nor gone
  std::vector<int> members() const;  // ranks that are in, the leader first

  GroupSum sum() const;  // never kDevices for a leader alone

  void joined(int rank, std::int32_t library = 0);
  void lost(int rank);
  void add_failed();  // after lost(), when a loss caused it

  // Divides the sequences [first, first + count) into one share per rank: whole microbatches, as
  // equal as possible. Ranks that are not in get none. Every member computes, even when its share
  // is empty.
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
