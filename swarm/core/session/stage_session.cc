// Combines the machines of a session: every input goes to the machines that it concerns, their
// decisions are applied to the others, and settle() ends every call. The rules are in the machines;
// this file has only the order in which they are asked.
#include "swarm/core/session/stage_session.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/field_digest.h"
#include "swarm/core/session/draws.h"
#include "swarm/core/session/gossip_schedule.h"
#include "swarm/core/session/peers.h"
#include "swarm/core/session/reach.h"
#include "swarm/core/session/round_progress.h"
#include "swarm/core/session/step_barrier.h"
#include "swarm/core/session/step_books.h"
#include "swarm/core/session/tasks.h"

namespace shoal::swarm {

struct StageSession::State {
  State(const SessionOptions& session_options, RoundNumber held, std::int64_t step, Instant now);

  bool router() const { return options.stage == 0; }
  const std::vector<ReplicaId>& routers() const { return peers.roster().routers; }
  // The end of every call: takes what steps are over, draws, sends, tells.
  void settle(Instant now, SessionActions& out);

  // ---- tasks
  std::optional<RefusalReason> objection(ReplicaId sender, const Microbatch& microbatch) const;
  void finish(Task& task, SessionActions& out);
  void drop(Task& task, SessionActions& out);
  void drop_past(SessionActions& out);
  void admit();

  // ---- peers
  bool orphan(const Task& task, const Roster& roster) const;
  void drop_leavers(Instant now, const Roster& roster, SessionActions& out);
  void stream_ended(Instant now, ReplicaId id, SessionActions& out);
  bool way_round() const { return !router() && peers.roster().senders > 1; }
  void watch_reach(Instant now, SessionActions& out);
  void hand_back(SessionActions& out);

  // ---- steps
  void advance(SessionActions& out);
  void obey(const BarrierVerdict& verdict, SessionActions& out);
  void take_step(std::int64_t which, bool drained, SessionActions& out);
  void finish_step(std::int64_t next, SessionActions& out);
  void enter_step(std::int64_t next, SessionActions& out);
  void reach_boundary(SessionActions& out);
  void stop_now(SessionActions& out);
  void join_the_end(SessionActions& out);
  bool is_waited_for() const;
  void sit_out(SessionActions& out);
  void note_progress();
  void own_news();
  void spread(Instant now, SessionActions& out);

  const SessionOptions options;
  SessionStats stats;
  StepBooks books;
  Peers peers;
  Tasks tasks;
  Reach reach;
  StepBarrier barrier;
  RoundProgress progress;
  GossipSchedule gossip;
  Draws draws;  // of a router

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<State>) {
    using T = State;
    return fields<&T::options, &T::stats, &T::books, &T::peers, &T::tasks, &T::reach, &T::barrier,
                  &T::progress, &T::gossip, &T::draws>();
  }
};

using State = StageSession::State;

State::State(const SessionOptions& session_options, RoundNumber held, std::int64_t step,
             Instant now)
    : options(session_options),
      peers(options),
      tasks(options.stage + 1 == options.stages, books, peers.wiring(), stats, now),
      reach(options.unreachable_limit),
      barrier(options.schedule, held, step),
      progress(options.self),
      draws(options, books, barrier, progress) {
  SHOAL_CHECK(options.self && options.stage >= 0 && options.stage < options.stages);
  SHOAL_CHECK(options.microbatch > 0 && options.context > 0 && options.window_per_replica > 0);
  SHOAL_CHECK(options.unreachable_limit.ns > 0);
}

void State::settle(Instant now, SessionActions& out) {
  watch_reach(now, out);
  advance(out);
  admit();
  tasks.send_waiting(out);
  spread(now, out);
}

// ---- tasks

std::optional<RefusalReason> State::objection(ReplicaId sender, const Microbatch& m) const {
  if (barrier.is_past(m)) return RefusalReason::kPast;
  const bool stands_still = barrier.state() == BarrierState::kStopped;
  if (!peers.may_send_here(sender) || stands_still || (reach.cut_off() && way_round())) {
    return RefusalReason::kNotInView;
  }
  if (tasks.received_from(sender) >= peers.received_max()) return RefusalReason::kOverCredit;
  return std::nullopt;
}

