#include "coordinator/core/state/measured_lines.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

void raise(double& rate, AgentLine& line, const LinkRecord& link) {
  if (link.bytes_per_s <= rate) return;
  rate = link.bytes_per_s;
  line.at_least = link.at_least;
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
