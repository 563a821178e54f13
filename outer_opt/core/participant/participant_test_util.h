// Commands and answers of one round, and a participant in each of its states, for tests.
#pragma once

#include <functional>
#include <string>

#include "base/check.h"
#include "outer_opt/core/participant/participant.h"

namespace shoal::outer_opt {

inline constexpr ReplicaId kSelf{1}, kOther{2};
inline const RoundKey kHeld{JobId(7), 2, 4};
inline const RoundKey kNext{JobId(7), 2, 5};
inline const Digest kAverage{3, 4};

inline RoundKey key(std::int64_t round, std::int64_t epoch = 2, std::uint64_t job = 7) {
  return {JobId(job), epoch, round};
}

inline OpenRound open_round(std::int64_t round = 5, std::int64_t to_step = 100,
                            std::int64_t epoch = 2) {
  return {key(round, epoch), Steps(50), Steps(to_step), {{10, 20}}};
}

inline RoundReport report(std::int64_t nonfinite = 0) {
  RoundReport r;
  r.key = kNext;
  r.tokens = Tokens(640);
  r.nonfinite = nonfinite;
  return r;
}

inline ReducePlan plan(std::int32_t attempt = 2, double weight = 640, std::int64_t round = 5) {
  ReducePlan p;
  p.key = key(round);
  p.attempt = attempt;
  p.value_count = 10;
  p.members = {{kSelf, "a:1", weight, 1, 0, 5}, {kOther, "b:1", 640, 1, 5, 5}};
  return p;
}

inline CommitRound commit(std::int64_t round = 5, Digest average = kAverage, bool last = false) {
  return {key(round), 2, average, {}, last, open_round(round + 1, 150)};
}

inline CommitRound commit_without_average(RoundOutcome outcome) {
  CommitRound c = commit(5, {});
  c.outcome = outcome;
  return c;
}

inline AbortRound abort_round(std::int64_t to_step = 110, std::int64_t round = 5) {
  return {key(round), AbortReason::kTimeSpent, open_round(round, to_step)};
}

inline ReduceFailed failed(std::int32_t attempt = 2) {
  return {kNext, attempt, kOther, ReduceFailure::kPeerLost, "gone"};
}

// "train say:vote": the names of the actions.
inline std::string names(const Actions& actions) {
  struct Name {
    std::string operator()(const Train& a) { return "train" + std::to_string(a.round.to_step.n); }
    std::string operator()(const StopTraining& a) {
      return a.at == StopAt::kTogether ? "close_training" : "stop_training";
    }
    std::string operator()(const StartReduce& a) {
      return (a.contributes ? "reduce" : "follow") + std::to_string(a.plan.attempt);
    }
    std::string operator()(const StopReduce& a) {
      return "stop_reduce" + std::to_string(a.attempt);
    }
    std::string operator()(const TakeOuterStep&) { return "outer_step"; }
    std::string operator()(const ReturnToAnchor&) { return "return to anchor"; }
    std::string operator()(const GoStale&) { return "stale"; }
    std::string operator()(const Say& a) {
      static constexpr const char* kEnumerators[] = {"report", "vote", "failed", "applied"};
      return std::string("say:") + kEnumerators[a.message.index()];
    }
  };
  std::string text;
  for (const Action& action : actions)
    text += (text.empty() ? "" : " ") + std::visit(Name{}, action);
  return text;
}

using Drive = std::function<void(Participant&, Actions&)>;

// The states of the table, each reached by its ordinary path. "applied" is idle after an own outer
// step.
inline Participant make(const std::string& state) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions ignored;
  if (state == "idle") return p;
  if (state == "stale") return p.open(open_round(9), ignored), p;
  if (state == "joiner_reducing") return p.reduce(plan(2, 0), ignored), p;
  p.open(open_round(), ignored);
  if (state == "training") return p;
  if (state == "late_reducing") return p.reduce(plan(2, 0), ignored), p;
  p.boundary(report(), ignored);
  if (state == "reported") return p;
  p.reduce(plan(), ignored);
  if (state == "reducing") return p;
  if (state == "failed") return p.reduce_failed(failed(), ignored), p;
  p.reduced(2, kAverage, {}, {}, ignored);
  if (state == "voted") return p;
  p.commit(commit(5, kAverage, state == "applied"), ignored);
  if (state == "taking") return p;
  p.outer_step_taken({kNext, {1, 1}, {2, 2}}, ignored);
  return p;
}

}  // namespace shoal::outer_opt
