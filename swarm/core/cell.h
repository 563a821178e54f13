// A cell: processes of one host, one per device, that train one replica together. Rank 0 is the
// leader, the trainer that the coordinator knows; the others are its members. In each inner step
// everybody computes the gradient of its share of the batch, the gradients are summed, and all take
// the same optimizer step. This is the leader's account of who is in, what everybody does, and
// which generation of the group that is; how gradients travel is not its business.
//
// A member that is lost is out for good: the group is formed anew without it (the generation grows)
// and the step that was under way is void, nobody has taken it. Whoever is left begins it again
// with larger shares; a leader alone goes on as a trainer without a cell.
//
//   state        joined   begin_step   gave      lost   step_taken
//   starting     idle     -            -         gone   -
//   idle         -        computing    -         gone   idle
//   computing    -        -            gave      gone   -
//   gave         -        -            -         gone   idle
//   gone         -        -            -         gone   -
// lost() takes those who compute or gave back to idle.
//
// Pure; the caller is one thread.
#pragma once

#include <cstdint>
#include <vector>

namespace shoal::swarm {

enum class CellMemberState { kStarting, kIdle, kComputing, kGave, kGone };

struct CellShare {  // sequences [first, first + count)
  std::int64_t first = 0, count = 0;
  bool operator==(const CellShare&) const = default;
};

class Cell {
 public:
  explicit Cell(int size);  // with the leader, who is idle

  int size() const { return static_cast<int>(members_.size()); }
  std::int32_t generation() const { return generation_; }
  CellMemberState state(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  bool in(int rank) const;           // neither starting nor gone
  std::vector<int> members() const;  // ranks that are in, the leader first

  void joined(int rank);
  void lost(int rank);

  // Sequences [first, first + count) in whole microbatches, as equal as that goes, by rank; those
  // who are not in have none. Everybody who is in computes, also of an empty share.
  std::vector<CellShare> begin_step(std::int64_t first, std::int64_t count,
                                    std::int64_t microbatch);
  void gave(int rank);
  bool complete() const;  // all who are in gave
  bool under_way() const { return under_way_; }
  void step_taken();

 private:
  void move(int rank, CellMemberState to);
  std::vector<CellMemberState> members_;
  std::int32_t generation_ = 1;
  bool under_way_ = false;
};

}  // namespace shoal::swarm
