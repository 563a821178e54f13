// How an inner step ends and the next begins: step words, the barrier, boundaries, and what a
// router draws. The barrier is looked at only when something has changed that it depends on, and
// never while a pass is computed. A word goes out at once when the own step or progress changed;
// news of others wait a moment for more, since whoever has all of it moves on and says so.
#include <algorithm>

#include "base/check.h"
#include "swarm/core/session/stage_session_state.h"

namespace shoal::swarm {

using State = StageSession::State;

bool State::all_done(std::int64_t asked) const {
  return !routers.empty() && std::all_of(routers.begin(), routers.end(), [&](ReplicaId id) {
    const RouterProgress* p = progress.find(id);
    return p != nullptr && (p->done_through >= asked || counts_as_last(*p));
  });
}

bool State::at_end() const {
  return !routers.empty() && std::all_of(routers.begin(), routers.end(), [&](ReplicaId id) {
    const RouterProgress* p = progress.find(id);
    return p != nullptr && counts_as_last(*p) && p->done_through < step;
  });
}

void State::advance(SessionActions& out) {
  while (training && !computing()) {
    if (stopping) return stop_now(out);
    if (!in_view) return;
    if (check) join_the_end(out);
    if (check) sit_out(out);
    note_progress();
    if (!check) return;
    check = false;
    if (at_end()) return reach_boundary(out);
    if (heard > step) {
      finish_step(heard, out);
    } else if (all_done(step)) {
      finish_step(step + 1, out);
    }
  }
}

void State::take_step(std::int64_t which, bool drained, SessionActions& out) {
  Tokens& tokens = book(which).tokens;
  out.push_back(TakeStep{which, tokens, drained});
  added_tokens += tokens;
  tokens = {};
}

void State::finish_step(std::int64_t next_step, SessionActions& out) {
  // A late one skips steps, and it may have begun with the first of them.
  const bool skips = next_step > step + 1, begun = book(step + 1).tokens.n > 0;
  take_step(step, skips && !begun, out);
  if (skips && begun) take_step(step + 1, true, out);
  enter_step(next_step, out);
}

void State::close_book(std::int64_t of_step) {
  StepBook& closed = book(of_step);
  SHOAL_CHECK(closed.live == 0 && closed.tokens.n == 0, "an inner step is left unfinished");
  closed.drawn = 0;
  closed.ledger.clear();
}

void State::enter_step(std::int64_t next_step, SessionActions& out) {
  const std::int64_t left = step;
  step = next_step;
  drop_past(out);
  if (step > left) close_book(left);
  if (step > left + 1) close_book(left + 1);
  if (step != opening) void_evaluations(out);
  // A router that was late: what it had drawn of the steps before is void.
  if (router() && training) {
    RouterProgress& own = progress[options.self];
    if (!counts_as_last(own) && own.done_through < step - 1) {
      own = {options.self, step - 1, step == to};
    }
    own.router = options.self;
  }
  changed(true);
}

void State::reach_boundary(SessionActions& out) {
  for (const std::int64_t begun : {step, step + 1}) {
    if (book(begun).tokens.n > 0) take_step(begun, false, out);
    book(begun).ledger.forget_added();
    book(begun).drawn = 0;
  }
  out.push_back(ReachBoundary{step, drawn_sum, added_tokens, loss_sum, drawn_tokens});
  training = closing = stopping = false;
  drawn_sum = 0;
  added_tokens = drawn_tokens = {};
  loss_sum = 0;
}

void State::stop_now(SessionActions& out) {
  for (Task& task : slots) {
    if (task.id == 0 || task.phase == TaskPhase::kAsked) continue;
    refuse_up(task, RefusalReason::kNotInView, out);
    drop(task, out);
  }
  void_evaluations(out);
  stopped = true;
  opened.reset();  // without progress, the next opening may be the same
  reach_boundary(out);
}

void State::begin_opening(const OpenRound& round, SessionActions& out) {
  const std::int64_t steps = round.to_step.count() - round.from_step.count();
  SHOAL_CHECK(steps > 0, "a round without steps");
  const bool late = training;
  from = round.from_step.count();
  to = round.to_step.count();
  // One that is late draws for the steps that it is behind as well.
  const std::int64_t to_come = late ? std::max(steps, to - step) : steps;
  const std::int64_t leased = count_sequences(round.leases);
  per_step = leased > 0 ? std::max<std::int64_t>(1, leased / to_come / options.microbatch) : 0;
  training = true;
  closing = stopping = stopped = false;
  for (auto& [id, p] : progress) p.last = counts_as_last(p);
  heard = std::max(heard, from);
  if (!late && heard > step) enter_step(heard, out);
  check = true;
}

std::int64_t State::own_done() const {
  const RouterProgress* own = progress.find(options.self);
  return own == nullptr ? -1 : own->done_through;
}

bool State::own_last() const {
  const RouterProgress* own = progress.find(options.self);
  return own != nullptr && counts_as_last(*own);
}

std::int64_t State::to_draw(std::int64_t of_step) const {
  if (!training || of_step >= to || own_last()) return 0;
  return closing && book(of_step).drawn == 0 ? 0 : per_step;
}

bool State::logits_allowed() const { return !training || (step == opening && own_done() < step); }

bool State::evaluating() const {
  return std::any_of(evaluations.begin(), evaluations.end(),
                     [](const Evaluation& e) { return !e.done; });
}

// The round ends when one router says so: the others join it, at the same step or, who had gone on,
// at the one they are in. There may be nobody left who computes for them. In the last step of the
// round nobody ends early: who comes late to it still draws its share, and the others wait.
void State::join_the_end(SessionActions& out) {
  if (!router() || own_last()) return;
  bool over = false;
  for (const auto& [id, p] : progress) {
    if (!counts_as_last(p) || p.done_through > step) continue;  // 2bw: a step ahead of this one
    closing = closing || p.done_through + 1 < to;
    over = over || p.done_through < step;
  }
  // Having said that it is done with this step, it ends in the next one.
  if (over && own_done() < step) end_now(out);
}

void State::end_now(SessionActions& out) {
  for (Task& task : slots) {
    if (task.id != 0 && !task.from && task.phase != TaskPhase::kAsked &&
        task.microbatch.kind == PassKind::kTrain)
      drop(task, out);
  }
  progress.put(options.self, {options.self, step - 1, true});
  changed(true);
}

// Another router that this one hears is through with the step.
bool State::is_waited_for() const {
  return std::any_of(routers.begin(), routers.end(), [&](ReplicaId id) {
    const RouterProgress* p = progress.find(id);
    const Peer* peer = peers.find(id);
    return p != nullptr && p->done_through >= step && peer != nullptr && peer->connected;
  });
}

// Cut off from the next stage, a router holds nobody up: what it drew of this step is void. Where
// all of them are cut off there is nobody to hold up, and it waits with what it has.
void State::sit_out(SessionActions& out) {
  if (!cut_off || !router() || own_last() || own_done() >= step || !is_waited_for()) return;
  for (Task& task : slots) {
    const bool later = task.phase != TaskPhase::kAsked && task.microbatch.step > step;
    if (task.id != 0 && !task.dropped && !task.from && !later) drop(task, out);
  }
  asked_logits.clear();
  sampling = false;
  void_evaluations(out);
  StepBook& own = book(step);
  own.drawn = std::max(own.drawn, to_draw(step));
}

bool State::done_with(std::int64_t of_step) const {
  const StepBook& own = book(of_step);
  if (of_step >= to || own_last() || own.live > 0 || own.drawn < to_draw(of_step)) return false;
  return of_step > step || !(evaluating() || (sampling && logits_allowed()));
}

// A router says that it is done, once per step.
void State::note_progress() {
  if (!router()) return;
  for (std::int64_t s = std::max(step, own_done() + 1); s <= open_to() && done_with(s); ++s) {
    const bool ends = closing && book(s + 1).drawn == 0;
    progress.put(options.self, {options.self, s, ends || s + 1 >= to});
    changed(true);
  }
}

void State::admit() {
  if (!router() || !in_view || stopping) return;
  while (own_live() < window && admit_one()) {
  }
}

bool State::admit_one() {
  if (admit_evaluation()) return true;
  Microbatch m{held + 1, step, options.self, 0, PassKind::kLogits};
  if (!asked_logits.empty() && logits_allowed()) {
    m.index = logits_index++;
    Task* asked = find(asked_logits.front());
    asked_logits.erase(asked_logits.begin());
    enlist(*asked, m, {}, 1);
    return true;
  }
  m.kind = PassKind::kTrain;
  for (m.step = step; m.step <= open_to(); ++m.step) {
    StepBook& own = book(m.step);
    if (own.drawn >= to_draw(m.step)) continue;
    m.index = static_cast<std::int32_t>(own.drawn++);
    enlist(reserve(), m, {}, 1);
    return true;
  }
  return false;
}

bool State::admit_evaluation() {
  const auto e = std::find_if(evaluations.begin(), evaluations.end(),
                              [](const Evaluation& one) { return !one.done; });
  if (e == evaluations.end() || e->drawn == e->passes) return false;
  const std::int64_t batch = e->slice.slice + e->drawn / e->microbatches * e->slice.slices;
  const std::int64_t index = batch * e->microbatches + e->drawn % e->microbatches;
  ++e->drawn;
  enlist(reserve(),
         {held + 1, step, options.self, static_cast<std::int32_t>(index), PassKind::kLoss}, {}, 1);
  return true;
}

void State::void_evaluations(SessionActions& out) {
  for (Evaluation& e : evaluations) {
    if (e.done) continue;
    e.done = true;
    e.loss_sum = 0;
    e.tokens = {};
    out.push_back(EvaluationDone{e.key, e.slice, 0, {}});
  }
}

void State::changed(bool urgent_news) {
  ++version;
  news = true;
  urgent = urgent || urgent_news;
  check = true;
}

bool State::merge(const std::vector<RouterProgress>& told) {
  bool grew = false;
  for (RouterProgress p : told) {
    if (p.router == options.self) continue;
    p.last = counts_as_last(p);  // else it is of an opening before this one
    RouterProgress& mine = progress[p.router];
    const bool newer = p.done_through > mine.done_through;
    if (!newer && !(p.done_through == mine.done_through && p.last && !mine.last)) continue;
    mine = p;
    grew = true;
  }
  return grew;
}

void State::hear(const StepWord& word) {
  if (word.round <= held) return;
  if (word.round == held + 1) {
    if (word.step > heard) heard = word.step, check = true;
    if (merge(word.routers)) changed(false);
  } else if (word.round > ahead.round) {
    ahead = word;
  } else if (word.round == ahead.round) {
    ahead.step = std::max(ahead.step, word.step);
    ahead.routers.insert(ahead.routers.end(), word.routers.begin(), word.routers.end());
    std::sort(ahead.routers.begin(), ahead.routers.end(), [](const auto& a, const auto& b) {
      return a.router != b.router ? a.router < b.router : a.done_through > b.done_through;
    });
    const auto same = [](const auto& a, const auto& b) { return a.router == b.router; };
    ahead.routers.erase(std::unique(ahead.routers.begin(), ahead.routers.end(), same),
                        ahead.routers.end());
  }
}

bool State::told_by(const StepWord& word) const {
  if (word.round != held + 1 || word.step < step) return false;
  auto it = word.routers.begin();
  for (const auto& [id, mine] : progress) {
    while (it != word.routers.end() && it->router < id) ++it;
    if (it == word.routers.end() || it->router != id) return false;
    if (it->done_through < mine.done_through || (mine.last && !it->last)) return false;
  }
  return true;
}

void State::spread(Instant now, SessionActions& out) {
  if (news && !word_due) word_due = now + kWordDelay;
  news = false;
  const bool all = urgent || (word_due && *word_due <= now);
  if (!all && !newcomer) return;
  StepWord word{held + 1, step, {}};
  for (const auto& [id, p] : progress) word.routers.push_back(p);
  for (auto& [id, peer] : peers) {
    if (!peer.connected || !(all ? peer.told < version : peer.told == 0)) continue;
    peer.told = version;
    out.push_back(SendWord{id, word});
  }
  newcomer = false;
  if (all) urgent = false, word_due.reset();
}

}  // namespace shoal::swarm
