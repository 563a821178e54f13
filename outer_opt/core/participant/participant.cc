// The transitions of one replica's rounds; participant.h has the table. Every command first finds
// its place against the round this replica holds (place()), so that the handlers below see only
// commands for the round that comes next. An answer once given is kept until the round ends and
// given again when the same command comes again.
#include "outer_opt/core/participant/participant.h"

#include <algorithm>

#include "base/check.h"
#include "base/field_digest.h"

namespace shoal::outer_opt {
namespace {

const ReduceMember* find_member(const ReducePlan& plan, ReplicaId replica) {
  const auto it = std::find_if(plan.members.begin(), plan.members.end(),
                               [&](const ReduceMember& m) { return m.replica == replica; });
  return it == plan.members.end() ? nullptr : &*it;
}

}  // namespace

WhenLate when_late(SyncAlgorithm algorithm) {
  return algorithm == SyncAlgorithm::kAsync ? WhenLate::kTrainsOn : WhenLate::kStops;
}

Participant::Participant(ReplicaId self, RoundKey held, WhenLate late)
    : self_(self), late_(late), held_(held) {}

// ---- what every command goes through

Participant::Position Participant::place(const RoundKey& key, Actions& out) {
  if (state_ == ParticipantState::kStale) return Position::kOther;
  if (key.job != held_.job || key.epoch < held_.epoch) return Position::kOther;
  const RoundNumber held = taking_ ? taking_->key.round : held_.round;
  if (key.epoch > held_.epoch || key.round > held + 1) {
    go_stale(key, out);
    return Position::kOther;
  }
  if (key.round == held + 1) return Position::kNext;
  return key.round == held ? Position::kHeld : Position::kOther;
}

void Participant::go_stale(const RoundKey& wanted, Actions& out) {
  stop_work(out);
  state_ = ParticipantState::kStale;
  out.push_back(GoStale{wanted});
}

bool Participant::defer(Position position, Command command) {
  if (position != Position::kNext || !taking_) return false;
  deferred_ = std::move(command);
  return true;
}

void Participant::say_report(Actions& out) const {
  if (report_) out.push_back(Say{*report_});
}

void Participant::stop_reduce(Actions& out) {
  if (state_ == ParticipantState::kReducing) out.push_back(StopReduce{plan_->attempt});
}

// (Re)starts training towards round.to_step; earlier attempts at averaging this round are history.
void Participant::train(const OpenRound& round, Actions& out) {
  stop_reduce(out);
  open_ = round;
  report_.reset();
  plan_.reset();
  vote_.reset();
  agreed_.reset();
  failure_.reset();
  state_ = ParticipantState::kTraining;
  out.push_back(Train{round});
}

// An order that adds no steps after an abort: what is said from now on answers it.
void Participant::note_aborts(const OpenRound& round) {
  if (!open_ || round.aborts <= open_->aborts) return;
  open_->aborts = round.aborts;
  if (report_) report_->aborts = round.aborts;
}

// ---- commands

void Participant::open(const OpenRound& round, Actions& out) {
  const Position position = place(round.key, out);
  if (position != Position::kNext || defer(position, round)) return;
  // More steps than this replica knows of: an abort was lost with a stream.
  if (open_ && round.to_step > open_->to_step) return train(round, out);
  note_aborts(round);
  switch (state_) {
    case ParticipantState::kIdle:
      return train(round, out);
    case ParticipantState::kReported:
      if (!open_) return train(round, out);  // a joiner whose attempt failed
      return say_report(out);
    case ParticipantState::kReducing:
    case ParticipantState::kVoted:
      return say_report(out);
    case ParticipantState::kTraining:
    case ParticipantState::kStale:
      return;
  }
}

void Participant::close(const CloseRound& command, Actions& out) {
  const Position position = place(command.key, out);
  if (position != Position::kNext || defer(position, command)) return;
  if (state_ == ParticipantState::kTraining) out.push_back(StopTraining{StopAt::kTogether});
  say_report(out);
}

void Participant::reduce(const ReducePlan& plan, Actions& out) {
  const Position position = place(plan.key, out);
  if (position != Position::kNext || defer(position, plan)) return;
  if (find_member(plan, self_) == nullptr) return;
  const bool newer = !plan_ || plan.attempt > plan_->attempt;
  if (newer) return start_reduce(plan, out);
  if (plan.attempt == plan_->attempt) say_again(out);
}

void Participant::start_reduce(const ReducePlan& plan, Actions& out) {
  stop_reduce(out);
  const bool late = state_ == ParticipantState::kTraining;
  if (late && late_ == WhenLate::kStops) out.push_back(StopTraining{StopAt::kAtOnce});
  if (plan.audited.empty()) {
    agreed_.reset();
  } else if (vote_) {
    agreed_ = vote_->average;
  }
  plan_ = plan;
  vote_.reset();
  failure_.reset();
  state_ = ParticipantState::kReducing;
  if (!plan.audited.empty() && !agreed_) {
    return reduce_failed({plan.key,
                          plan.attempt,
                          {},
                          ReduceFailure::kPlanMismatch,
                          "an audit of an average that it has not voted for"},
                         out);
  }
  const bool usable = report_ && report_->nonfinite == 0;
  out.push_back(StartReduce{plan, usable && find_member(plan, self_)->weight > 0});
}

void Participant::say_again(Actions& out) const {
  if (vote_) out.push_back(Say{*vote_});
  if (failure_) out.push_back(Say{*failure_});
}

void Participant::commit(const CommitRound& command, Actions& out) {
  const Position position = place(command.key, out);
  if (position == Position::kHeld) return commit_held(command, out);
  if (position != Position::kNext) return;
  const bool voted = state_ == ParticipantState::kVoted && vote_->average == command.average;
  const bool averaged = command.outcome == RoundOutcome::kAveraged;
  if (taking_ || (averaged && !voted)) return go_stale(command.key, out);
  if (!averaged) stop_work(out);
  taking_ = command;
  state_ = ParticipantState::kIdle;
  out.push_back(TakeOuterStep{command});
}

// Ends what is under way.
void Participant::stop_work(Actions& out) {
  stop_reduce(out);
  if (state_ == ParticipantState::kTraining) out.push_back(StopTraining{StopAt::kAtOnce});
}

// The round is applied already, or its state was loaded from a source: only what follows can be
// news.
void Participant::commit_held(const CommitRound& command, Actions& out) {
  if (taking_) return;
  if (applied_) out.push_back(Say{*applied_});
  if (state_ == ParticipantState::kIdle && !command.last) open(command.next, out);
}

void Participant::abort(const AbortRound& command, Actions& out) {
  const Position position = place(command.key, out);
  if (position != Position::kNext || defer(position, command)) return;
  const bool goes_on = command.next.key == command.key;
  const bool known = open_ && (!goes_on || command.next.to_step <= open_->to_step);
  if (goes_on && !known) return train(command.next, out);
  if (!known) return;
  const bool newer = command.next.aborts > open_->aborts;
  if (!newer && command.next.to_step < open_->to_step) return;
  // No steps to add, or this is the abort we obeyed: the report stands.
  note_aborts(command.next);
  say_report(out);
}

// What is under way belongs to the past epoch; an outer step that has begun is finished first.
void Participant::resume(const ResumeAt& command, Actions& out) {
  const bool ours = command.key.job == held_.job && command.key.epoch > held_.epoch;
  if (state_ == ParticipantState::kStale || !ours) return;
  if (taking_) {
    deferred_ = command;
    return;
  }
  if (command.key.round != held_.round) return go_stale(command.key, out);
  stop_work(out);
  forget_round();
  applied_.reset();
  held_ = command.key;
  state_ = ParticipantState::kIdle;
  out.push_back(ReturnToAnchor{command});
}

// ---- what the work came to

void Participant::boundary(const RoundReport& report, Actions& out) {
  if (state_ == ParticipantState::kIdle || state_ == ParticipantState::kStale) return;
  if (!open_ || report.key != open_->key || report_) return;
  report_ = report;
  report_->aborts = open_->aborts;
  if (state_ == ParticipantState::kTraining) state_ = ParticipantState::kReported;
  say_report(out);
}

void Participant::reduced(std::int32_t attempt, const Digest& average, const ReduceStats& stats,
                          const PartSeen& seen, Actions& out) {
  if (state_ != ParticipantState::kReducing || attempt != plan_->attempt) return;
  vote_ = Vote{plan_->key, attempt, agreed_.value_or(average), stats, seen};
  state_ = ParticipantState::kVoted;
  out.push_back(Say{*vote_});
}

void Participant::reduce_failed(const ReduceFailed& failure, Actions& out) {
  if (state_ != ParticipantState::kReducing || failure.attempt != plan_->attempt) return;
  if (failure.key != plan_->key) return;
  failure_ = failure;
  state_ = ParticipantState::kReported;
  out.push_back(Say{*failure_});
}

void Participant::outer_step_taken(const Applied& applied, Actions& out) {
  if (!taking_ || state_ == ParticipantState::kStale) return;
  SHOAL_CHECK(applied.key == taking_->key, "the outer step of another round");
  const CommitRound commit = std::move(*taking_);
  taking_.reset();
  held_ = commit.key;
  applied_ = applied;
  forget_round();
  out.push_back(Say{applied});
  if (!commit.last) open(commit.next, out);
  obey_deferred(out);
}

void Participant::forget_round() {
  open_.reset();
  report_.reset();
  plan_.reset();
  vote_.reset();
  agreed_.reset();
  failure_.reset();
}

void Participant::obey_deferred(Actions& out) {
  if (!deferred_) return;
  const auto command = std::move(*deferred_);
  deferred_.reset();
  if (const auto* round = std::get_if<OpenRound>(&command)) open(*round, out);
  if (const auto* close_round = std::get_if<CloseRound>(&command)) close(*close_round, out);
  if (const auto* plan = std::get_if<ReducePlan>(&command)) reduce(*plan, out);
  if (const auto* abort_round = std::get_if<AbortRound>(&command)) abort(*abort_round, out);
  if (const auto* resumption = std::get_if<ResumeAt>(&command)) resume(*resumption, out);
}

Digest Participant::digest() const { return digest_of_fields(*this); }

}  // namespace shoal::outer_opt
