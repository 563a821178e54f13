// What one replica gave to one round. One of the records of records.h.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fields.h"
#include "base/time.h"
#include "coordinator/core/records/agent_record.h"
#include "outer_opt/core/round/round_parts.h"

namespace shoal::coordinator {

using shoal::to_string;

enum class ContributionState {
  kTraining,  // opened, not reported
  kReported,
  kMember,  // in the frozen membership
  kVoted,
  kCommitted,  // its tokens count
  kKept,       // its tokens count, and its work goes into its next round: its group gave up
  kRejected,   // weight 0: reject_reason says why, and somebody should look at it
  kLate,       // weight 0: it keeps training, and what it trains counts in a later round
  kFollowed,   // weight 0: it had trained nothing; reject_reason says why
  kServed,     // a reducer, which trains nothing
  kLost,       // excluded from the attempt that committed
  kMoved,      // released before the freeze: its device serves another stage
};
constexpr auto enumerators_of(Of<ContributionState>) {
  using enum ContributionState;
  return enumerators<ContributionState>({{kTraining, "training"},
                                         {kReported, "reported"},
                                         {kMember, "member"},
                                         {kVoted, "voted"},
                                         {kCommitted, "committed"},
                                         {kKept, "kept"},
                                         {kRejected, "rejected"},
                                         {kLate, "late"},
                                         {kFollowed, "followed"},
                                         {kServed, "served"},
                                         {kLost, "lost"},
                                         {kMoved, "moved"}});
}

struct ContributionRecord {
  RoundKey key;
  ReplicaId replica;
  AgentId agent;
  StageIndex stage = 0;
  std::int32_t group = 0;  // of the newest freeze, where the job averages in groups
  bool reducer = false;    // it trains nothing, and averages for those that do
  ContributionState state = ContributionState::kTraining;
  RejectReason reject_reason = RejectReason::kNone;
  std::vector<DataLease> leases;  // of this round, over its aborts
  RoundReport report;  // from kReported on; links, aborts and unused leases are stored elsewhere
  Instant reported_at, voted_at, applied_at;
  double weight = 0, clip_factor = 1;
  std::int32_t member_index = -1;  // order in the plan, -1: not a member of the current attempt
  std::int64_t part_first = 0, part_count = 0;
  bool excluded = false;                        // an owner's vote in the current attempt says so
  std::vector<double> squares;                  // voted: what the others sent to its part
  std::vector<ReplicaId> disputed;              // voted in an audit
  Digest average, anchor;                       // voted, applied
  Digest momentum, base, base_momentum, added;  // as Applied said, `added` its average
  ReduceStats stats;                            // bytes summed over attempts; reduce_s of the last
  std::int64_t eval_slice = -1;                 // share of the validation it was given, -1: none
  bool evaluated = false;
  bool operator==(const ContributionRecord&) const = default;
};
constexpr auto fields_of(Of<ContributionRecord>) {
  using T = ContributionRecord;
  return fields(field<&T::key>(flat()), field<&T::replica>(), field<&T::agent>(),
                field<&T::stage>(), field<&T::group>("group_index"), field<&T::reducer>(),
                field<&T::state>(), field<&T::reject_reason>(), field<&T::leases>(),
                field<&T::report>(flat("report_")), field<&T::reported_at>(), field<&T::voted_at>(),
                field<&T::applied_at>(), field<&T::weight>(), field<&T::clip_factor>(),
                field<&T::member_index>(), field<&T::part_first>(), field<&T::part_count>(),
                field<&T::excluded>(), field<&T::squares>(), field<&T::disputed>(),
                field<&T::average>(), field<&T::anchor>(), field<&T::momentum>(), field<&T::base>(),
                field<&T::base_momentum>(), field<&T::added>(), field<&T::stats>(flat()),
                field<&T::eval_slice>(), field<&T::evaluated>());
}

}  // namespace shoal::coordinator
