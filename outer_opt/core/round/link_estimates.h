// What one trainer knows of its lines to its peers. A probe (link_probe.h in transport) measures a
// pair alone; a reduce or the transfer of a state only shows what a line carried at least, because
// it shared the line or waited for others. So a probe replaces what was known, and traffic raises
// it. What is told is what was measured since it was told before: nobody takes an old rate for a
// new one because the peer was reached. No clock: times are told. Not thread-safe.
#pragma once

#include <vector>

#include "base/flat_map.h"
#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt {

// What a receiver saw of a flow: so many bytes were there at this time.
struct FlowSample {
  Instant at;
  Bytes received;
};

// Bytes per second over the later half of the bytes, when a flow has found its pace; 0 when the
// samples show no time.
double flow_rate(const std::vector<FlowSample>& samples);

// Connections that carry `bytes_per_s` over this round trip, kConnectionBytes under way in each.
// Linux's usual limits of 4 and 6 MB per socket allow 2 MB, bookkeeping included, but where one of
// a hundred packets is lost a connection keeps 1.4 MB under way on a line of any rate. It must ask
// for a second one by what it carries alone.
int connections_for(double bytes_per_s, Duration round_trip);
inline constexpr double kConnectionBytes = 512 << 10;
inline constexpr int kConnectionsMax = 8;

class LinkEstimates {
 public:
  // The oldest of more peers than kLinksMax are forgotten.
  void probed(Instant now, const LinkEstimate& found);
  // What the answering side of a probe learns: the round trip and the flow from the peer.
  void answered(Instant now, const LinkEstimate& found);
  // The peer was reached this way.
  void reached(Instant now, ReplicaId peer, PeerWay way);
  // `received` bytes came from `peer` within `spent`; what was sent is known to its receiver, here
  // it may still lie in a buffer. Little traffic says nothing of a line.
  void carried(Instant now, ReplicaId peer, Bytes received, Duration spent);

  // connections_for() what is known of the line to `peer`: 1 when nothing is.
  int connections(ReplicaId peer) const;

  // What was probed since the last call, what changed by a tenth, and, at most once a minute, the
  // rates that traffic has shown again. In the order of the peers.
  std::vector<LinkEstimate> take_changed();

 private:
  struct Known {
    LinkEstimate now;
    LinkEstimate fresh;  // rates and round trip: those measured since it was told
    LinkEstimate told;
    Instant at, told_at;
    bool probed = false;  // since it was told
  };
  static bool is_news(const Known& known);
  Known& entry(Instant now, ReplicaId peer);

  FlatMap<ReplicaId, Known> peers_;
};

}  // namespace shoal::outer_opt
