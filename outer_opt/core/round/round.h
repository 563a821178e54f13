// The words of one outer round as values: what a replica reports, what the coordinator plans, what
// the members vote. Coordinator, agents, trainers and the simulator share these; the wire form is
// proto/agent.proto. Tensors are never in here.
//
// A round of a job goes: OpenRound -> (training) -> RoundReport -> ReducePlan -> (all-reduce) ->
// Vote -> CommitRound -> Applied. An attempt that loses a member is replaced by a ReducePlan with a
// higher attempt number; an aborted round by an OpenRound with more inner steps to train on top of
// the kept progress.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/ids.h"
#include "base/job_spec.h"
#include "base/time.h"
#include "base/units.h"
#include "outer_opt/core/round/round_parts.h"

namespace shoal {

// Runs that one order leases: gaps of earlier rounds are given out first.
inline constexpr std::size_t kLeaseRunsMax = 64;
inline constexpr std::size_t kReturnedRunsMax = 65'536;  // that a job's ledger keeps
std::int64_t count_sequences(const std::vector<DataLease>& leases);
// The index-th sequence of these runs, one after another; the first one behind the last run at
// their end.
std::int64_t sequence_at(const std::vector<DataLease>& leases, std::int64_t index);

// What a commit made of a job. Every member keeps the newest one: a coordinator whose database is
// older than its cluster goes on from it. The ledger is that of the commit, before anything was
// leased for the round that follows.
struct CommitRecord {
  RoundKey key;  // round 0: the initial parameters
  Steps step;    // of the job's schedule: how many are committed
  Tokens tokens;
  std::int64_t next_sequence = 0;        // first sequence never leased
  std::vector<DataLease> returned;       // leased once, to be given out again
  std::int64_t carried_steps = 0;        // async: what is left of arrivals
  double outer_lr = 0;                   // of this outer step
  std::vector<Digest> averages;          // by reduce: they name this commit among all others
  std::vector<Digest> anchors, momenta;  // by stage, before this outer step
  std::uint64_t next_replica = 0, next_checkpoint = 0;  // ids given out until then are below these
  std::vector<MomentumHolder> momentum_holders = {};    // sync.outer_state = sharded: after it
  bool operator==(const CommitRecord&) const = default;
};

// A peer as others dial it.
struct PeerAddress {
  ReplicaId replica;
  std::string address;  // host:port of its peer service
  bool operator==(const PeerAddress&) const = default;
};

inline constexpr std::size_t kMeasuresMax = 3;  // peers that one order asks to measure
inline constexpr std::size_t kLinksMax = 64;    // peers of which a trainer keeps an estimate

// Values per frame where no line asks for less; the least that is worth a frame.
inline constexpr std::int64_t kFrameValuesUsual = 1 << 18, kFrameValuesMin = 1 << 12;

// Train the inner steps [from_step, to_step) of the job's schedule on the leased sequences, in the
// order of the runs, then report. With sync.overlap_steps the lease goes on behind to_step
// (lease_walk.h).
struct OpenRound {
  RoundKey key;
  Steps from_step, to_step;
  std::vector<DataLease> leases;
  std::int32_t fragment = 0;  // that the round averages: 1, 2, …; 0: the whole vector (fragments.h)
  std::vector<PeerAddress> measure;  // to whom the line is to be measured before the reduce
  std::int32_t aborts = 0;      // of this round until now: the report says which order it obeys
  bool entropy_coding = false;  // of what goes between the stages of a pipeline
  bool operator==(const OpenRound&) const = default;
};

// Stop after the current inner step and report what you have.
struct CloseRound {
  RoundKey key;
  bool operator==(const CloseRound&) const = default;
};

// One member of a reduce, in the order in which contributions are summed.
struct ReduceMember {
  ReplicaId replica;
  std::string address;  // host:port of its peer service; empty: cannot be dialled, must own no part
  double weight = 0;    // tokens, in groups 1; 0: takes part, contributes nothing
  double clip_factor = 1;       // in (0, 1]
  std::int64_t part_first = 0;  // the values [part_first, part_first + part_count) it averages
  std::int64_t part_count = 0;
  bool reducer = false;  // averages its part for the others; has no weight and gets no average
  bool operator==(const ReduceMember&) const = default;
};

// With sync.outer_state = sharded the owner of a part takes the outer step for it, and what it
// sends is the step (momentum_shards.h).
struct OwnerStep {
  OuterSpec outer;
  std::vector<MomentumHolder> holders;  // what nobody holds starts from zero
  bool operator==(const OwnerStep&) const = default;
};

struct ReducePlan {
  RoundKey key;
  std::int32_t attempt = 0;  // 1, 2, …; goes on over aborts of the round
  Topology topology = Topology::kButterfly;
  CodecKind codec = CodecKind::kInt8;
  Aggregator aggregator = Aggregator::kMean;  // others with a butterfly only
  std::int64_t value_count = 0;               // length of the vector: of the fragment's values
  // Parts are disjoint, in order, and cover the vector; with an all-gather nobody has one. A ring
  // goes by this order.
  std::vector<ReduceMember> members;
  Duration time_limit;                            // a member gives up after this long
  std::int32_t fragment = 0;                      // as in OpenRound
  std::int64_t frame_values = kFrameValuesUsual;  // the digest depends on it
  bool entropy_coding = false;  // frames are entropy coded on their way (codec/entropy.h)
  double outer_lr = 0;          // of the outer step to come; in a group it is in what members send
  std::optional<OwnerStep> owner_step;  // none: everybody takes the outer step with the average
  bool operator==(const ReducePlan&) const = default;
};

// The parts of a plan follow the members' bandwidth shares; equal shares when nothing was measured.
// Largest remainders get the odd values; a share of 0 gets no part. shares.size() ==
// members.size().
void assign_parts(ReducePlan& plan, const std::vector<double>& shares);

// Members that one vote names: as many as a job may have replicas.
inline constexpr std::size_t kLeftOutMax = 10'000;
struct Vote {
  RoundKey key;
  std::int32_t attempt = 0;
  Digest average;  // of the averaged vector; zero from a reducer, which has none
  ReduceStats stats;
  // Whose contribution is not, or not wholly, in the part that this member averaged.
  std::vector<ReplicaId> left_out;
  bool operator==(const Vote&) const = default;
};

enum class ReduceFailure { kPeerLost, kTimeLimit, kBadFrame, kPlanMismatch, kInternal };
constexpr auto words_of(Of<ReduceFailure>) {
  using enum ReduceFailure;
  return words<ReduceFailure>({{kPeerLost, "peer_lost"},
                               {kTimeLimit, "time_limit"},
                               {kBadFrame, "bad_frame"},
                               {kPlanMismatch, "plan_mismatch"},
                               {kInternal, "internal"}});
}

// An attempt did not finish here. `lost` is the member that was the cause, when there was one.
struct ReduceFailed {
  RoundKey key;
  std::int32_t attempt = 0;
  ReplicaId lost;
  ReduceFailure failure = ReduceFailure::kPeerLost;
  std::string detail;
  bool operator==(const ReduceFailed&) const = default;
};

// A share of the validation: batches i of [0, batches) with i % slices == slice.
struct EvalSlice {
  std::int64_t slice = 0, slices = 1, batches = 0;  // slices == 0: nothing to evaluate
  bool operator==(const EvalSlice&) const = default;
};

// What a committed round comes to at one member.
enum class RoundOutcome {
  kAveraged,  // the outer step, with the average it voted for
  kKept,     // its group gave up: no outer step, and what it trained is in its next pseudo-gradient
  kDropped,  // likewise, but what it trained does not count: it goes on from its anchor
};
constexpr auto words_of(Of<RoundOutcome>) {
  using enum RoundOutcome;
  return words<RoundOutcome>({{kAveraged, "averaged"}, {kKept, "kept"}, {kDropped, "dropped"}});
}

// Take the outer step with the average you voted for, then evaluate, then train `next`.
struct CommitRound {
  RoundKey key;
  std::int32_t attempt = 0;
  Digest average;
  EvalSlice evaluate;
  bool last = false;    // no next round: stay and wait for orders
  OpenRound next;       // meaningful when !last
  double outer_lr = 0;  // of this outer step; the job's may change while it runs
  // With sync.algorithm = async: the part of all replicas that the average stands for, and what
  // becomes of outer momentum (nesterov.h).
  double share = 1;
  double decay = 1, push = 0;
  bool keeps = false;  // likewise: this replica had not reported; what it trains counts later
  RoundOutcome outcome = RoundOutcome::kAveraged;  // the others have no average
  CommitRecord record;                             // to be kept
  bool operator==(const CommitRound&) const = default;
};

// The round's averaging is given up. Nothing is lost: train on, the progress is in the next report.
struct AbortRound {
  RoundKey key;
  AbortReason reason = AbortReason::kAttemptsSpent;
  OpenRound next;  // same round number, later steps
  bool operator==(const AbortRound&) const = default;
};

// After the outer step: the digests that all replicas must share, and those of what it was made of.
struct Applied {
  RoundKey key;
  Digest anchor, momentum;
  Digest base, base_momentum;  // anchor and momentum right before the step
  Digest average;              // as it was added
  bool operator==(const Applied&) const = default;
};

// Go on in another epoch from the committed state that you hold: the round that you were in is
// given up, local parameters are the anchor's again, AdamW's moments stay. A replica that does not
// hold the round of `key` is stale.
struct ResumeAt {
  RoundKey key;         // the round you hold, with its new epoch
  CommitRecord record;  // of that round
  bool operator==(const ResumeAt&) const = default;
};

struct Evaluated {
  RoundKey key;
  EvalSlice slice;
  double loss_sum = 0;  // nats, summed over tokens
  Tokens tokens;
  bool operator==(const Evaluated&) const = default;
};

}  // namespace shoal