void State::finish(Task& task, SessionActions& out) {
  if (task.own()) draws.came_back(task, out);
  tasks.finish(task, out);
}

void State::drop(Task& task, SessionActions& out) {
  if (task.own() && task.microbatch.kind == PassKind::kLogits) draws.sample_given_up();
  tasks.drop(task, out);
}

void State::drop_past(SessionActions& out) {
  tasks.for_each([&](Task& task) {
    if (!task.placed() || !barrier.is_past(task.microbatch)) return;
    tasks.refuse_up(task, RefusalReason::kPast, out);
    drop(task, out);
  });
}

void State::admit() {
  const bool ready = router() && peers.roster().in_view;
  if (!ready || barrier.state() == BarrierState::kStopping) return;
  while (books.live() < peers.window()) {
    const auto draw = draws.next();
    if (!draw) return;
    if (draw->asked != 0) {
      tasks.draw_asked(draw->asked, draw->microbatch);
    } else {
      tasks.draw(draw->microbatch);
    }
  }
}

// ---- peers

// No neighbor waits for its answer any more.
bool State::orphan(const Task& task, const Roster& roster) const {
  if (!roster.in_view) return true;
  if (!task.own() && !roster.names_neighbor(task.from)) return true;
  const ReplicaId drawn_by = task.microbatch.router;
  return peers.roster().names_router(drawn_by) && !roster.names_router(drawn_by);
}

void State::drop_leavers(Instant now, const Roster& roster, SessionActions& out) {
  tasks.for_each([&](Task& task) {
    if (task.placed() && orphan(task, roster)) {
      // Its sender may not hear of this view, only of one that names it again.
      tasks.refuse_up(task, RefusalReason::kNotInView, out);
      drop(task, out);
    } else if (task.state == TaskState::kBelow && !roster.names_neighbor(task.to)) {
      out.push_back(SendCancel{task.to, {task.microbatch, task.attempt_out}});
      tasks.retry(now, task);
    }
  });
  for (const ReplicaId id : routers()) {
    if (!roster.names_router(id)) progress.forget(id);
  }
}

void State::stream_ended(Instant now, ReplicaId id, SessionActions& out) {
  peers.ended(id);
  gossip.ended(id);
  tasks.for_each([&](Task& task) {
    if (task.from == id) {
      drop(task, out);
    } else if (task.state == TaskState::kBelow && task.to == id) {
      tasks.retry(now, task);
    }
  });
}

void State::watch_reach(Instant now, SessionActions& out) {
  const Roster& roster = peers.roster();
  const bool somebody = !roster.in_view || roster.next == 0 || peers.wiring().size() > 0;
  if (!reach.watch(now, somebody)) return;
  barrier.changed();
  if (way_round()) hand_back(out);
  out.push_back(CutOff{"none of the " + std::to_string(roster.next) + " replicas of stage " +
                       std::to_string(options.stage + 1) + " can be reached"});
}

// What came to be passed on goes back, for another replica of this stage; answers stay.
void State::hand_back(SessionActions& out) {
  tasks.for_each([&](Task& task) {
    if (task.answered() || task.state == TaskState::kPast) return;
    tasks.refuse_up(task, RefusalReason::kNotInView, out);
    drop(task, out);
  });
}

// ---- steps

void State::advance(SessionActions& out) {
  while (barrier.training() && !tasks.computing()) {
    if (barrier.state() == BarrierState::kStopping) return stop_now(out);
    if (!peers.roster().in_view) return;
    if (router() && barrier.unseen()) join_the_end(out);
    if (router() && barrier.unseen()) sit_out(out);
    if (router()) note_progress();
    if (!barrier.unseen()) return;
    barrier.seen();
    obey(barrier.decide(progress, routers()), out);
  }
}

void State::obey(const BarrierVerdict& verdict, SessionActions& out) {
  switch (verdict.kind) {
    case BarrierVerdict::Kind::kStay:
      return;
    case BarrierVerdict::Kind::kNextStep:
      return finish_step(verdict.step, out);
    case BarrierVerdict::Kind::kBoundary:
      return reach_boundary(out);
  }
}

