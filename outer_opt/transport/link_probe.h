// Measures the line to a peer: the least of a few round trips, then a flow each way, timed where it
// arrives, for at most kProbeTime or kProbeBytes. A node takes part in one measurement at a time,
// as the one that asks or the one that is asked, and in none beside a reduce: ProbeGate says so.
// LinkProber asks peers one after another in a thread of its own and comes back to the busy ones.
//
// Each step is a stream of its own with the purpose kProbePurpose, so that the end of one drops
// what it has still to send. The first message says which: "echo", of which each comes back; "push
// REPLICA ROUND_TRIP_NS", which a flow follows, and the answer is its rate; or "pull", whose answer
// is a flow.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/result.h"
#include "outer_opt/core/round/round.h"
#include "outer_opt/transport/ways.h"
#include "threads/clock.h"
#include "threads/mutex.h"
#include "wire/stream/blocking_stream.h"

namespace shoal::outer_opt {

inline constexpr Duration kProbeTime = seconds(1);
inline constexpr Bytes kProbeBytes{16 << 20};

// Thread-safe.
class ProbeGate {
 public:
  bool enter();  // false: busy; true: leave() follows
  void leave();
  // Between these two nobody enters, and measurements that run end soon.
  void begin_reduce();
  void end_reduce();
  bool in_reduce() const;

 private:
  mutable Mutex mutex_;
  bool taken_ SHOAL_GUARDED_BY(mutex_) = false;
  int reduces_ SHOAL_GUARDED_BY(mutex_) = 0;
};

using Found = std::function<void(const LinkEstimate&)>;

inline constexpr char kProbePurpose[] = "probe";

// The answering side. A push tells it what it can know of the line, too: who asks says who he is
// and how long the round trip takes, and the flow comes in here. kResourceExhausted: a reduce or
// another measurement runs here.
Status serve_probe(ProbeGate& gate, wire::stream::BlockingStream& stream, const Found& found);

// The asking side, `self`, whose gate is entered. kUnavailable: nobody answers there;
// kResourceExhausted: busy, ask again; kCancelled: stopped, or a reduce began.
Result<LinkEstimate> probe_link(wire::stream::Pair& pair, ReplicaId self, ReplicaId peer,
                                const ProbeGate& gate, std::stop_token stop);

// Thread-safe.
class LinkProber {
 public:
  // Ends early when it is stopped.
  using Dial = std::function<Result<Reached>(const PeerAddress& peer, const std::stop_token& stop)>;

  // `gate` and what the functions refer to outlive the prober; they are called from its thread.
  LinkProber(ProbeGate& gate, Dial dial, Found found);
  ~LinkProber() { stop(); }

  // Takes the place of what is still to be measured.
  void start(ReplicaId self, std::vector<PeerAddress> peers);
  void stop();  // waits for little

 private:
  void run(ReplicaId self, std::vector<PeerAddress> peers, std::stop_token stop);
  Result<LinkEstimate> dial_and_probe(ReplicaId self, const PeerAddress& peer,
                                      std::stop_token stop);
  bool try_one(ReplicaId self, const PeerAddress& peer, std::stop_token stop);

  ProbeGate& gate_;
  const Dial dial_;
  const Found found_;
  Mutex mutex_;
  std::jthread thread_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::outer_opt
