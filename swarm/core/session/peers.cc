#include "swarm/core/session/peers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "base/check.h"

namespace shoal::swarm {
namespace {

using enum PeerState;

constexpr std::pair<PeerState, PeerState> kTable[] = {
    {kGone, kExpected},  {kGone, kStranger},  {kExpected, kGone},     {kExpected, kNeighbor},
    {kExpected, kWired}, {kStranger, kGone},  {kStranger, kNeighbor}, {kStranger, kWired},
    {kNeighbor, kWired}, {kWired, kNeighbor}, {kNeighbor, kExpected}, {kNeighbor, kStranger},
    {kWired, kExpected}, {kWired, kStranger},
};

bool streams(PeerState state) {
  return state == kStranger || state == kNeighbor || state == kWired;
}

}  // namespace

bool allowed(PeerState from, PeerState to) {
  return std::find(std::begin(kTable), std::end(kTable), std::pair(from, to)) != std::end(kTable);
}

Peers::Peers(const SessionOptions& options) : options_(options), wiring_(options.seed) {}

void Peers::transition(ReplicaId id, Peer& peer, PeerState to) {
  SHOAL_CHECK(allowed(peer.state, to),
              std::string("peer: ") + to_string(peer.state) + " -> " + to_string(to));
  if (peer.state == kWired) {
    if (peer.measured) peer.measured = wiring_.service_per_work(id);
    wiring_.remove(id);
    std::erase_if(pauses_, [id](const Pause& pause) { return pause.peer == id; });
  }
  if (to == kWired) wiring_.add(id, expected_service(peer), credits(peer));
  peer.state = to;
}

PeerState Peers::with_stream(ReplicaId id, const Peer& peer) const {
  if (!roster_.names_neighbor(id)) return kStranger;
  return roster_.in_view && peer.stage == options_.stage + 1 ? kWired : kNeighbor;
}

void Peers::settle(ReplicaId id, Peer& peer) {
  PeerState to = roster_.names_neighbor(id) ? kExpected : kGone;
  if (streams(peer.state)) to = with_stream(id, peer);
  if (to != peer.state) {
    transition(id, peer, to);
  } else if (to == kWired) {
    wiring_.set_credits(id, credits(peer));
  }
}

// ---- inputs

void Peers::take(const PipelineView& view, const Roster& roster, SessionActions& out) {
  roster_ = roster;
  for (const PipelineMember& m : view.members) {
    if (!roster_.names_neighbor(m.replica)) continue;
    Peer& peer = peers_[m.replica];
    peer.stage = m.stage;
    peer.speed = m.speed;
    peer.line_time = m.line_time;
  }
  std::vector<ReplicaId> gone;
  for (auto& [id, peer] : peers_) {
    settle(id, peer);
    if (peer.state == kGone) gone.push_back(id);
  }
  for (const ReplicaId id : gone) peers_.erase(id);
  dial(view, out);
}

void Peers::connected(ReplicaId id) {
  Peer& peer = peers_[id];
  transition(id, peer, with_stream(id, peer));
}

void Peers::ended(ReplicaId id) {
  Peer& peer = peers_.at(id);
  transition(id, peer, peer.state == kStranger ? kGone : kExpected);
  if (peer.state == kGone) peers_.erase(id);
}

// A replica computes while its line carries, so the slower one of the two bounds it.
void Peers::measured(ReplicaId id, Duration service) {
  Peer& peer = peers_.at(id);
  if (service.ns <= 0) return;
  if (peer.measured) return wiring_.report(id, std::max(service, peer.line_time), 1);
  peer.measured = service;
  wiring_.expect(id, expected_service(peer));
  for (auto& [other_id, other] : peers_) {
    if (other.state == kWired && !other.measured) wiring_.expect(other_id, expected_service(other));
  }
}

void Peers::pause(Instant now, ReplicaId id) {
  wiring_.ban(id);
  std::erase_if(pauses_, [id](const Pause& pause) { return pause.peer == id; });
  pauses_.push_back({now + kRefusalPause, id});
}

void Peers::unpause(Instant now) {
  std::size_t over = 0;
  for (; over < pauses_.size() && pauses_[over].until <= now; ++over) {
    wiring_.unban(pauses_[over].peer);
  }
  pauses_.erase(pauses_.begin(), pauses_.begin() + static_cast<std::ptrdiff_t>(over));
}

void Peers::dial(const PipelineView& view, SessionActions& out) {
  std::vector<PipelineMember> wanted;
  for (const PipelineMember& m : view.members) {
    const bool below_me = m.stage == options_.stage + 1;
    const bool router_after = options_.stage == 0 && m.stage == 0 && m.replica > options_.self;
    if (roster_.in_view && (below_me || router_after)) wanted.push_back(m);
  }
  if (wanted == dialed_) return;
  dialed_ = wanted;
  out.push_back(Dial{std::move(wanted)});
}

// ---- what follows

PeerState Peers::state(ReplicaId id) const {
  const Peer* peer = peers_.find(id);
  return peer == nullptr ? kGone : peer->state;
}

bool Peers::has_stream(ReplicaId id) const { return streams(state(id)); }

bool Peers::may_send_here(ReplicaId id) const {
  const Peer* peer = peers_.find(id);
  return peer != nullptr && streams(peer->state) && peer->state != kStranger && roster_.in_view &&
         peer->stage + 1 == options_.stage;
}

double Peers::window_total() const {
  const bool narrow = options_.schedule == PipelineSchedule::kOneForwardOneBackward;
  return narrow ? roster_.members : options_.window_per_replica * roster_.members;
}

std::int32_t Peers::window() const {
  if (roster_.number < 0) return 1;
  const double even = 1. / std::max<double>(1, static_cast<double>(roster_.routers.size()));
  const double share = roster_.router_share > 0 ? roster_.router_share : even;
  return std::max(1, static_cast<std::int32_t>(std::ceil(window_total() * share)));
}

// Generous: the sender's view may be another one.
std::int32_t Peers::received_max() const {
  if (roster_.number < 0) return 0;
  return 64 + 4 * ample_credits(window_total(), std::max(1, roster_.before), 1);
}

std::int32_t Peers::credits(const Peer& peer) const {
  const double even = 1. / std::max(1, roster_.next);
  const double fair = roster_.next_speed > 0 ? peer.speed / roster_.next_speed : 0;
  return ample_credits(window_total(), std::max(1, roster_.senders), std::max(even, fair));
}

Duration Peers::expected_service(const Peer& peer) const {
  if (peer.measured) return std::max(*peer.measured, peer.line_time);
  if (peer.speed <= 0) return {};
  double work = 0;
  std::int32_t known = 0;
  for (const auto& [id, other] : peers_) {
    if (!other.measured || other.speed <= 0) continue;
    work += other.measured->seconds() * other.speed;
    ++known;
  }
  if (known > 0) return std::max(seconds_f(work / known / peer.speed), peer.line_time);
  // Nothing is measured: only the ratios matter.
  if (roster_.next_speed <= 0) return {};
  return seconds_f(roster_.next_speed / roster_.next / peer.speed);
}

std::optional<Instant> Peers::next_deadline() const {
  if (pauses_.empty()) return std::nullopt;
  return pauses_.front().until;
}

}  // namespace shoal::swarm
