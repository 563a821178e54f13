// May this round be frozen now? A pure decision over what the replicas have reported: verdict,
// reason and the numbers behind it. Only replicas that hold the last committed state count, so a
// freshly started singleton can never form a quorum; the coordinator's database is the one
// authority on who that is.
//
// A replica whose compute thread says nothing for too long is asked and then taken for unresponsive
// by itself, however few have reported: nobody would wait for the others otherwise, and a job of
// one replica has none. Those that say something are waited for: a slow step is no fault.
//
// With sync.algorithm = async some reports are enough: the round is frozen a moment after the last
// of those, and the silent ones train on. Only usable reports count for that, or a replica whose
// parameters are ruined would never be set right.
#pragma once

#include <optional>
#include <vector>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/time.h"
#include "coordinator/core/decisions/options.h"
#include "job/job_spec.h"

namespace shoal::coordinator {

using shoal::to_string;

struct QuorumMember {
  ReplicaId replica;
  std::optional<Instant> reported_at;
  bool usable = true;     // what it reported
  Instant serving_since;  // one that came late has its own time to report
  // When its silence counts as that of a hung compute thread; none: nobody listens to it now.
  std::optional<Instant> hung_at = {};
  Duration patience = {};  // that it is worth once it was asked, when that is above close_limit
};

struct QuorumInput {
  Instant now, opened_at;
  std::int64_t min_replicas = 1;
  std::int64_t enough = 0;   // usable reports that freeze a round; 0: all
  std::int64_t in_sync = 0;  // live replicas with the committed state, of the stage with the fewest
  std::vector<QuorumMember> trainers;  // those of them that were told to train this round
  std::vector<Instant> loading_since;  // replicas on their way to the committed state
};

enum class QuorumVerdict {
  kWait,
  kClose,   // ask the silent ones to report what they have
  kGiveUp,  // the silent ones are unresponsive
  kFreeze,
};
enum class QuorumReason {
  kNobodyTrains,
  kWaitingForReports,
  kWaitingForJoiners,  // all reported; somebody who is loading would have to load again
  kAllReported,
  kEnoughReported,
  kStragglers,    // half have reported, and the grace for the others is over
  kUnresponsive,  // and they did not answer CloseRound either
  kHung,          // their compute threads say nothing, not even when asked
  kBelowMinReplicas,
};
constexpr auto enumerators_of(Of<QuorumReason>) {
  using enum QuorumReason;
  return enumerators<QuorumReason>({{kNobodyTrains, "nobody_trains"},
                                    {kWaitingForReports, "waiting_for_reports"},
                                    {kWaitingForJoiners, "waiting_for_joiners"},
                                    {kAllReported, "all_reported"},
                                    {kEnoughReported, "enough_reported"},
                                    {kStragglers, "stragglers"},
                                    {kUnresponsive, "unresponsive"},
                                    {kHung, "hung"},
                                    {kBelowMinReplicas, "below_min_replicas"}});
}

struct QuorumDecision {
  QuorumVerdict verdict = QuorumVerdict::kWait;
  QuorumReason reason = QuorumReason::kWaitingForReports;
  std::int64_t reported = 0, trainers = 0;
  std::vector<ReplicaId> silent;     // kGiveUp: those of them that are unresponsive
  std::vector<ReplicaId> hung;       // to be asked, whatever the verdict
  std::optional<Instant> wakeup_at;  // when time alone can change the verdict
};

// QuorumInput.enough of a round with so many trainers.
std::int64_t enough_reports(const SyncSpec& sync, std::int64_t trainers);

QuorumDecision decide_quorum(const QuorumInput& input, const Options& options);

}  // namespace shoal::coordinator
