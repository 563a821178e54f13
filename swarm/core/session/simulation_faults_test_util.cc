// What surrounds the nodes of the simulation: streams that break, faults, and the coordinator.
#include <algorithm>

#include "swarm/core/session/simulation_test_util.h"

namespace shoal::swarm {
namespace {
constexpr Duration kFaultsEnd = seconds(60);  // of virtual time
}

// ---- streams

Simulation::Stream& Simulation::stream(ReplicaId a, ReplicaId b) {
  const auto key = std::minmax(a, b);
  Stream& s = streams_[{key.first, key.second}];
  if (!s.dialer) s.dialer = a, s.acceptor = b;
  return s;
}

void Simulation::send(ReplicaId from, ReplicaId to, Frame frame) {
  Stream& s = stream(from, to);
  const int side = s.dialer == from ? 0 : 1;
  if (!s.up || !s.side_up[side]) return;
  if (std::holds_alternative<Answered>(frame) && prng_.chance(options_.lose_answer)) return;
  Instant& last = s.last[side];
  last = std::max(last, now_ + microseconds(50) + random(options_.latency_max));
  at(last - now_, [this, &s, from, to, side, epoch = s.epoch, frame = std::move(frame)] {
    if (!s.up || s.epoch != epoch) return;
    deliver(node(to), [this, &s, from, to, side, epoch, frame] {
      if (s.epoch == epoch && s.side_up[1 - side]) receive(node(to), from, frame);
    });
  });
}

void Simulation::receive(Node& n, ReplicaId from, const Frame& frame) {
  call(n, [&](StageSession& s, SessionActions& out) {
    std::visit(Overloaded{
                   [&](const Forwarded& f) {
                     const auto id = s.forward(now_, from, f.header, out);
                     if (id)
                       n.tasks[*id] = {.microbatch = f.header.microbatch, .input = f.instance};
                   },
                   [&](const Answered& a) {
                     const auto id = s.backward(now_, from, a.header, out);
                     if (!id) return;
                     --n.owed[from];
                     KnownTask& task = n.tasks[*id];
                     const bool other = prng_.chance(options_.swap_answer);
                     if (task.output != a.instance + other)
                       violate(n, "a gradient of another output");
                     task.queued = task.backward = task.microbatch.kind == PassKind::kTrain;
                   },
                   [&](const Cancelled& c) { s.cancelled(now_, from, c.header, out); },
                   [&](const Refused& r) {
                     const auto before = s.stats().refused;
                     s.refused(now_, from, r.header, r.reason, out);
                     n.owed[from] -= s.stats().refused > before;
                   },
                   [&](const ProgressGossip& w) { s.gossip(now_, from, w, out); },
               },
               frame);
  });
}

void Simulation::snap(Stream& s, Duration notice_max) {
  s.up = false;
  for (int side = 0; side < 2; ++side) {
    at(random(notice_max), [this, &s, side, epoch = s.epoch] { notice(s, side, epoch); });
  }
}

void Simulation::notice(Stream& s, int side, std::uint64_t epoch) {
  Node& n = node(side == 0 ? s.dialer : s.acceptor);
  const ReplicaId other = side == 0 ? s.acceptor : s.dialer;
  deliver(n, [this, &s, &n, side, epoch, other] {
    if (s.epoch != epoch || !s.side_up[side]) return;
    s.side_up[side] = false;
    n.owed[other] = 0;
    if (options_.deaf) return;
    call(n, [&](StageSession& session, SessionActions& out) { session.lost(now_, other, out); });
    if (side == 0) redial(s);
  });
}

void Simulation::redial(Stream& s) {
  if (s.dialing) return;
  s.dialing = true;
  at(milliseconds(5) + random(milliseconds(300)), [this, &s] {
    s.dialing = false;
    Node &from = node(s.dialer), &to = node(s.acceptor);
    if (!from.alive || s.up || s.side_up[0] || !from.dials.contains(to.id)) return;
    if (!to.alive || to.frozen || from.frozen || is_cut(s)) return redial(s);
    if (s.side_up[1]) notice(s, 1, s.epoch);  // a new stream says that the old one is gone
    ++s.epoch;
    s.up = s.side_up[0] = s.side_up[1] = true;
    s.last[0] = s.last[1] = now_;
    from.owed[to.id] = to.owed[from.id] = 0;
    call(from, [&](StageSession& x, SessionActions& out) { x.connected(now_, to.id, out); });
    call(to, [&](StageSession& x, SessionActions& out) { x.connected(now_, from.id, out); });
  });
}

// ---- faults

void Simulation::plan(Duration mean, std::int64_t& count, bool (Simulation::*fault)()) {
  if (mean.ns == 0) return;
  at(seconds_f(prng_.exponential(mean.seconds())), [this, mean, &count, fault] {
    if (round_ == options_.rounds || now_.ns > kFaultsEnd.ns) return;
    count += (this->*fault)();
    plan(mean, count, fault);
  });
}

std::vector<Simulation::Node*> Simulation::living(StageIndex stage) {
  std::vector<Node*> found;
  for (auto& [id, n] : nodes_) {
    if (n->alive && (stage < 0 || n->stage == stage)) found.push_back(n.get());
  }
  return found;
}

bool Simulation::break_one() {
  std::vector<Stream*> up;
  for (auto& [ends, s] : streams_) {
    if (s.up) up.push_back(&s);
  }
  if (up.empty()) return false;
  snap(*up[prng_.below(up.size())], milliseconds(prng_.chance(.2) ? 8000 : 300));
  return true;
}

void Simulation::kill(Node& n) {
  if (!n.alive) return;
  n.alive = false;
  uneven_ = uneven_ || n.stage == 0;
  n.backlog.clear();
  for (auto& [ends, s] : streams_) {
    if (s.up && (s.dialer == n.id || s.acceptor == n.id)) snap(s, seconds(1));
  }
  at(milliseconds(200) + random(seconds(3)), [this, &n] {
    std::erase_if(view_.members, [&](const PipelineMember& m) { return m.replica == n.id; });
    const auto left = std::count_if(view_.members.begin(), view_.members.end(),
                                    [&](const PipelineMember& m) { return m.stage == n.stage; });
    if (left == 0) view_.members.push_back({spawn(n.stage).id, n.stage});
    publish();
    maybe_close_round();
  });
}

bool Simulation::kill_one() {
  auto all = living();
  if (all.empty()) return false;
  kill(*all[prng_.below(all.size())]);
  return true;
}

bool Simulation::freeze_one() {
  auto all = living();
  if (all.empty()) return false;
  Node& n = *all[prng_.below(all.size())];
  if (n.frozen) return false;
  n.frozen = true;
  const Duration length = random(seconds(14));
  for (auto& entry : streams_) {
    auto& s = entry.second;
    if (!s.up || (s.dialer != n.id && s.acceptor != n.id)) continue;
    at(seconds(8), [this, &s, &n, epoch = s.epoch] {  // keep-alive
      if (n.alive && n.frozen && s.up && s.epoch == epoch) snap(s, milliseconds(500));
    });
  }
  if (length > seconds(10)) {
    at(seconds(10), [this, &n] { kill(n); });
    return true;
  }
  at(length, [this, &n] {
    if (!n.alive) return;
    n.frozen = false;
    std::vector<std::function<void()>> backlog;
    backlog.swap(n.backlog);
    for (const auto& what : backlog) what();
    if (n.alive) pump(n);
    maybe_close_round();
  });
  return true;
}

bool Simulation::join_one() {
  if (living().size() > 24) return false;
  const auto stage = static_cast<StageIndex>(prng_.below(options_.stages));
  Node& n = spawn(stage);
  if (prng_.chance(.5)) {
    joiners_.push_back({n.id, stage});
  } else {
    view_.members.push_back({n.id, stage});
    publish();
  }
  return true;
}

bool Simulation::is_cut(const Stream& s) {
  const Node &a = node(s.dialer), &b = node(s.acceptor);
  return (a.cut && b.stage == a.stage + 1) || (b.cut && a.stage == b.stage + 1);
}

bool Simulation::cut_some() {
  std::vector<Node*> victims = living();
  if (prng_.chance(.3)) {
    ++cuts_of_all;
  } else if (!victims.empty()) {
    victims = {victims[prng_.below(victims.size())]};
  }
  for (Node* n : victims) n->cut = true;
  for (auto& [ends, s] : streams_) {
    if (s.up && is_cut(s)) snap(s, milliseconds(8000));
  }
  at(seconds(2) + random(seconds(40)), [victims] {
    for (Node* n : victims) n->cut = false;
  });
  return !victims.empty();
}

// ---- coordinator

Simulation::Node& Simulation::spawn(StageIndex stage) {
  auto made = std::make_unique<Node>();
  Node& n = *made;
  n.id = ReplicaId(next_id_++);
  n.stage = stage;
  n.speed = prng_.chance(.5) ? 1 : .25 + prng_.unit() * 4;
  n.held = round_;
  SessionOptions session{.self = n.id,
                         .stage = stage,
                         .stages = options_.stages,
                         .microbatch = kSequencesOfSimulation,
                         .context = kContextOfSimulation,
                         .schedule = options_.schedule,
                         .seed = prng_.next()};
  n.session = std::make_unique<StageSession>(session, round_, open_ ? from_ : to_, now_);
  nodes_[n.id] = std::move(made);
  return n;
}

void Simulation::tell(Node& n, std::function<void(StageSession&, SessionActions&)> what) {
  n.told_at = std::max(n.told_at, now_ + random(milliseconds(400)));
  at(n.told_at - now_,
     [this, &n, what = std::move(what)] { deliver(n, [this, &n, what] { call(n, what); }); });
}

void Simulation::publish() {
  ++view_.number;
  std::sort(view_.members.begin(), view_.members.end(), [](const auto& a, const auto& b) {
    return std::pair(a.stage, a.replica) < std::pair(b.stage, b.replica);
  });
  for (PipelineMember& m : view_.members) {
    m.speed = options_.speeds ? node(m.replica).speed * 1e12 : 0;
  }
  for (const PipelineMember& m : view_.members) {
    Node& n = node(m.replica);
    tell(n, [this, &n, view = view_](StageSession& s, SessionActions& out) {
      n.view = view;
      s.view(now_, view, out);
    });
    if (open_ && !stopping_) tell_round(n);  // again, for those who know
  }
}

OpenRound Simulation::opening(const Node& n) const {
  OpenRound open{
      .key = {JobId(1), 0, round_ + 1}, .from_step = Steps(from_), .to_step = Steps(to_)};
  const auto per_step = per_step_.find(n.id);
  if (per_step != per_step_.end()) {
    open.leases = {{0, per_step->second * (to_ - from_) * kSequencesOfSimulation}};
  }
  return open;
}

void Simulation::tell_round(Node& n) {
  if (n.stage == 0 && !per_step_.contains(n.id)) {
    per_step_[n.id] = prng_.range(1, options_.microbatches_max);
  }
  tell(n, [this, open = opening(n)](StageSession& s, SessionActions& out) {
    s.open(now_, open, out);
  });
}

void Simulation::open_round() {
  from_ = to_;
  to_ = from_ + options_.steps;
  open_ = true;
  uneven_ = stopping_ = false;
  per_step_.clear();
  count_twice();
  for (auto& [id, n] : nodes_) n->boundary.reset();
  for (const PipelineMember& m : joiners_) {
    if (node(m.replica).alive) view_.members.push_back(m);
  }
  joiners_.clear();
  publish();
  draw_round_end();
}

void Simulation::draw_round_end() {
  const auto round_end = [this](double chance, std::int64_t& count, bool stop) {
    if (!prng_.chance(chance)) return;
    at(random(milliseconds(1500)), [this, &count, stop, round = round_, first = from_] {
      if (round != round_ || first != from_ || !open_) return;
      ++count;
      uneven_ = uneven_ || stop;
      stopping_ = stopping_ || stop;
      for (Node* n : living(stop ? -1 : 0)) {
        tell(*n, [this, stop](StageSession& s, SessionActions& out) {
          stop ? s.stop(now_, out) : s.close(now_, out);
        });
      }
    });
  };
  round_end(options_.close, closes, false);
  round_end(options_.stop, stops, true);
}

void Simulation::maybe_close_round() {
  if (!open_) return;
  for (const PipelineMember& m : view_.members) {
    const Node& n = node(m.replica);
    const bool at_rest = n.boundary || (stopping_ && n.told_at < now_ && !n.session->training());
    if (!n.alive || n.frozen || !at_rest) return;
  }
  open_ = false;
  check_boundaries();
  std::int64_t step = from_;
  for (const PipelineMember& m : view_.members)
    step = std::max(step, node(m.replica).boundary.value_or(0));
  to_ = step;
  if (prng_.chance(options_.abort)) {
    ++aborts;
    return at(random(milliseconds(100)), [this] { open_round(); });
  }
  commit();
}

void Simulation::check_boundaries() {
  const auto first = node(view_.members.front().replica).boundary;
  for (const PipelineMember& m : view_.members) {
    if (!uneven_ && node(m.replica).boundary != first)
      violate(node(m.replica), "stops at another step");
  }
  for (const auto& [id, per_step] : per_step_) {
    if (faults_ || options_.close > 0 || node(id).drawn == per_step * options_.steps) continue;
    violate(node(id), "did not draw its share of every step");
  }
  // A round that is closed with 2bw ends in the step that some are in.
  if (faults_ || (two_versions() && closes > 0)) return;
  for (const auto& [m, stages] : adds_) {
    for (StageIndex stage = 0; stage < options_.stages; ++stage) {
      const auto count = stages.find(stage);
      if (count == stages.end() || count->second != 1) {
        violate(node(m.router), text(m) + " is not added once at stage " + std::to_string(stage));
      }
    }
  }
}

void Simulation::commit() {
  ++round_;
  if (round_ == options_.rounds) {
    // The last commit: evaluation runs on its own.
    at(seconds(120), [this] {
      for (Node* n : living()) {
        if (!n->tasks.empty()) violate(*n, "tasks are left at the end");
        if (n->evaluations != 0) violate(*n, "an evaluation is not answered");
      }
      ended_ = true;
    });
  }
  for (Node* n : living()) tell_commit(*n, round_, to_);
  if (round_ < options_.rounds) at(random(milliseconds(500)), [this] { open_round(); });
}

void Simulation::tell_commit(Node& n, RoundNumber round, std::int64_t step) {
  const bool evaluates = n.stage == 0 && n.view.number > 0 && prng_.chance(options_.evaluate);
  const bool samples = n.stage == 0 && prng_.chance(options_.logits);
  const EvalSlice slice{static_cast<std::int64_t>(prng_.below(2)), 2, prng_.range(0, 7)};
  tell(n, [this, &n, round, step](StageSession& s, SessionActions& out) {
    n.held = std::max(n.held, round);
    n.weights[0] = n.weights[1] = n.newest;
    s.committed(now_, round, step, out);
  });
  if (samples) {
    tell(n, [this](StageSession& s, SessionActions& out) { s.logits(now_, out); });
    at(random(seconds(2)), [this, &n] {
      tell(n, [this](StageSession& s, SessionActions& out) { s.sampled(now_, out); });
    });
  }
  if (!evaluates) return;
  ++n.evaluations;
  tell(n, [this, round, slice](StageSession& s, SessionActions& out) {
    s.evaluate(now_, {JobId(1), 0, round}, slice, 2, out);
  });
}

}  // namespace shoal::swarm
