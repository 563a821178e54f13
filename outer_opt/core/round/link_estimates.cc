#include "outer_opt/core/round/link_estimates.h"

#include <algorithm>
#include <cmath>

namespace shoal::outer_opt {
namespace {

constexpr Bytes kTrafficMin{256 << 10};
constexpr double kNews = 0.1;  // of what was told
constexpr Duration kShownAgain = seconds(60);

bool is_far(double now, double told) {
  return now > told * (1 + kNews) || now < told * (1 - kNews);
}

}  // namespace

double flow_rate(const std::vector<FlowSample>& samples) {
  if (samples.size() < 2) return 0;
  const std::int64_t half = samples.back().received.count() / 2;
  const auto begin = std::find_if(samples.begin(), samples.end(),
                                  [&](const auto& s) { return s.received.count() >= half; });
  const FlowSample& from = begin + 1 == samples.end() ? *(begin - 1) : *begin;
  const Duration spent = samples.back().at - from.at;
  const auto bytes = static_cast<double>((samples.back().received - from.received).count());
  return spent.ns > 0 ? bytes / spent.seconds() : 0;
}

int connections_for(double bytes_per_s, Duration round_trip) {
  const double under_way = bytes_per_s * round_trip.seconds();
  const double wanted = std::ceil(under_way / kConnectionBytes);
  return static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(kConnectionsMax)));
}

int LinkEstimates::connections(ReplicaId peer) const {
  const Known* known = peers_.find(peer);
  if (known == nullptr) return 1;
  const LinkEstimate& line = known->now;
  return connections_for(std::max(line.to_per_s, line.from_per_s), line.round_trip);
}

LinkEstimates::Known& LinkEstimates::entry(Instant now, ReplicaId peer) {
  if (!peers_.contains(peer) && peers_.size() >= kLinksMax) {
    const auto oldest = std::min_element(
        peers_.begin(), peers_.end(), [](auto& a, auto& b) { return a.second.at < b.second.at; });
    const ReplicaId forgotten = oldest->first;
    peers_.erase(forgotten);
  }
  Known& known = peers_[peer];
  known.now.peer = peer;
  known.at = now;
  return known;
}

void LinkEstimates::probed(Instant now, const LinkEstimate& found) {
  Known& known = entry(now, found.peer);
  known.now = known.fresh = found;
  known.probed = true;
}

void LinkEstimates::answered(Instant now, const LinkEstimate& found) {
  Known& known = entry(now, found.peer);
  known.now.reached = true;
  for (LinkEstimate* line : {&known.now, &known.fresh}) {
    line->round_trip = found.round_trip;
    line->from_per_s = found.from_per_s;
    line->at_least = false;
  }
}

void LinkEstimates::reached(Instant now, ReplicaId peer, PeerWay way) {
  LinkEstimate& line = entry(now, peer).now;
  line.reached = true;
  line.way = way;
}

void LinkEstimates::carried(Instant now, ReplicaId peer, Bytes received, Duration spent) {
  if (spent.ns <= 0 || received < kTrafficMin) return;
  Known& known = entry(now, peer);
  known.now.reached = true;
  const double rate = static_cast<double>(received.count()) / spent.seconds();
  if (rate > known.now.from_per_s) known.now.from_per_s = rate, known.now.at_least = true;
  if (rate <= known.fresh.from_per_s || rate < (1 - kNews) * known.now.from_per_s) return;
  known.fresh.from_per_s = rate;
  known.fresh.at_least = true;
}

bool LinkEstimates::is_news(const Known& known) {
  if (known.probed || known.now.reached != known.told.reached || known.now.way != known.told.way) {
    return true;
  }
  if (known.fresh.from_per_s == 0) return false;
  return is_far(known.fresh.from_per_s, known.told.from_per_s) ||
         known.at - known.told_at >= kShownAgain;
}

std::vector<LinkEstimate> LinkEstimates::take_changed() {
  std::vector<LinkEstimate> changed;
  for (auto& [peer, known] : peers_) {
    if (!is_news(known)) continue;
    LinkEstimate& said = changed.emplace_back(known.fresh);
    said.peer = peer;
    said.reached = known.now.reached;
    said.way = known.now.way;
    known.told = known.now;
    known.told_at = known.at;
    known.probed = false;
    known.fresh = {};
  }
  return changed;
}

}  // namespace shoal::outer_opt
