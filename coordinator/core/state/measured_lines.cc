#include "coordinator/core/state/measured_lines.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

// A round trip to the coordinator that is shorter tells of busy processors, not of the way.
constexpr Duration kProcessorsTake = milliseconds(5);

void raise(double& rate, AgentLine& line, const LinkRecord& link) {
  if (link.bytes_per_s <= rate) return;
  rate = link.bytes_per_s;
  line.at_least = link.at_least;
  line.measured_at = std::max(line.measured_at, link.measured_at);
}

// Traffic between agents may have shown more than the coordinator's own line carries.
void add(const HostLine& host, AgentLine& line) {
  const bool shown_up = line.up > host.up, shown_down = line.down > host.down;
  line.up = std::max(line.up, host.up);
  line.down = std::max(line.down, host.down);
  const bool up_binds = line.down <= 0 || (line.up > 0 && line.up <= line.down);
  line.at_least = host.at_least || (up_binds ? shown_up : shown_down);
  line.to_coordinator = true;
  line.measured_at = std::max(line.measured_at, host.measured_at);
  const bool is_far = host.round_trip > kProcessorsTake;
  if (line.round_trip.ns == 0 && is_far) line.round_trip = host.round_trip;
}

void add_host_lines(const State& state, Instant now, FlatMap<AgentId, AgentLine>& lines) {
  for (const auto& [id, agent] : state.agents) {
    const HostLine& host = agent.line;
    const Duration known = host.round_trip.ns > 0 ? kHostLineKnown : kSilentLineKnown;
    if (host.up + host.down <= 0 || now - host.measured_at > known) continue;
    AgentLine& line = lines[id];
    if (!is_measured(line)) add(host, line);
  }
}

// Hosts that several of the agents are on.
FlatMap<std::string, bool> shared_hosts(const State& state, const std::vector<AgentId>& agents) {
  FlatMap<std::string, AgentId> first;
  FlatMap<std::string, bool> shared;
  for (const AgentId id : agents) {
    const AgentRecord* agent = state.agents.find(id);
    if (agent == nullptr || agent->host.empty()) continue;
    const AgentId* known = first.find(agent->host);
    if (known == nullptr) {
      first.put(agent->host, id);
    } else if (*known != id) {
      shared.put(agent->host, true);
    }
  }
  return shared;
}

}  // namespace

FlatMap<AgentId, AgentLine> lines_of(const State& state, Instant now) {
  FlatMap<AgentId, AgentLine> lines;
  FlatMap<AgentId, std::pair<Duration, std::int64_t>> trips;
  for (const auto& [key, link] : state.links) {
    if (now - link.reached_at <= kLinkFresh) {
      AgentLine& to = lines[link.to];
      to.reached |= link.way != PeerWay::kUnknown && link.way != PeerWay::kUnreachable;
      to.missed |= link.way == PeerWay::kUnreachable;
    }
    if (link.bytes_per_s <= 0 || now - link.measured_at > kLinkFresh) continue;
    AgentLine& from = lines[link.from];
    raise(from.up, from, link);
    AgentLine& to = lines[link.to];
    raise(to.down, to, link);
    if (link.round_trip.ns <= 0) continue;
    for (const AgentId end : {link.from, link.to}) {
      auto& [sum, count] = trips[end];
      sum = sum + link.round_trip, ++count;
    }
  }
  for (const auto& [agent, trip] : trips) {
    lines[agent].round_trip = seconds_f(trip.first.seconds() / static_cast<double>(trip.second));
  }
  add_host_lines(state, now, lines);
  return lines;
}

FlatMap<AgentId, AgentLine> lines_between(const State& state, Instant now,
                                          const std::vector<AgentId>& agents) {
  FlatMap<AgentId, AgentLine> lines = lines_of(state, now);
  const FlatMap<std::string, bool> shared = shared_hosts(state, agents);
  for (const AgentId id : agents) {
    AgentLine* line = lines.find(id);
    if (line == nullptr || !line->to_coordinator) continue;
    if (shared.contains(state.agents.at(id).host)) line->up = line->down = 0;
  }
  return lines;
}

SiteLines site_lines(const State& state, Instant now) {
  SiteLines lines;
  for (const auto& [key, link] : state.links) {
    const AgentRecord *from = state.agents.find(link.from), *to = state.agents.find(link.to);
    if (from == nullptr || to == nullptr) continue;
    if (link.bytes_per_s <= 0 || now - link.measured_at > kLinkFresh) continue;
    const std::string here = site_of(*from), there = site_of(*to);
    if (here == there) continue;
    if (!here.empty()) raise(lines[here].up, lines[here], link);
    if (!there.empty()) raise(lines[there].down, lines[there], link);
  }
  return lines;
}

std::string site_of(const AgentRecord& agent) {
  const auto label =
      std::ranges::find(agent.labels, "site", &std::pair<std::string, std::string>::first);
  return label == agent.labels.end() ? "" : label->second;
}

}  // namespace shoal::coordinator
