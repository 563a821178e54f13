// The digest of a session: of every member of State, so that two sessions with one digest go on the
// same way. Lists come with their length: what ends one must not look like the beginning of the
// next.
#include "swarm/core/session/stage_session_state.h"

namespace shoal::swarm {

using State = StageSession::State;

namespace {

void add(Digester& d, const Microbatch& m) {
  d.add(m.round).add(m.step).add(m.router.n).add(m.index).add(static_cast<std::int32_t>(m.kind));
}

void add(Digester& d, const RouterProgress& p) {
  d.add(p.router.n).add(p.done_through).add(p.last);
}

void add(Digester& d, const std::vector<TaskId>& ids) {
  d.add(ids.size());
  for (const TaskId id : ids) d.add(id);
}

void add(Digester& d, const std::optional<Instant>& at) {
  d.add(at.has_value()).add(at ? at->ns : 0);
}

void add(Digester& d, const SessionStats& s) {
  d.add(s.queued).add(s.in_flight).add(s.microbatches).add(s.recomputed).add(s.resent).add(s.past);
  d.add(s.unknown).add(s.answered_only).add(s.refused).add(s.service.ns);
}

}  // namespace

void DueHeap::add_to(Digester& digester) const {
  digester.add(items_.size());
  for (const Due& due : items_) {
    add(digester, due.microbatch);
    digester.add(due.backward).add(due.task);
  }
}

void State::digest_tasks(Digester& d) const {
  d.add(slots.size());
  for (const Task& t : slots) {
    add(d, t.microbatch);
    d.add(t.id).add(t.from.n).add(t.attempt_in).add(t.to.n).add(t.attempt_out);
    d.add(static_cast<std::int32_t>(t.phase)).add(t.backward).add(t.dropped).add(t.adds);
    d.add(t.bad_tensors).add(t.service.ns).add(t.loss_sum).add(t.tokens.n);
  }
  d.add(free_slots.size());
  for (const std::uint32_t slot : free_slots) d.add(slot);
  d.add(index.size());
  for (const auto& [microbatch, task] : index) {
    add(d, microbatch);
    d.add(task);
  }
  ready.add_to(d);
  waiting.add_to(d);
  for (const StepBook& b : books) {
    b.ledger.add_to(d);
    d.add(b.drawn).add(b.live).add(b.tokens.n);
  }
  add(d, asked_logits);
  add(d, parked);
  d.add(computed_task).add(serial).add(budget.per_microbatch).add(budget.per_s).add(budget.burst);
  d.add(retry_tokens).add(refilled.ns);
  add(d, stats);
}

void State::digest_peers(Digester& d) const {
  d.add(view_number).add(in_view).add(members).add(senders).add(before).add(next);
  d.add(next_speed).add(window).add(received_max).add(routers.size());
  for (const ReplicaId router : routers) d.add(router.n);
  d.add(peers.size());
  for (const auto& [id, p] : peers) {
    d.add(id.n).add(p.stage).add(p.speed).add(p.in_view).add(p.connected).add(p.wired);
    d.add(p.measured).add(p.service.ns).add(p.tasks).add(p.told);
  }
  d.add(dialled.size());
  for (const PipelineMember& m : dialled) {
    d.add(m.replica.n).add(m.stage).add(m.address).add(m.speed);
  }
  d.add(pauses.size());
  for (const Pause& pause : pauses) d.add(pause.until.ns).add(pause.peer.n);
  wiring.add_to(d);
  add(d, unreachable_since);
  d.add(cut_off);
}

void State::digest_steps(Digester& d) const {
  d.add(held).add(opening).add(step).add(from).add(to).add(per_step).add(training).add(closing);
  d.add(stopping).add(stopped).add(check).add(heard).add(version).add(urgent).add(news);
  d.add(newcomer).add(progress.size());
  for (const auto& [id, p] : progress) {
    d.add(id.n);
    add(d, p);
  }
  d.add(ahead.round).add(ahead.step).add(ahead.routers.size());
  for (const RouterProgress& p : ahead.routers) add(d, p);
  d.add(opened.has_value());
  if (opened) d.add(opened->first.n).add(opened->second.n);
  add(d, word_due);
  d.add(evaluations.size());
  for (const Evaluation& e : evaluations) {
    d.add(e.key.job.n).add(e.key.lineage).add(e.key.round).add(e.slice.slice).add(e.slice.slices);
    d.add(e.slice.batches).add(e.microbatches).add(e.passes).add(e.drawn).add(e.answered);
    d.add(e.loss_sum).add(e.tokens.n).add(e.done);
  }
  d.add(logits_index).add(sampling);
  d.add(added_tokens.n).add(drawn_tokens.n).add(drawn_sum).add(loss_sum);
}

Digest StageSession::digest() const {
  Digester digester;
  state_->digest_tasks(digester);
  state_->digest_peers(digester);
  state_->digest_steps(digester);
  return digester.finish();
}

}  // namespace shoal::swarm
