// The calls of the coordinator and of the device; what they do to tasks, peers and steps is in the
// files beside this one (stage_session_state.h).
#include "swarm/core/session/stage_session.h"

#include <algorithm>

#include "base/check.h"
#include "swarm/core/session/stage_session_state.h"

namespace shoal::swarm {

using State = StageSession::State;

State::State(const SessionOptions& session_options, RoundNumber held_round, std::int64_t first_step,
             Instant now)
    : options(session_options),
      retry_tokens(budget.burst),
      refilled(now),
      wiring(session_options.wiring, session_options.seed),
      held(held_round),
      opening(first_step),
      step(first_step) {
  SHOAL_CHECK(options.self && options.stage >= 0 && options.stage < options.stages);
  SHOAL_CHECK(options.microbatch > 0 && options.context > 0 && options.window_per_replica > 0);
  SHOAL_CHECK(options.unreachable_limit.ns > 0);
}

void State::settle(Instant now, SessionActions& out) {
  watch_reach(now, out);
  advance(out);
  admit();
  send_waiting(out);
  spread(now, out);
}

StageSession::StageSession(const SessionOptions& options, RoundNumber held, std::int64_t step,
                           Instant now)
    : state_(std::make_unique<State>(options, held, step, now)) {}
StageSession::~StageSession() = default;

void StageSession::open(Instant now, const OpenRound& round, SessionActions& out) {
  State& s = *state_;
  const std::pair steps(round.from_step, round.to_step);
  if (round.key.round != s.held + 1 || s.opened == steps) return;
  s.opened = steps;
  s.begin_opening(round, out);
  s.settle(now, out);
}

void StageSession::close(Instant now, SessionActions& out) {
  State& s = *state_;
  if (!s.training || !s.router()) return;
  s.closing = true;
  s.settle(now, out);
}

void StageSession::stop(Instant now, SessionActions& out) {
  State& s = *state_;
  if (!s.training) return;
  s.stopping = true;
  s.settle(now, out);
}

void StageSession::committed(Instant now, RoundNumber round, std::int64_t step,
                             SessionActions& out) {
  State& s = *state_;
  if (round <= s.held) return;
  SHOAL_CHECK(!(s.training && s.computing()), "a commit before the boundary");
  s.void_evaluations(out);
  s.evaluations.clear();
  s.held = round;
  s.opening = step;
  s.training = s.closing = s.stopping = s.stopped = false;
  s.opened.reset();
  s.from = s.to = 0;
  s.drawn_sum = 0;
  s.added_tokens = s.drawn_tokens = {};
  s.loss_sum = 0;
  s.progress.clear();
  s.heard = -1;
  if (s.ahead.round == round + 1) {
    s.heard = s.ahead.step;
    s.merge(s.ahead.routers);
  }
  s.drop_past(out);
  s.books = {};
  s.enter_step(step, out);
  s.settle(now, out);
}

void StageSession::evaluate(Instant now, const RoundKey& key, const EvalSlice& slice,
                            std::int64_t microbatches, SessionActions& out) {
  State& s = *state_;
  SHOAL_CHECK(s.router() && microbatches > 0);
  for (const Evaluation& e : s.evaluations) {
    if (e.key != key || e.slice != slice) continue;
    if (e.done) out.push_back(EvaluationDone{e.key, e.slice, e.loss_sum, e.tokens});
    return;
  }
  Evaluation e{.key = key, .slice = slice, .microbatches = microbatches};
  if (slice.slices > 0 && slice.slice < slice.batches) {
    e.passes = ((slice.batches - slice.slice - 1) / slice.slices + 1) * microbatches;
  }
  const bool in_time = key.round == s.held && s.step == s.opening && s.own_done() < s.step;
  e.done = e.passes == 0 || !in_time;
  if (e.done) out.push_back(EvaluationDone{key, slice, 0, {}});
  s.evaluations.push_back(e);
  s.settle(now, out);
}

TaskId StageSession::logits(Instant now, SessionActions& out) {
  State& s = *state_;
  SHOAL_CHECK(s.router());
  s.sampling = true;
  Task& task = s.reserve();
  task.phase = TaskPhase::kAsked;
  const TaskId id = task.id;
  s.asked_logits.push_back(id);
  s.settle(now, out);
  return id;
}

void StageSession::sampled(Instant now, SessionActions& out) {
  State& s = *state_;
  for (Task& task : s.slots) {
    const bool asked = task.phase == TaskPhase::kAsked;
    const bool own = !task.from && task.microbatch.kind == PassKind::kLogits;
    if (task.id != 0 && !task.dropped && (asked || own)) s.drop(task, out);
  }
  s.asked_logits.clear();
  s.sampling = false;
  s.check = true;
  s.settle(now, out);
}

void StageSession::word(Instant now, ReplicaId from, const StepWord& word, SessionActions& out) {
  State& s = *state_;
  Peer* peer = s.peers.find(from);
  if (peer == nullptr || !peer->connected) {
    ++s.stats.unknown;
    return;
  }
  s.hear(word);
  s.advance(out);
  if (s.told_by(word)) peer->told = s.version;
  s.settle(now, out);
}

Compute State::begin(Task& task) {
  const Microbatch& m = task.microbatch;
  StepLedger::Entry& done = book(m.step).ledger.of(m);
  Compute compute{.task = task.id, .kind = ComputeKind::kForward, .microbatch = m};
  if (task.backward) {
    compute.kind = ComputeKind::kBackward;
  } else {
    if (last_stage()) compute.kind = ComputeKind::kLast;
    stats.recomputed += done.forwards++ > 0;
  }
  if (m.kind == PassKind::kTrain && compute.kind != ComputeKind::kForward) {
    compute.add = task.adds = !done.added;
    done.added = true;
    stats.answered_only += !compute.add;
  }
  task.phase = TaskPhase::kComputing;
  computed_task = task.id;
  return compute;
}

std::optional<Compute> StageSession::next() {
  State& s = *state_;
  SHOAL_CHECK(!s.computing(), "a pass is being computed");
  while (!s.ready.empty()) {
    const Due due = s.ready.top();
    Task* task = s.find(due.task);
    if (task != nullptr && task->phase == TaskPhase::kQueued && task->backward == due.backward) {
      if (!s.may_compute(due.microbatch)) return std::nullopt;
      s.ready.pop();
      return s.begin(*task);
    }
    s.ready.pop();
  }
  return std::nullopt;
}

void StageSession::computed(Instant now, Duration service, double loss_sum, Tokens tokens,
                            SessionActions& out) {
  State& s = *state_;
  SHOAL_CHECK(s.computing(), "nothing is being computed");
  Task& task = *s.find(s.computed_task);
  s.computed_task = 0;
  task.service = task.service + service;
  if (s.last_stage()) task.loss_sum = loss_sum, task.tokens = tokens;
  if (task.adds) s.book(task.microbatch.step).tokens += task.tokens;
  task.adds = false;
  if (task.dropped) {
    s.release(task, out);
  } else if (task.backward || s.last_stage()) {
    s.finish(task, out);
  } else {
    s.wait(task);
  }
  s.settle(now, out);
}

void StageSession::tick(Instant now, SessionActions& out) {
  state_->unpause(now);
  state_->unpark(now);
  state_->settle(now, out);
}

std::optional<Instant> StageSession::next_deadline() const {
  const State& s = *state_;
  std::optional<Instant> first = s.word_due;
  const auto also = [&first](Instant when) { first = first ? std::min(*first, when) : when; };
  if (!s.pauses.empty()) also(s.pauses.front().until);
  if (!s.parked.empty()) {
    also(s.refilled + seconds_f(std::max(0.0, 1 - s.retry_tokens) / s.budget.per_s) +
         milliseconds(1));
  }
  if (s.unreachable_since && !s.cut_off) also(*s.unreachable_since + s.options.unreachable_limit);
  return first;
}

bool StageSession::training() const { return state_->training; }
std::int64_t StageSession::step() const { return state_->step; }

SessionStats StageSession::stats() const {
  SessionStats stats = state_->stats;
  for (const Task& task : state_->slots) {
    if (task.id == 0) continue;
    stats.queued += task.phase == TaskPhase::kQueued;
    stats.in_flight += task.phase == TaskPhase::kBelow;
  }
  return stats;
}

}  // namespace shoal::swarm