void State::take_step(std::int64_t which, bool drained, SessionActions& out) {
  out.push_back(TakeStep{which, books.take(which), drained});
}

void State::finish_step(std::int64_t next, SessionActions& out) {
  // A late one skips steps, and it may have begun with the first of them.
  const std::int64_t step = barrier.step();
  const bool skips = next > step + 1, begun = books.of(step + 1).tokens.n > 0;
  take_step(step, skips && !begun, out);
  if (skips && begun) take_step(step + 1, true, out);
  enter_step(next, out);
}

void State::enter_step(std::int64_t next, SessionActions& out) {
  const std::int64_t left = barrier.step();
  barrier.enter(next);
  drop_past(out);
  if (next > left) books.close(left);
  if (next > left + 1) books.close(left + 1);
  if (next != barrier.opening()) draws.void_evaluations(out);
  // A router that was late: what it had drawn of the steps before is void.
  if (router() && barrier.training()) progress.catch_up(next - 1, next == barrier.end());
  own_news();
}

void State::reach_boundary(SessionActions& out) {
  const std::int64_t step = barrier.step();
  for (const std::int64_t begun : {step, step + 1}) {
    if (books.of(begun).tokens.n > 0) take_step(begun, false, out);
    books.begin_again(begun);
  }
  ReachBoundary reached = draws.boundary();
  reached.step = step;
  reached.tokens = books.taken();
  books.forget_taken();
  out.push_back(reached);
  barrier.reach_boundary();
}

void State::stop_now(SessionActions& out) {
  tasks.for_each([&](Task& task) {
    if (!task.placed()) return;
    tasks.refuse_up(task, RefusalReason::kNotInView, out);
    drop(task, out);
  });
  draws.void_evaluations(out);
  reach_boundary(out);
}

// The round ends when one router says so. The other routers end at the same step, or at their
// current one if they are ahead, because no replica may be left to compute for them. In the last
// step of the round no router ends early: a late one still draws its share, and the others wait.
void State::join_the_end(SessionActions& out) {
  if (progress.own_last()) return;
  const std::int64_t step = barrier.step();
  const auto first_end = progress.first_end(step);  // 2bw: some may end a step ahead of this one
  if (!first_end) return;
  if (*first_end + 1 < barrier.end()) barrier.close();
  // Having said that it is done with this step, it ends in the next one.
  if (*first_end >= step || progress.own_done() >= step) return;
  tasks.for_each([&](Task& task) {
    if (task.own() && task.placed() && task.microbatch.kind == PassKind::kTrain) drop(task, out);
  });
  progress.done(step - 1, true);
  own_news();
}

// Another router that this one hears is through with the step.
bool State::is_waited_for() const {
  return std::any_of(routers().begin(), routers().end(), [&](ReplicaId id) {
    return progress.is_through(id, barrier.step()) && peers.has_stream(id);
  });
}

// Cut off from the next stage, a router holds nobody up: what it drew of this step is void. Where
// all of them are cut off there is nobody to hold up, and it waits with what it has.
void State::sit_out(SessionActions& out) {
  const std::int64_t step = barrier.step();
  if (!reach.cut_off() || progress.own_last() || progress.own_done() >= step) return;
  if (!is_waited_for()) return;
  tasks.for_each([&](Task& task) {
    const bool later = task.placed() && task.microbatch.step > step;
    if (task.own() && !later) drop(task, out);
  });
  draws.skip(step, out);
}

// A router says that it is done, once per step.
void State::note_progress() {
  std::int64_t step = std::max(barrier.step(), progress.own_done() + 1);
  for (; step <= barrier.open_to() && draws.done_with(step); ++step) {
    progress.done(step, draws.ends_with(step));
    own_news();
  }
}

void State::own_news() {
  gossip.own_news();
  barrier.changed();
}

void State::spread(Instant now, SessionActions& out) {
  if (!gossip.due(now)) return;
  gossip.tell(now, progress.gossip(barrier.held() + 1, barrier.step()), out);
}

