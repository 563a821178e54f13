#include "coordinator/core/rounds/links.h"

#include <algorithm>
#include <cmath>

#include "coordinator/core/state/measured_lines.h"

namespace shoal::coordinator {
namespace {

constexpr double kSame = 0.1;                  // a change of the rate that is not worth a write
constexpr Duration kWriteAgain = seconds(60);  // that the age of a record may be wrong by

bool says_nothing_new(const LinkRecord& known, const LinkRecord& fresh) {
  const bool same_kind = known.way == fresh.way && known.at_least == fresh.at_least &&
                         (known.round_trip.ns > 0) == (fresh.round_trip.ns > 0);
  return same_kind && fresh.measured_at - known.measured_at < kWriteAgain &&
         fresh.reached_at - known.reached_at < kWriteAgain &&
         std::fabs(fresh.bytes_per_s - known.bytes_per_s) <= kSame * known.bytes_per_s;
}

// Traffic that was slower than a probe, or than other traffic, shows nothing as long as that
// counts.
bool replaces(const LinkRecord& fresh, const LinkRecord& known, Instant now) {
  if (fresh.way == PeerWay::kUnreachable) return true;
  if (fresh.bytes_per_s <= 0) return false;
  return !fresh.at_least || now - known.measured_at > kLinkFresh ||
         fresh.bytes_per_s >= (1 - kSame) * known.bytes_per_s;
}

// A rate keeps the time of its own measurement: that a peer was reached does not renew it.
void note(Transaction& tx, LinkRecord fresh) {
  const LinkRecord* known = tx.state().links.find({fresh.from, fresh.to});
  fresh.measured_at = fresh.reached_at = tx.now();
  if (known == nullptr) {
    tx.add(fresh);
    return;
  }
  if (fresh.way == PeerWay::kUnknown) fresh.way = known->way, fresh.reached_at = known->reached_at;
  if (!replaces(fresh, *known, tx.now())) {
    fresh.bytes_per_s = known->bytes_per_s;
    fresh.at_least = known->at_least;
    fresh.measured_at = known->measured_at;
  }
  if (fresh.round_trip.ns == 0) fresh.round_trip = known->round_trip;
  // Traffic as quick as the probe confirms it.
  const double by = std::fabs(fresh.bytes_per_s - known->bytes_per_s);
  if (!known->at_least && by <= kSame * known->bytes_per_s) fresh.at_least = false;
  if (!says_nothing_new(*known, fresh)) tx.add(fresh);
}

// Live ones of the same job and of this stage that can be dialed, in the order of their ids.
std::vector<ReplicaId> fellows_of(const State& state, const ReplicaRecord& self, StageIndex stage) {
  std::vector<ReplicaId> fellows;
  for (const auto& [id, replica] : state.replicas) {
    const bool same = replica.job == self.job && replica.stage == stage;
    if (same && is_present(state, id) && !replica.address.empty()) fellows.push_back(id);
  }
  return fellows;
}

bool is_known(const State& state, Instant now, AgentId from, AgentId to) {
  const LinkRecord* known = state.links.find({from, to});
  if (known == nullptr || now - known->measured_at > kMeasureAgain) return false;
  // Traffic alone shows what the line carried at least: nobody has measured it yet.
  return known->round_trip.ns > 0 || known->way == PeerWay::kUnreachable;
}

bool was_in_vain(const State& state, Instant now, AgentId from, AgentId to) {
  const LinkRecord* known = state.links.find({from, to});
  return known != nullptr && known->way == PeerWay::kUnreachable &&
         now - known->reached_at <= kMeasureAgain;
}

// A probe measures both ways, but a reduce may end it after the first.
bool is_wanted(const State& state, Instant now, const ReplicaRecord& from,
               const ReplicaRecord& to) {
  if (from.agent == to.agent || was_in_vain(state, now, from.agent, to.agent)) return false;
  return !is_known(state, now, from.agent, to.agent) || !is_known(state, now, to.agent, from.agent);
}

// The peers that the one at `at` measures: the half of the circle that follows it, because a probe
// measures both ways. If two face each other, the first asks, so that they do not find each other
// busy; the second asks where the first found no way to it.
std::vector<ReplicaId> next_half(const State& state, Instant now,
                                 const std::vector<ReplicaId>& fellows, std::size_t at) {
  std::vector<ReplicaId> half;
  for (std::size_t step = 1; step <= fellows.size() / 2; ++step) {
    const ReplicaId other = fellows[(at + step) % fellows.size()];
    const bool asks_me = step * 2 == fellows.size() && at >= step;
    const AgentId mine = state.replicas.at(fellows[at]).agent;
    if (asks_me && !was_in_vain(state, now, state.replicas.at(other).agent, mine)) continue;
    half.push_back(other);
  }
  return half;
}

// Trainers of earlier versions say only whether they could dial.
PeerWay way_of(const LinkEstimate& link) {
  if (!link.reached) return PeerWay::kUnreachable;
  return link.way == PeerWay::kUnknown && link.to_per_s > 0 ? PeerWay::kDirect : link.way;
}

}  // namespace

void note_links(Transaction& tx, ReplicaId replica, const std::vector<LinkEstimate>& links) {
  const ReplicaRecord* from = tx.state().replicas.find(replica);
  if (from == nullptr) return;
  for (const LinkEstimate& link : links) {
    const ReplicaRecord* to = tx.state().replicas.find(link.peer);
    if (to == nullptr || to->agent == from->agent) continue;
    const PeerWay way = way_of(link);
    if (way != PeerWay::kUnknown) {
      note(tx, {from->agent, to->agent, link.round_trip, link.to_per_s, way});
    }
    if (link.from_per_s > 0) {
      note(tx, {.from = to->agent,
                .to = from->agent,
                .round_trip = link.round_trip,
                .bytes_per_s = link.from_per_s,
                .at_least = link.at_least});
    }
  }
}

std::vector<outer_opt::LinkedMember> links_of(const State& state, Instant now,
                                              const std::vector<ReplicaId>& members) {
  std::vector<AgentId> agents;
  for (const ReplicaId id : members) agents.push_back(state.replicas.at(id).agent);
  const FlatMap<AgentId, AgentLine> lines = lines_between(state, now, agents);
  std::vector<outer_opt::LinkedMember> links;
  for (const ReplicaId id : members) {
    const ReplicaRecord& replica = state.replicas.at(id);
    const AgentLine* line = lines.find(replica.agent);
    const bool in_vain = line != nullptr && line->missed && !line->reached;
    links.push_back({.reachable = !replica.address.empty() && !in_vain,
                     .bytes_per_s = line == nullptr ? 0 : line->bytes_per_s()});
  }
  return links;
}

bool codes_between_stages(const State& state, Instant now, JobId job) {
  const JobRecord& record = state.jobs.at(job);
  if (record.stages.size() <= 1) return false;
  const CodecKind codec =
      record.spec.swarm.activations == ActivationCodec::kInt8 ? CodecKind::kInt8 : CodecKind::kBf16;
  return outer_opt::pays_entropy_coding(codec, links_of(state, now, live_replicas(state, job)));
}

std::vector<PeerAddress> peers_to_measure(const State& state, Instant now, ReplicaId replica) {
  const ReplicaRecord& self = state.replicas.at(replica);
  const SyncAlgorithm algorithm = state.jobs.at(self.job).spec.sync.algorithm;
  if (algorithm == SyncAlgorithm::kDdp || algorithm == SyncAlgorithm::kNone) return {};
  const std::vector<ReplicaId> fellows = fellows_of(state, self, self.stage);
  const auto at = std::find(fellows.begin(), fellows.end(), replica);
  if (at == fellows.end()) return {};
  std::vector<ReplicaId> others = next_half(state, now, fellows, at - fellows.begin());
  if (fellows.size() == 1) others = fellows_of(state, self, self.stage + 1);
  std::vector<PeerAddress> peers;
  for (const ReplicaId other : others) {
    const ReplicaRecord& peer = state.replicas.at(other);
    if (peers.size() >= kMeasuresMax) break;
    if (is_wanted(state, now, self, peer)) peers.push_back({peer.id, peer.address});
  }
  return peers;
}

}  // namespace shoal::coordinator
