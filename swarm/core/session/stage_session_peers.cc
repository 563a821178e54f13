// Neighbours: who is in the view, who can be reached, what each may be sent. The wiring holds
// exactly the replicas of the next stage that are in the view and connected; one that comes back
// keeps what was measured of it.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "swarm/core/session/stage_session_state.h"

namespace shoal::swarm {
namespace {

// The sum of the speeds of a stage, 0 when one of them is not known.
double total_speed(const PipelineView& view, StageIndex stage) {
  double sum = 0;
  for (const PipelineMember& m : view.members) {
    if (m.stage != stage) continue;
    if (m.speed <= 0) return 0;
    sum += m.speed;
  }
  return sum;
}

}  // namespace

using State = StageSession::State;

bool State::neighbour(const PipelineMember& member) const {
  const StageIndex gap = member.stage - options.stage;
  if (gap == 0) return router() && member.replica != options.self;
  return gap == 1 || gap == -1;
}

bool State::usable(const Peer& peer) const {
  return in_view && peer.in_view && peer.connected && peer.stage == options.stage + 1;
}

double State::window_total() const {
  const bool narrow = options.schedule == PipelineSchedule::kOneForwardOneBackward;
  return narrow ? members : options.window_per_replica * members;
}

std::int32_t State::credits(const Peer& peer) const {
  const double even = 1. / std::max(1, next);
  const double fair = next_speed > 0 ? peer.speed / next_speed : 0;
  return ample_credits(window_total(), std::max(1, senders), std::max(even, fair));
}

void State::take_members(const PipelineView& view) {
  in_view = false;
  members = static_cast<std::int32_t>(view.members.size());
  senders = before = next = 0;
  routers.clear();
  for (const PipelineMember& m : view.members) {
    in_view = in_view || m.replica == options.self;
    senders += m.stage == options.stage;
    before += m.stage == options.stage - 1;
    next += m.stage == options.stage + 1;
    if (m.stage == 0) routers.push_back(m.replica);
  }
  std::sort(routers.begin(), routers.end());
}

void State::take_neighbours(const PipelineView& view) {
  for (auto& [id, peer] : peers) peer.in_view = false;
  double own_speed = 0;
  for (const PipelineMember& m : view.members) {
    if (m.replica == options.self) own_speed = m.speed;
    if (!neighbour(m)) continue;
    Peer& peer = peers[m.replica];
    peer.in_view = true;
    peer.stage = m.stage;
    peer.speed = m.speed;
  }
  next_speed = total_speed(view, options.stage + 1);
  const double speeds = total_speed(view, 0);
  const double even = 1. / std::max<double>(1, static_cast<double>(routers.size()));
  const double part = window_total() * (speeds > 0 ? own_speed / speeds : even);
  window = std::max(1, static_cast<std::int32_t>(std::ceil(part)));
  // Generous: the sender's view may be another one.
  received_max = 64 + 4 * ample_credits(window_total(), std::max(1, before), 1);
}

bool State::orphan(const Task& task, const std::vector<ReplicaId>& routers_before) const {
  if (!in_view) return true;
  if (task.from && !peers.at(task.from).in_view) return true;
  const ReplicaId router_id = task.microbatch.router;
  return std::binary_search(routers_before.begin(), routers_before.end(), router_id) &&
         !std::binary_search(routers.begin(), routers.end(), router_id);
}

void State::drop_leavers(const std::vector<ReplicaId>& routers_before, SessionActions& out) {
  for (Task& task : slots) {
    if (task.id == 0 || task.dropped) continue;
    if (task.phase != TaskPhase::kAsked && orphan(task, routers_before)) {
      drop(task, out);
    } else if (task.phase == TaskPhase::kBelow && !usable(peers.at(task.to))) {
      out.push_back(SendCancel{task.to, {task.microbatch, task.attempt_out}});
      wait(task);
    }
  }
  // What a router said last stays: a late one learns from it that the round is over.
  for (const ReplicaId id : routers_before) {
    if (std::binary_search(routers.begin(), routers.end(), id)) continue;
    const RouterProgress* p = progress.find(id);
    if (p != nullptr && !counts_as_last(*p)) progress.erase(id);
  }
}

Duration State::expected_service(const Peer& peer) const {
  if (peer.measured) return peer.service;
  if (peer.speed <= 0) return {};
  double work = 0;
  std::int32_t known = 0;
  for (const auto& [id, other] : peers) {
    if (!other.measured || other.speed <= 0) continue;
    work += other.service.seconds() * other.speed;
    ++known;
  }
  if (known > 0) return seconds_f(work / known / peer.speed);
  // Nothing is measured: only the ratios matter.
  return next_speed > 0 ? seconds_f(next_speed / next / peer.speed) : Duration{};
}

void State::add_to_wiring(ReplicaId id, Peer& peer) {
  wiring.add(id, expected_service(peer), credits(peer));
  peer.wired = true;
}

void State::unwire(ReplicaId id, Peer& peer) {
  if (peer.measured) peer.service = wiring.service_per_work(id);
  wiring.remove(id);
  peer.wired = false;
  std::erase_if(pauses, [id](const Pause& pause) { return pause.peer == id; });
}

void State::wire() {
  std::vector<ReplicaId> gone;
  for (auto& [id, peer] : peers) {
    if (peer.wired && !usable(peer)) unwire(id, peer);
    if (peer.wired) {
      wiring.set_credits(id, credits(peer));
    } else if (usable(peer)) {
      add_to_wiring(id, peer);
    }
    if (!peer.in_view && !peer.connected) gone.push_back(id);
  }
  for (const ReplicaId id : gone) peers.erase(id);
}

void State::measured(ReplicaId id, Duration service) {
  Peer& peer = peers.at(id);
  if (peer.measured || service.ns <= 0) return wiring.report(id, service, 1);
  peer.measured = true;
  peer.service = service;
  wiring.expect(id, service);
  for (auto& [other_id, other] : peers) {
    if (other.wired && !other.measured) wiring.expect(other_id, expected_service(other));
  }
}

void State::dial(const PipelineView& view, SessionActions& out) {
  std::vector<PipelineMember> wanted;
  for (const PipelineMember& m : view.members) {
    const bool below_me = m.stage == options.stage + 1;
    const bool router_after = router() && m.stage == 0 && m.replica > options.self;
    if (in_view && (below_me || router_after)) wanted.push_back(m);
  }
  if (wanted == dialled) return;
  dialled = wanted;
  out.push_back(Dial{std::move(wanted)});
}

void State::forget_stream(ReplicaId id, SessionActions& out) {
  Peer& peer = peers.at(id);
  peer.connected = false;
  if (peer.wired) unwire(id, peer);
  for (Task& task : slots) {
    if (task.id == 0 || task.dropped) continue;
    if (task.from == id) {
      drop(task, out);
    } else if (task.phase == TaskPhase::kBelow && task.to == id) {
      wait(task);
    }
  }
}

void State::pause(Instant now, ReplicaId id) {
  wiring.ban(id);
  std::erase_if(pauses, [id](const Pause& pause) { return pause.peer == id; });
  pauses.push_back({now + kRefusalPause, id});
}

void State::unpause(Instant now) {
  std::size_t over = 0;
  for (; over < pauses.size() && pauses[over].until <= now; ++over) {
    wiring.unban(pauses[over].peer);
  }
  pauses.erase(pauses.begin(), pauses.begin() + static_cast<std::ptrdiff_t>(over));
}

void State::watch_reach(Instant now, SessionActions& out) {
  if (!in_view || next == 0 || wiring.size() > 0) {
    unreachable_since.reset();
    cut_off = false;
    return;
  }
  if (!unreachable_since) unreachable_since = now;
  if (cut_off || now - *unreachable_since < options.unreachable_limit) return;
  cut_off = check = true;
  if (way_round()) hand_back(out);
  out.push_back(CutOff{"none of the " + std::to_string(next) + " replicas of stage " +
                       std::to_string(options.stage + 1) + " can be reached"});
}

// What came to be passed on goes back, for another replica of this stage; answers stay.
void State::hand_back(SessionActions& out) {
  for (Task& task : slots) {
    if (task.id == 0 || task.dropped || task.backward || task.phase == TaskPhase::kVoid) continue;
    refuse_up(task, RefusalReason::kNotInView, out);
    drop(task, out);
  }
}

void StageSession::view(Instant now, const PipelineView& view, SessionActions& out) {
  State& s = *state_;
  if (view.number <= s.view_number) return;
  s.view_number = view.number;
  const std::vector<ReplicaId> routers_before = s.routers;
  s.take_members(view);
  s.take_neighbours(view);
  s.drop_leavers(routers_before, out);
  s.wire();
  s.dial(view, out);
  s.check = true;
  s.settle(now, out);
}

void StageSession::connected(Instant now, ReplicaId id, SessionActions& out) {
  State& s = *state_;
  if (const Peer* known = s.peers.find(id); known != nullptr && known->connected) {
    s.forget_stream(id, out);
  }
  Peer& peer = s.peers[id];
  peer.connected = true;
  peer.told = 0;
  s.newcomer = true;
  if (s.usable(peer)) s.add_to_wiring(id, peer);
  s.settle(now, out);
}

void StageSession::lost(Instant now, ReplicaId id, SessionActions& out) {
  State& s = *state_;
  const Peer* known = s.peers.find(id);
  if (known == nullptr || !known->connected) return;
  s.forget_stream(id, out);
  if (!known->in_view) s.peers.erase(id);
  s.settle(now, out);
}

}  // namespace shoal::swarm