// ---- the calls

StageSession::StageSession(const SessionOptions& options, RoundNumber held, std::int64_t step,
                           Instant now)
    : state_(std::make_unique<State>(options, held, step, now)) {}
StageSession::~StageSession() = default;

void StageSession::view(Instant now, const PipelineView& view, SessionActions& out) {
  State& s = *state_;
  if (view.number <= s.peers.roster().number) return;
  const Roster roster(view, s.options);
  s.drop_leavers(now, roster, out);
  s.peers.take(view, roster, out);
  s.barrier.changed();
  s.settle(now, out);
}

void StageSession::open(Instant now, const OpenRound& round, SessionActions& out) {
  State& s = *state_;
  if (!s.barrier.is_new(round)) return;
  const bool late = s.barrier.training();
  s.draws.open(round);
  s.barrier.open(round);
  s.progress.begin(round.from_step.count());
  const std::int64_t heard = s.progress.heard();
  if (!late && heard > s.barrier.step()) s.enter_step(heard, out);
  s.settle(now, out);
}

void StageSession::close(Instant now, SessionActions& out) {
  State& s = *state_;
  if (!s.barrier.training() || !s.router()) return;
  s.barrier.close();
  s.settle(now, out);
}

void StageSession::stop(Instant now, SessionActions& out) {
  State& s = *state_;
  if (!s.barrier.training()) return;
  s.barrier.stop();
  s.settle(now, out);
}

void StageSession::committed(Instant now, RoundNumber round, std::int64_t step,
                             SessionActions& out) {
  State& s = *state_;
  if (round <= s.barrier.held()) return;
  SHOAL_CHECK(!(s.barrier.training() && s.tasks.computing()), "a commit before the boundary");
  s.draws.committed(out);
  s.barrier.commit(round, step);
  s.progress.next_round(round);
  s.drop_past(out);
  s.books.clear();
  s.enter_step(step, out);
  s.settle(now, out);
}

void StageSession::evaluate(Instant now, const RoundKey& key, const EvalSlice& slice,
                            std::int64_t microbatches, SessionActions& out) {
  State& s = *state_;
  SHOAL_CHECK(s.router());
  s.draws.evaluate(key, slice, microbatches, out);
  s.settle(now, out);
}

TaskId StageSession::logits(Instant now, SessionActions& out) {
  State& s = *state_;
  SHOAL_CHECK(s.router());
  const TaskId asked = s.tasks.ask();
  s.draws.ask(asked);
  s.settle(now, out);
  return asked;
}

void StageSession::sampled(Instant now, SessionActions& out) {
  State& s = *state_;
  s.tasks.for_each([&](Task& task) {
    const bool own = task.own() && task.microbatch.kind == PassKind::kLogits;
    if (task.state == TaskState::kAsked || own) s.drop(task, out);
  });
  s.draws.sample_over();
  s.barrier.changed();
  s.settle(now, out);
}

void StageSession::connected(Instant now, ReplicaId id, SessionActions& out) {
  State& s = *state_;
  if (s.peers.has_stream(id)) s.stream_ended(now, id, out);
  s.peers.connected(id);
  s.gossip.connected(id);
  s.settle(now, out);
}

void StageSession::lost(Instant now, ReplicaId id, SessionActions& out) {
  State& s = *state_;
  if (!s.peers.has_stream(id)) return;
  s.stream_ended(now, id, out);
  s.settle(now, out);
}

std::optional<TaskId> StageSession::forward(Instant, ReplicaId from, const ForwardHeader& header,
                                            SessionActions& out) {
  State& s = *state_;
  if (!s.peers.has_stream(from) || s.tasks.received(from, header) != nullptr) {
    ++s.stats.unknown;
    return std::nullopt;
  }
  if (const auto reason = s.objection(from, header.microbatch)) {
    if (*reason == RefusalReason::kPast) ++s.stats.past;
    out.push_back(SendRefusal{from, header, *reason});
    return std::nullopt;
  }
  return s.tasks.arrive(from, header);
}

