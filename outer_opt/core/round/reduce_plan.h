// The words of a round's reduce: the plan of an attempt and how it ended at a member (round.h tells
// when they are said).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/ids.h"
#include "base/time.h"
#include "job/job_spec.h"
#include "outer_opt/core/round/round_parts.h"

namespace shoal {

// Values per frame where no line asks for less; the least that is worth a frame.
inline constexpr std::int64_t kFrameValuesUsual = 1 << 18, kFrameValuesMin = 1 << 12;

// One member of a reduce, in the order in which contributions are summed.
struct ReduceMember {
  ReplicaId replica;
  std::string address;  // host:port of its peer service; empty: cannot be dialed, must own no part
  double weight = 0;    // tokens, in groups 1; 0: takes part, contributes nothing
  double clip_factor = 1;       // in (0, 1]
  std::int64_t part_first = 0;  // the values [part_first, part_first + part_count) it averages
  std::int64_t part_count = 0;
  bool reducer = false;  // averages its part for the others; has no weight and gets no average
  bool operator==(const ReduceMember&) const = default;
};
constexpr auto fields_of(Of<ReduceMember>) {
  using T = ReduceMember;
  return fields<&T::replica, &T::address, &T::weight, &T::clip_factor, &T::part_first,
                &T::part_count, &T::reducer>();
}

struct OwnerTerms {  // of the Nesterov step
  double lr = 0.9;
  double momentum = 0.5;
  bool operator==(const OwnerTerms&) const = default;
};
constexpr auto fields_of(Of<OwnerTerms>) {
  using T = OwnerTerms;
  return fields<&T::lr, &T::momentum>();
}

// With sync.outer_state = sharded the owner of a part takes the outer step for it, and what it
// sends is the step (momentum_shards.h).
struct OwnerStep {
  OwnerTerms outer;
  std::vector<MomentumHolder> holders;  // what nobody holds starts from zero
  bool operator==(const OwnerStep&) const = default;
};
constexpr auto fields_of(Of<OwnerStep>) {
  using T = OwnerStep;
  return fields(field<&T::outer>(flat()), field<&T::holders>());
}

// A frame of an average that is made a second time, by another owner. Positions are those of the
// audited average.
struct AuditedRange {
  ReplicaId owner, second;
  std::int64_t first = 0, count = 0;
  bool operator==(const AuditedRange&) const = default;
};
constexpr auto fields_of(Of<AuditedRange>) {
  using T = AuditedRange;
  return fields<&T::owner, &T::second, &T::first, &T::count>();
}

inline constexpr std::size_t kAuditedMax = 65'536;  // ranges of one audit

struct ReducePlan {
  RoundKey key;
  std::int32_t attempt = 0;  // 1, 2, …; keeps counting over aborts of the round
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
  // Own contributions go through the codec, too, so that an average does not depend on its owner.
  bool codes_own = false;
  // Not empty: an audit (audit.h). The vector is that of these ranges, one after another, and what
  // comes of it is compared with the average that the members have voted for.
  std::vector<AuditedRange> audited = {};
  bool operator==(const ReducePlan&) const = default;
};
constexpr auto fields_of(Of<ReducePlan>) {
  using T = ReducePlan;
  return fields(field<&T::key>(), field<&T::attempt>(), field<&T::topology>(), field<&T::codec>(),
                field<&T::aggregator>(), field<&T::value_count>(), field<&T::members>(),
                field<&T::time_limit>(), field<&T::fragment>(), field<&T::frame_values>(),
                field<&T::entropy_coding>(), field<&T::outer_lr>(), field<&T::owner_step>(),
                field<&T::codes_own>(), field<&T::audited>(at_most(kAuditedMax)));
}

// The parts of a plan follow the members' bandwidth shares; equal shares when nothing was measured.
// Largest remainders get the odd values; a share of 0 gets no part. shares.size() ==
// members.size().
void assign_parts(ReducePlan& plan, const std::vector<double>& shares);

// Members that one vote names: as many as a job may have replicas.
inline constexpr std::size_t kExcludedMax = 10'000;

// What a member has seen of the others in its own part; with an all-gather, of all they sent.
struct PartSeen {
  // Members whose contribution is not, or not wholly, in the part that this member averaged.
  std::vector<ReplicaId> excluded;
  // By the plan's members: the sum of the squares of what each sent, as it was decoded and before
  // its clip factor. Empty: this member sees no single contribution (a ring), or owns nothing.
  std::vector<double> squares;
  // In an audit: owners whose average differs from the one that was made a second time.
  std::vector<ReplicaId> disputed;
  bool operator==(const PartSeen&) const = default;
};
constexpr auto fields_of(Of<PartSeen>) {
  using T = PartSeen;
  return fields(field<&T::excluded>(at_most(kExcludedMax)),
                field<&T::squares>(at_most(kExcludedMax)),
                field<&T::disputed>(at_most(kExcludedMax)));
}

struct Vote {
  RoundKey key;
  std::int32_t attempt = 0;
  // The digest of the averaged vector, in an audit of the audited one; zero from a reducer, which
  // has none.
  Digest average;
  ReduceStats stats;
  PartSeen seen;
  bool operator==(const Vote&) const = default;
};
constexpr auto fields_of(Of<Vote>) {
  using T = Vote;
  return fields(field<&T::key>(), field<&T::attempt>(), field<&T::average>(), field<&T::stats>(),
                field<&T::seen>(flat()));
}

enum class ReduceFailure { kPeerLost, kTimeLimit, kBadFrame, kPlanMismatch, kInternal };
constexpr auto enumerators_of(Of<ReduceFailure>) {
  using enum ReduceFailure;
  return enumerators<ReduceFailure>({{kPeerLost, "peer_lost"},
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
constexpr auto fields_of(Of<ReduceFailed>) {
  using T = ReduceFailed;
  return fields(field<&T::key>(), field<&T::attempt>(), field<&T::lost>(or_none()),
                field<&T::failure>(), field<&T::detail>());
}

}  // namespace shoal
