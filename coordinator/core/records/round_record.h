// A round as the coordinator remembers it, with the reduces that it is made of. One of the records
// of records.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/time.h"
#include "job/job_spec.h"
#include "outer_opt/core/round/audit.h"
#include "outer_opt/core/round/round.h"
#include "outer_opt/core/round/topology.h"

namespace shoal::coordinator {

using shoal::to_string;

enum class RoundState { kOpen, kFrozen, kReducing, kVoting, kCommitted, kAborted };
constexpr auto enumerators_of(Of<RoundState>) {
  using enum RoundState;
  return enumerators<RoundState>({{kOpen, "open"},
                                  {kFrozen, "frozen"},
                                  {kReducing, "reducing"},
                                  {kVoting, "voting"},
                                  {kCommitted, "committed"},
                                  {kAborted, "aborted"}});
}

// The reduce of one stage, or of one group of a job that averages in groups (round_groups.h).
struct Reduce {
  std::int32_t attempt = 0;  // grows over aborts too; 0 before the first freeze
  Instant attempt_started_at;
  Digest average, anchor, momentum;                   // committed; the latter after the outer step
  outer_opt::TopologyChoice choice;                   // of the newest attempt
  std::int64_t frame_values = kFrameValuesUsual;      // of its plan
  bool entropy_coding = false;                        // likewise
  std::vector<MomentumHolder> momentum_holders = {};  // likewise, with sync.outer_state = sharded
  bool given_up = false;  // the round continues without this group; its members keep their progress
  Digest base = {}, base_momentum = {};    // anchor and momentum that the outer step begins with
  std::int32_t drawn_for = 0;              // the attempt whose frames were drawn for an audit
  std::vector<AuditedRange> audited = {};  // the newest attempt is an audit: of these
  std::vector<ReplicaId> suspects = {};    // owner and second owner that differ: a third decides
  std::vector<ReplicaId> barred = {};      // own no part any more in this round
  // That stood alone, in earlier attempts.
  std::vector<outer_opt::Accusation> accusations = {};
  bool operator==(const Reduce&) const = default;
};
constexpr auto fields_of(Of<Reduce>) {
  using T = Reduce;
  return fields(field<&T::attempt>(), field<&T::attempt_started_at>(), field<&T::average>(),
                field<&T::anchor>(), field<&T::momentum>(), field<&T::choice>(flat()),
                field<&T::frame_values>(), field<&T::entropy_coding>(),
                field<&T::momentum_holders>(), field<&T::given_up>(), field<&T::base>(),
                field<&T::base_momentum>(), field<&T::drawn_for>(added_later()),
                field<&T::audited>(added_later()), field<&T::suspects>(added_later()),
                field<&T::barred>(added_later()), field<&T::accusations>(added_later()));
}

// The attempt that made the average that the newest one agrees on, which may be an audit of it.
inline std::int32_t averaging_attempt(const Reduce& reduce) {
  return reduce.audited.empty() ? reduce.attempt : reduce.drawn_for;
}

struct RoundRecord {
  RoundKey key;
  // The state of all stages together: `voting` from the first vote on, `frozen` again with a new
  // attempt.
  RoundState state = RoundState::kOpen;
  std::vector<Reduce> reduces;  // one per reduce: as many as the job has stages, or groups
  std::int32_t aborts = 0;      // times this round number was aborted and opened again
  AbortReason abort_reason = AbortReason::kAttemptsSpent;  // with kAborted or aborts > 0
  Steps from_step, to_step;
  Instant opened_at, frozen_at, committed_at;  // zero: not yet
  Tokens tokens;                               // drawn by the routers whose contributions count
  double train_loss = 0;                       // mean over those tokens
  double validation_loss = 0;                  // 0: not (yet) evaluated
  Tokens validation_tokens;                    // evaluated so far
  double validation_sum = 0;                   // nats
  std::int32_t eval_slices = 0;                // 0: this round is not evaluated
  double outer_lr = 0;                         // the job's when it was frozen
  double share = 1;                // async: of the replicas, whose contributions it committed
  std::int64_t carried_steps = 0;  // async: what is left of them (arrivals.h)
  Tokens job_tokens;               // the job's with this round; zero: not committed
  bool operator==(const RoundRecord&) const = default;
};
constexpr auto fields_of(Of<RoundRecord>) {
  using T = RoundRecord;
  return fields(field<&T::key>(flat()), field<&T::state>(), field<&T::reduces>(),
                field<&T::aborts>(), field<&T::abort_reason>(), field<&T::from_step>(),
                field<&T::to_step>(), field<&T::opened_at>(), field<&T::frozen_at>(),
                field<&T::committed_at>(), field<&T::tokens>(), field<&T::train_loss>(),
                field<&T::validation_loss>(), field<&T::validation_tokens>(),
                field<&T::validation_sum>(), field<&T::eval_slices>(), field<&T::outer_lr>(),
                field<&T::share>(), field<&T::carried_steps>(), field<&T::job_tokens>());
}

}  // namespace shoal::coordinator