std::optional<TaskId> StageSession::backward(Instant now, ReplicaId from,
                                             const BackwardHeader& header, SessionActions& out) {
  State& s = *state_;
  Task* task = s.tasks.below(from, {header.microbatch, header.attempt});
  if (task == nullptr) {
    ++s.stats.unknown;
    return std::nullopt;
  }
  const TaskId id = task->id;
  s.peers.wiring().give_back(from);
  if (s.tasks.take_answer(*task, header)) {
    s.finish(*task, out);
  } else {
    s.peers.measured(from, header.service);
  }
  s.settle(now, out);
  return id;
}

void StageSession::cancelled(Instant now, ReplicaId from, const ForwardHeader& header,
                             SessionActions& out) {
  State& s = *state_;
  Task* task = s.tasks.received(from, header);
  if (task == nullptr) return;
  s.drop(*task, out);
  s.settle(now, out);
}

void StageSession::refused(Instant now, ReplicaId from, const ForwardHeader& header,
                           RefusalReason reason, SessionActions& out) {
  State& s = *state_;
  Task* task = s.tasks.below(from, header);
  if (task == nullptr) {
    ++s.stats.unknown;
    return;
  }
  ++s.stats.refused;
  s.peers.wiring().give_back(from);
  if (reason == RefusalReason::kPast) {
    s.tasks.refused_as_past(*task);
    return s.settle(now, out);
  }
  s.peers.pause(now, from);
  if (reason == RefusalReason::kBadTensor && ++task->bad_tensors == kBadTensorsMax) {
    out.push_back(GiveUp{"the next stage refuses what this replica computes (bad tensor)"});
  }
  s.tasks.retry(now, *task);
  s.settle(now, out);
}

void StageSession::gossip(Instant now, ReplicaId from, const ProgressGossip& gossip,
                          SessionActions& out) {
  State& s = *state_;
  if (!s.peers.has_stream(from)) {
    ++s.stats.unknown;
    return;
  }
  const RoundProgress::News news = s.progress.hear(gossip, s.barrier.held());
  if (news != RoundProgress::News::kNone) s.barrier.changed();
  if (news == RoundProgress::News::kRouters) s.gossip.heard_news(now);
  s.advance(out);
  const bool of_this_step = gossip.round == s.barrier.held() + 1 && gossip.step >= s.barrier.step();
  if (of_this_step && s.progress.is_known_to_sender_of(gossip)) s.gossip.knows(from);
  s.settle(now, out);
}

std::optional<Compute> StageSession::next() {
  State& s = *state_;
  SHOAL_CHECK(!s.tasks.computing(), "a pass is being computed");
  const Due* due = s.tasks.next();
  if (due == nullptr || !s.peers.roster().in_view || !s.barrier.may_compute(due->microbatch)) {
    return std::nullopt;
  }
  return s.tasks.begin();
}

void StageSession::computed(Instant now, Duration service, double loss_sum, Tokens tokens,
                            SessionActions& out) {
  State& s = *state_;
  if (Task* done = s.tasks.computed(service, loss_sum, tokens, out)) s.finish(*done, out);
  s.settle(now, out);
}

void StageSession::tick(Instant now, SessionActions& out) {
  state_->peers.unpause(now);
  state_->tasks.unpark(now);
  state_->settle(now, out);
}

std::optional<Instant> StageSession::next_deadline() const {
  const State& s = *state_;
  std::optional<Instant> first;
  for (const auto& each : {s.gossip.next_deadline(), s.peers.next_deadline(),
                           s.tasks.next_deadline(), s.reach.next_deadline()}) {
    if (each) first = first ? std::min(*first, *each) : *each;
  }
  return first;
}

bool StageSession::training() const { return state_->barrier.training(); }
std::int64_t StageSession::step() const { return state_->barrier.step(); }

SessionStats StageSession::stats() const {
  SessionStats stats = state_->stats;
  const Tasks& tasks = state_->tasks;
  stats.queued = tasks.count(TaskState::kQueued) + tasks.count(TaskState::kReturned);
  stats.in_flight = tasks.count(TaskState::kBelow);
  return stats;
}

Digest StageSession::digest() const { return digest_of_fields(*state_); }

}  // namespace shoal::swarm
