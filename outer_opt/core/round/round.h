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
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"
#include "job/job_spec.h"
#include "outer_opt/core/round/reduce_plan.h"

namespace shoal {

std::int64_t count_sequences(const std::vector<DataLease>& leases);
// The index-th sequence of these runs, one after another; the first one behind the last run at
// their end.
std::int64_t sequence_at(const std::vector<DataLease>& leases, std::int64_t index);

// What the coordinator signs of a commit (coordinator/core/state/commit_proof.h). Members keep it
// with the record and return both in Hello: without it the coordinator believes no record. The code
// is an HMAC-SHA-256 over the record, these fields and the key's id; only the coordinator verifies.
struct CommitProof {
  std::string job_name, owner;  // of the job
  std::int64_t priority = 0;
  std::string spec_sha256;  // of the job's specification and cut; 64 hex digits
  AgentId agent;            // to whom it was issued
  ReplicaId replica;
  std::int64_t value_count = 0;          // of the replica's stage
  std::vector<Digest> anchors, momenta;  // by stage, after the outer step; empty: not known yet
  std::string key_id;                    // which of the coordinator's record keys signed it
  std::string mac;                       // 64 hex digits; empty: not signed
  bool operator==(const CommitProof&) const = default;
};
constexpr auto fields_of(Of<CommitProof>) {
  using T = CommitProof;
  return fields(field<&T::job_name>(), field<&T::owner>(), field<&T::priority>(any_number()),
                field<&T::spec_sha256>(), field<&T::agent>(or_none()),
                field<&T::replica>(or_none()), field<&T::value_count>(), field<&T::anchors>(),
                field<&T::momenta>(), field<&T::key_id>(), field<&T::mac>());
}

// What a commit made of a job. Every member keeps the newest one: a coordinator whose database is
// older than its cluster continues from it. The ledger is that of the commit, before anything was
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
  Digest data = {};  // of the training data that the job has read so far; zero: nobody has
  CommitProof proof = {};
  bool operator==(const CommitRecord&) const = default;
};
constexpr auto fields_of(Of<CommitRecord>) {
  using T = CommitRecord;
  return fields(field<&T::key>(), field<&T::step>(), field<&T::tokens>(),
                field<&T::next_sequence>(), field<&T::returned>(at_most(kReturnedRunsMax)),
                field<&T::carried_steps>(), field<&T::outer_lr>(), field<&T::averages>(),
                field<&T::anchors>(), field<&T::momenta>(), field<&T::next_replica>(),
                field<&T::next_checkpoint>(), field<&T::momentum_holders>(), field<&T::data>(),
                field<&T::proof>(or_none()));
}

// Keep this record in place of the one of the same key: its proof names the digests after the outer
// step, or was signed with a newer key.
struct KeepRecord {
  CommitRecord record;
  bool operator==(const KeepRecord&) const = default;
};
constexpr auto fields_of(Of<KeepRecord>) {
  using T = KeepRecord;
  return fields<&T::record>();
}

// A peer as others dial it.
struct PeerAddress {
  ReplicaId replica;
  std::string address;  // host:port of its peer service
  bool operator==(const PeerAddress&) const = default;
};
constexpr auto fields_of(Of<PeerAddress>) {
  using T = PeerAddress;
  return fields<&T::replica, &T::address>();
}

inline constexpr std::size_t kMeasuresMax = 3;  // peers that one order asks to measure

// Train the inner steps [from_step, to_step) of the job's schedule on the leased sequences, in the
// order of the runs, then report. With sync.overlap_steps the lease continues behind to_step
// (step_cursor.h).
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
constexpr auto fields_of(Of<OpenRound>) {
  using T = OpenRound;
  return fields(field<&T::key>(), field<&T::from_step>(), field<&T::to_step>(),
                field<&T::leases>(at_most(kLeaseRunsMax)), field<&T::fragment>(),
                field<&T::measure>(at_most(kMeasuresMax)), field<&T::aborts>(),
                field<&T::entropy_coding>());
}

