// What the leader of a replica group (swarm/core/replica_group/replica_group.h) and one of its
// members say to each other, over a Unix stream socket: a fixed header, then values. Both are
// processes of one build on one host.
//
//   leader                              member
//     kLoad   the job, as JSON            kJoined     it has model and data
//     kState  parameters and moments
//     kGroup  id of a communicator        kGrouped    its end is there, or failed
//     kCompute  a share of a step         kGradient   of its share, and the loss
//     kAdd    all have gradients          kAdded      its device has the sum, or failed
//     kSum    all gradients, added: take the step
//
// kGroup and kAdd come where the devices add (swarm/core/replica_group/replica_group.h); kGradient
// and kSum carry no values then. A member takes its step at kSum only; whatever else comes in its
// place, or while it forms a group or adds, says that the step before is void.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace shoal::trainer {

enum class GroupMessageKind : std::uint32_t {
  kLoad = 1,
  kState,
  kCompute,
  kSum,
  kJoined,
  kGradient,
  kGroup,
  kGrouped,
  kAdd,
  kAdded
};

struct GroupHeader {
  GroupMessageKind kind = GroupMessageKind::kLoad;
  std::int32_t generation = 0;
  std::int64_t step = 0;              // kState: of the optimizer; else of the job's schedule
  std::int64_t first = 0, count = 0;  // kCompute: sequences; kGroup: rank and how many ranks
  std::int32_t library = 0;           // kJoined: what its device adds with, 0 is nothing
  std::int32_t good = 0;              // kGrouped, kAdded: 1, or 0 when it failed
  double loss = 0;                    // kGradient, kSum: of the mean over the batch
  std::uint64_t size = 0;             // of what follows, in bytes
};

using GroupPieces = std::vector<std::span<const std::byte>>;

// Owns the socket. One thread at a time. Every method ends within its limit (kUnavailable, as when
// the other end is gone).
class GroupSocket {
 public:
  explicit GroupSocket(int fd) : fd_(fd) {}
  ~GroupSocket();
  GroupSocket(const GroupSocket&) = delete;
  GroupSocket& operator=(const GroupSocket&) = delete;

  Status send(GroupHeader header, const GroupPieces& payload, Duration limit);  // fills in the size
  bool waiting() const;  // something came, or the other end is gone
  bool gone() const;     // the other end is; what it said before can still be received
  // Its payload is to be received before the next header.
  Result<GroupHeader> receive(Duration limit);
  Status receive(std::span<std::byte> payload, Duration limit);
  Status skip(std::uint64_t size, Duration limit);

 private:
  int fd_;
};

}  // namespace shoal::trainer
