// See slow_joiners.h.
#include "coordinator/core/replicas/slow_joiners.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/number_text.h"
#include "base/transfer_patience.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/movement.h"
#include "coordinator/core/state/naming.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kLookEvery = seconds(5);
constexpr RoundNumber kRoundsWithoutProgress = 8;  // and twice the limit of a load
constexpr const char* kRemedy =
    "use fewer bits (sync.codec), more inner steps per round (sync.every) or sync.fragments";

std::string two_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string in_words(Duration time) {
  const double s = time.seconds();
  if (s < 120) return std::to_string(std::llround(s)) + " s";
  if (s < 7200) return std::to_string(std::llround(s / 60)) + " min";
  return std::to_string(std::llround(s / 3600)) + " h";
}

bool is_joining(const State& state, const ReplicaRecord& replica, const Joiner* joiner) {
  return replica.state == ReplicaState::kLoading && replica.source.kind == SourceKind::kPeer &&
         joiner != nullptr && joiner->watch.has_heard() && !joiner->waiting &&
         is_present(state, replica.id);
}

EventScope scope_of(const ReplicaRecord& replica) {
  return {.job = replica.job, .agent = replica.agent, .replica = replica.id};
}

void call_slow(Transaction& tx, const ReplicaRecord& replica, const JoinShare& measured) {
  Joiner& joiner = tx.volatile_state().joiners[replica.id];
  if (std::exchange(joiner.called_slow, true)) return;
  const std::string left =
      measured.left ? "about " + in_words(*measured.left) + " more" : std::string("forever");
  tx.event(Severity::kWarning, event_kind::kJoinSlow, scope_of(replica),
           display_name(tx.state(), replica.id) +
               " loads slowly: the averages of the rounds take r = " + two_digits(measured.share) +
               " of its line, so its state takes " + left + "; " + kRemedy);
}

void refuse(Transaction& tx, const ReplicaRecord& replica, const std::string& why) {
  SlowLine& line = tx.volatile_state().slow_lines[{replica.job, replica.agent}];
  const Options& options = tx.options();
  Duration rest = options.join_again_first;
  for (int i = 0; i < line.times && rest < options.join_again_cap; ++i) rest = rest * 2;
  rest = std::min(rest, options.join_again_cap);
  line = {tx.now() + rest, line.times + 1};
  tx.event(Severity::kWarning, event_kind::kJoinRefused, scope_of(replica),
           display_name(tx.state(), replica.id) + " cannot join: " + why + "; " + kRemedy +
               "; its agent is tried again in " + in_words(rest));
  fail_replica(tx, replica.id, ReplicaFailure::kTooSlow, why);
}

// Why this load will never end; empty: it may end.
std::string why_never(const Transaction& tx, const ReplicaRecord& replica, const JoinWatch& watch) {
  const JoinShare measured = watch.share();
  if (measured.pace == JoinPace::kNever) {
    return "the averages of the rounds take r = " + two_digits(measured.share) +
           " of its line, measured over " + in_words(measured.over) + " and " +
           std::to_string(measured.rounds) + " rounds; with 1 or more a load never ends";
  }
  const JobRecord& job = tx.state().jobs.at(replica.job);
  const JoinReport& furthest = watch.furthest();
  const Duration still = tx.now() - furthest.at;
  const Duration limit = stall_for(tx.options().load_limit, state_size(job, replica.stage)) * 2;
  const bool rounds = job.committed_round - furthest.round >= kRoundsWithoutProgress;
  if (still < limit || !rounds) return {};
  return "it has stayed at " + size_text(static_cast<double>(furthest.done.count())) + " of " +
         size_text(static_cast<double>(furthest.total.count())) + " for " + in_words(still) +
         " and " + std::to_string(job.committed_round - furthest.round) + " rounds";
}

void look_at_agents_again(Transaction& tx, JobId job) {
  for (const auto& [who, line] : tx.state().slow_lines) {
    if (who.first == job && tx.now() < line.ask_again_at)
      tx.schedule_wakeup(job, line.ask_again_at);
  }
}

}  // namespace

void watch_joiners(Transaction& tx, JobId job) {
  look_at_agents_again(tx, job);
  if (tx.state().jobs.at(job).phase != JobPhase::kTraining) return;
  for (const ReplicaId id : live_replicas(tx.state(), job)) {
    const ReplicaRecord replica = tx.state().replicas.at(id);
    const Joiner* joiner = tx.state().joiners.find(id);
    if (!is_joining(tx.state(), replica, joiner)) continue;
    tx.schedule_wakeup(job, tx.now() + kLookEvery);
    if (const std::string why = why_never(tx, replica, joiner->watch); !why.empty()) {
      refuse(tx, replica, why);
    } else if (joiner->watch.share().pace == JoinPace::kSlow) {
      call_slow(tx, replica, joiner->watch.share());
    }
  }
}

bool is_too_slow_for(const Transaction& tx, JobId job, AgentId agent) {
  const SlowLine* line = tx.state().slow_lines.find({job, agent});
  if (line == nullptr || tx.now() >= line->ask_again_at) return false;
  return tx.state().jobs.at(job).phase == JobPhase::kTraining;
}

}  // namespace shoal::coordinator