// Stop after the current inner step and report what you have.
struct CloseRound {
  RoundKey key;
  bool operator==(const CloseRound&) const = default;
};
constexpr auto fields_of(Of<CloseRound>) {
  using T = CloseRound;
  return fields<&T::key>();
}

// A share of the validation: batches i of [0, batches) with i % slices == slice.
struct EvalSlice {
  std::int64_t slice = 0, slices = 1, batches = 0;  // slices == 0: nothing to evaluate
  bool operator==(const EvalSlice&) const = default;
};
constexpr auto fields_of(Of<EvalSlice>) {
  using T = EvalSlice;
  return fields<&T::slice, &T::slices, &T::batches>();
}

// What a committed round comes to at one member.
enum class RoundOutcome {
  kAveraged,  // the outer step, with the average it voted for
  kKept,     // its group gave up: no outer step, and what it trained is in its next pseudo-gradient
  kDropped,  // its group gave up: what it trained does not count, it continues from its anchor
};
constexpr auto enumerators_of(Of<RoundOutcome>) {
  using enum RoundOutcome;
  return enumerators<RoundOutcome>(
      {{kAveraged, "averaged"}, {kKept, "kept"}, {kDropped, "dropped"}});
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
  // With async as well: this replica had not reported, and what it trains counts in a later round.
  bool keeps = false;
  RoundOutcome outcome = RoundOutcome::kAveraged;  // the others have no average
  CommitRecord record;                             // to be kept
  bool operator==(const CommitRound&) const = default;
};
constexpr auto fields_of(Of<CommitRound>) {
  using T = CommitRound;
  return fields(field<&T::key>(), field<&T::attempt>(), field<&T::average>(), field<&T::evaluate>(),
                field<&T::last>(), field<&T::next>(or_none()), field<&T::outer_lr>(),
                field<&T::share>(), field<&T::decay>(), field<&T::push>(), field<&T::keeps>(),
                field<&T::outcome>(), field<&T::record>());
}

// The round's averaging is given up. Nothing is lost: train on, the progress is in the next report.
struct AbortRound {
  RoundKey key;
  AbortReason reason = AbortReason::kAttemptsSpent;
  OpenRound next;  // same round number, later steps
  bool operator==(const AbortRound&) const = default;
};
constexpr auto fields_of(Of<AbortRound>) {
  using T = AbortRound;
  return fields<&T::key, &T::reason, &T::next>();
}

// After the outer step: the digests that all replicas must share, and those of what it was made of.
struct Applied {
  RoundKey key;
  Digest anchor, momentum;
  Digest base, base_momentum;  // anchor and momentum right before the step
  Digest average;              // as it was added
  bool operator==(const Applied&) const = default;
};
constexpr auto fields_of(Of<Applied>) {
  using T = Applied;
  return fields<&T::key, &T::anchor, &T::momentum, &T::base, &T::base_momentum, &T::average>();
}

// Go on in another epoch from the committed state that you hold: the round that you were in is
// given up, local parameters are the anchor's again, AdamW's moments stay. A replica that does not
// hold the round of `key` is stale.
struct ResumeAt {
  RoundKey key;         // the round you hold, with its new epoch
  CommitRecord record;  // of that round
  bool operator==(const ResumeAt&) const = default;
};
constexpr auto fields_of(Of<ResumeAt>) {
  using T = ResumeAt;
  return fields<&T::key, &T::record>();
}

struct Evaluated {
  RoundKey key;
  EvalSlice slice;
  double loss_sum = 0;  // nats, summed over tokens
  Tokens tokens;
  bool operator==(const Evaluated&) const = default;
};
constexpr auto fields_of(Of<Evaluated>) {
  using T = Evaluated;
  return fields(field<&T::key>(), field<&T::slice>(), field<&T::loss_sum>(any_number()),
                field<&T::tokens>());
}

}  // namespace shoal
