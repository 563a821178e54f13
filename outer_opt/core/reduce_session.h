// What the sessions of all topologies share: the words between a session and its driver, and the
// checks of a plan's members. A session is one attempt at one member, without I/O.
//
// Nothing is queued: the driver pulls frames to send when a stream can take one, and offers a
// received frame until it is admitted, which is its back-pressure on the stream. Work on tensors is
// separate from the decisions: a session's admit(), local_work(), finish() and the rest are to be
// serialised by the driver (one lock); run() and encode() take no part in that and may run in
// parallel for different works.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "outer_opt/core/frame.h"
#include "outer_opt/core/round.h"

namespace shoal::outer_opt {

enum class SessionState { kRunning, kDone, kBroken };

// An outgoing frame; valid until the session ends.
struct FrameRef {
  FrameKind kind = FrameKind::kContribution;
  int peer = 0;  // index of the receiver in the plan's members
  int part = 0;
  std::int64_t chunk = 0, first = 0, count = 0;
};

// A piece of arithmetic on one chunk, fixed by admit() or local_work(). Opaque to the driver.
struct Work {
  struct Term {
    int member = 0;
    float factor = 0;
  };
  FrameKind kind = FrameKind::kContribution;
  int peer = -1;  // whose frame it needs; -1: none
  std::optional<FrameHeader> header;
  int part = 0;
  std::int64_t chunk = 0, first = 0, count = 0;
  std::array<Term, 2> terms;  // butterfly: contributions to add, in order
  int term_count = 0;
  bool fresh = false;  // butterfly: nothing was added to this chunk before
  bool last = false;   // the sum is complete: divide, encode, decode
  float inverse = 0;   // butterfly: 1 / sum of the weights, with `last`
};

struct WorkResult {
  Status status;
  // Of an averaged chunk that is complete now: its values, and the payload that carries it.
  std::uint64_t values_checksum = 0, payload_checksum = 0;
};

struct SessionFailure {
  ReduceFailure failure = ReduceFailure::kInternal;
  int peer = -1;  // index of the member that was the cause, -1: none
  std::string detail;
};

// A refusal of a plan: kValidation with the name of the field.
Error refused_plan(std::string field, std::string message);

// Lengths that agree, weights and clip factors in their ranges, `self` a member exactly once.
Status check_plan_members(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                          std::size_t average_count);

// The member of a plan that check_plan_members() accepted.
int index_of(const ReducePlan& plan, ReplicaId self);

// weight / largest weight per member, so that equal weights are exactly 1; zeros without any.
std::vector<double> weight_shares(const ReducePlan& plan);

// The failure that a work's error is.
SessionFailure failure_of(const ReducePlan& plan, const Work& work, const Error& error);

}  // namespace shoal::outer_opt
