// One replica's side of the rounds, without tensors, sockets or a clock: it decides what to do when
// the coordinator speaks, when training reaches its boundary and when a reduce ends. The trainer
// (and, in the simulator, a fake one) performs the actions. It also makes every command idempotent:
// a command that was already obeyed is answered with the answer given before, which is how a
// reconnect catches up.
//
//   idle --OpenRound--> training --boundary--> reported --ReducePlan--> reducing --done--> voted
//   idle --ReducePlan--> reducing          a joiner: contributes nothing, leaves with the commit
//   reducing --failed--> reported          keeps its pseudo-gradient, waits for the next attempt
//   reported, reducing, voted --ReducePlan with a higher attempt--> reducing
//   voted --ReducePlan of an audit--> reducing       votes for the same average again
//   voted --CommitRound--> idle            then training with its `next`
//   training, reported, reducing, voted --AbortRound--> training     progress kept
//   any --ResumeAt of the round it holds--> idle                     in a newer epoch
//   any --a round this replica can no longer follow--> stale         terminal
//
// A commit without an average (RoundOutcome) is obeyed in any of these states. A report says after
// how many aborts of the round it was ordered; where an abort adds no steps it stands and is said
// again with the new number.
//
// A plan also reaches a replica that is still training (the round was frozen without it): it stops,
// takes part with weight 0 and leaves with the commit like a joiner. With sync.algorithm = async it
// trains on instead, keeps what it has when the commit says so, and reports in a later round; a
// boundary that it reaches meanwhile is said, and said again in the round that counts it. While an
// outer step is under way the newest command for the following round is kept and obeyed afterwards.
// Commands of another job, an older epoch or an older round are ignored; a newer epoch, a round
// beyond held + 1, or the commit of an average that this replica did not vote for make it stale.
//
// Not thread-safe; one thread drives it.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "base/enumerators.h"
#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt {

using shoal::to_string;

enum class ParticipantState { kIdle, kTraining, kReported, kReducing, kVoted, kStale };
constexpr auto enumerators_of(Of<ParticipantState>) {
  using enum ParticipantState;
  return enumerators<ParticipantState>({{kIdle, "idle"},
                                        {kTraining, "training"},
                                        {kReported, "reported"},
                                        {kReducing, "reducing"},
                                        {kVoted, "voted"},
                                        {kStale, "stale"}});
}

// What the trainer must do, in this order. StopTraining may be followed by StartReduce at once;
// the boundary that it leads to is reported nevertheless.
struct Train {  // train on to round.to_step with round.leases
  OpenRound round;
};
// Where to stop. kTogether: the round is closed, and the replicas of a pipeline agree on the inner
// step. kAtOnce: it continues without what is trained from now on, at this replica's next boundary.
enum class StopAt { kTogether, kAtOnce };
struct StopTraining {  // then call boundary()
  StopAt at = StopAt::kTogether;
};
struct StartReduce {
  ReducePlan plan;
  bool contributes = false;  // false: weight 0, a zero vector
};
struct StopReduce {
  std::int32_t attempt = 0;
};
struct TakeOuterStep {  // then call outer_step_taken()
  CommitRound commit;
};
struct Say {
  std::variant<RoundReport, Vote, ReduceFailed, Applied> message;
};
// Local parameters are those of the anchor again, and nothing of what was trained, reported or
// averaged since counts: the replica continues from the state it holds, in another epoch.
struct ReturnToAnchor {
  ResumeAt command;
};
struct GoStale {  // report ReplicaFailed kStale; nothing else will happen
  RoundKey wanted;
};
using Action = std::variant<Train, StopTraining, StartReduce, StopReduce, TakeOuterStep, Say,
                            ReturnToAnchor, GoStale>;
using Actions = std::vector<Action>;

// What a replica does that still trains when a round is frozen without it.
enum class WhenLate { kStops, kTrainsOn };
WhenLate when_late(SyncAlgorithm algorithm);

class Participant {
 public:
  // `self` holds the state after round `held` (round 0: the initial parameters).
  Participant(ReplicaId self, RoundKey held, WhenLate late);

  // Commands of the coordinator.
  void open(const OpenRound& round, Actions& out);
  void close(const CloseRound& command, Actions& out);
  void reduce(const ReducePlan& plan, Actions& out);
  void commit(const CommitRound& command, Actions& out);
  void abort(const AbortRound& command, Actions& out);
  void resume(const ResumeAt& command, Actions& out);

  // What the trainer's work came to.
  void boundary(const RoundReport& report, Actions& out);
  void reduced(std::int32_t attempt, const Digest& average, const ReduceStats& stats,
               const PartSeen& seen, Actions& out);
  void reduce_failed(const ReduceFailed& failure, Actions& out);
  void outer_step_taken(const Applied& applied, Actions& out);

  ParticipantState state() const { return state_; }
  const RoundKey& held() const { return held_; }
  Digest digest() const;  // of all state

 private:
  enum class Position {  // of a command's round: not ours or past, held, held + 1
    kOther,
    kHeld,
    kNext
  };

  Position place(const RoundKey& key, Actions& out);  // goes stale where this replica cannot follow
  void go_stale(const RoundKey& wanted, Actions& out);
  using Command = std::variant<OpenRound, CloseRound, ReducePlan, AbortRound, ResumeAt>;
  bool defer(Position position, Command command);
  void obey_deferred(Actions& out);
  void forget_round();
  void train(const OpenRound& round, Actions& out);
  void note_aborts(const OpenRound& round);
  void stop_reduce(Actions& out);
  void stop_work(Actions& out);
  void start_reduce(const ReducePlan& plan, Actions& out);
  void say_again(Actions& out) const;
  void commit_held(const CommitRound& command, Actions& out);
  void say_report(Actions& out) const;

  friend FieldAccess;
  friend constexpr auto fields_of(Of<Participant>) {
    using T = Participant;
    return fields<&T::self_, &T::late_, &T::state_, &T::held_, &T::open_, &T::report_, &T::plan_,
                  &T::vote_, &T::agreed_, &T::failure_, &T::taking_, &T::deferred_, &T::applied_>();
  }

  ReplicaId self_;
  WhenLate late_;
  ParticipantState state_ = ParticipantState::kIdle;
  RoundKey held_;

  // Belong to the round after `held_`; each is set once it is known and dropped with the round.
  std::optional<OpenRound> open_;
  std::optional<RoundReport> report_;
  std::optional<ReducePlan> plan_;       // the newest attempt
  std::optional<Vote> vote_;             // of that attempt
  std::optional<Digest> agreed_;         // with an audit: the average that it audits
  std::optional<ReduceFailed> failure_;  // of that attempt

  std::optional<CommitRound> taking_;  // the outer step under way
  // The newest command for the round after it; obeyed once the step is taken.
  std::optional<Command> deferred_;
  std::optional<Applied> applied_;  // of `held_`; none after loading
};

}  // namespace shoal::outer_opt
