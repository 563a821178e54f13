// A trainer's presence among its peers: serves them on one port and dials theirs. It moves vectors
// for the outer all-reduce and answers what joiners ask, and measures lines. It drives the pure
// sessions of outer_opt/core over streams (wire/stream), and counts the bytes of each attempt. It
// knows nothing of models and nothing of the coordinator. Others may use its port and its ways to
// peers for streams of their own (wire/stream/peers.h).
//
// Threads: every method may be called from any thread; reduce(), join() and fetch_momentum() block
// the caller until they end, fail, meet their deadline or are cancelled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/refusals.h"
#include "base/result.h"
#include "outer_opt/core/joining/join_session.h"
#include "outer_opt/core/reduce/average_frames.h"
#include "outer_opt/core/reduce/reduce_session.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/transport/early_streams.h"
#include "outer_opt/transport/ways.h"
#include "wire/stream/peers.h"

namespace shoal::wire {
class EmulatedLine;
}

namespace shoal::outer_opt {

class JoinNews;  // state_join.h

// How long an interrupted fetch of sharded momentum is tried again. A holder may have to finish a
// step of training before the first value comes, so a silent stream is waited for longer than a
// line that is gone.
struct FetchPatience {
  Duration broken = seconds(3);   // nothing moved over however many lines: a reduce waits for it
  Duration silent = seconds(15);  // nothing moved in one stream
};

struct PeerNodeOptions {
  std::string bind = "127.0.0.1:0";  // host:port, port 0 takes a free one
  std::string advertise_host;        // what peers dial; empty: the host of `bind`
  Duration keepalive = seconds(4);   // a frozen peer is noticed after about two of these
  EarlyBounds early;                 // streams of attempts that we do not know yet
  FetchPatience momentum_patience;
  bool local_sockets = true;                 // also reachable by a Unix socket from the same host
  bool certificates = false;                 // other hosts need set_identity(), and show one, too
  std::shared_ptr<wire::EmulatedLine> line;  // all connections go over it; none: the real line
  WaysOptions ways;
};

// Answers what a joiner asks, from any thread; waits a few seconds at most.
using StateHandler = std::function<StateAnswer(const StateAsk& ask)>;

// Called from a thread that may wait, for a range of sharded outer momentum. Must call `serve`
// once while the values cannot change, or return an error (kNotFound: not my replica; kConflict: I
// do not hold that round, or do not keep that range).
using MomentumHandler =
    std::function<Status(ReplicaId replica, const RoundKey& key, const ValueRange& range,
                         const std::function<void(std::span<const float>)>& serve)>;

struct ReduceOutcome {
  Digest average;  // over the checksums of the averaged chunks: to be compared with other members'
                   // only
  ReduceStats stats;
  PartSeen seen;                // of the own part (ReduceSession::seen)
  std::size_t connections = 0;  // that carried it, to and from all peers
  Bytes read_directly;  // of those received: read in the memory of other processes of this host
};

struct ReduceError {
  ReduceFailure failure = ReduceFailure::kInternal;
  ReplicaId lost;  // the peer that was the cause, when there was one
  std::string detail;
};

struct ReduceResult {  // exactly one of the two is meaningful
  bool ok = false;
  ReduceOutcome outcome;
  ReduceError error;
};

class PeerNode : public wire::stream::Peers {
 public:
  static Result<std::unique_ptr<PeerNode>> start(PeerNodeOptions options);

  virtual std::string address() const = 0;  // advertise_host:port
  // From now on; again when the certificate is renewed, or this process trains another replica.
  // Peers must be replicas of the same job; members of a round those that its plan names, of its
  // epoch. Without `certificates` it is not asked for.
  virtual void set_identity(std::shared_ptr<const PeerIdentity> identity) = 0;
  // The relays of the cluster, host:port: this process waits at two of them, and reaches over one
  // whom it cannot reach otherwise (ways.h). May wait for the name service.
  virtual void set_relays(std::vector<std::string> relays) = 0;
  virtual std::size_t waits_at() const = 0;  // so many relays at the moment

  // Replicas of these agents are refused from now on, and pairs with them end. What a handshake
  // says of them is set_identity()'s business.
  virtual void revoke(const std::vector<AgentId>& agents) = 0;
  // Refusals on the port since the start, of connections and of streams. Any thread.
  virtual RefusalCounts refusals() const = 0;

  // Takes part in `plan` as `self`. `input` must not change meanwhile; `average` is complete and
  // the same on every member on success. Ends early when `stop` is requested.
  virtual ReduceResult reduce(const ReducePlan& plan, ReplicaId self, const ReduceInput& input,
                              AverageRoom average, std::stop_token stop) = 0;

  // The same with a session that somebody else made, whose vectors may lie anywhere.
  virtual ReduceResult reduce_with(std::unique_ptr<ReduceSession> session,
                                   std::stop_token stop) = 0;

  virtual void set_state_handler(StateHandler handler) = 0;
  virtual void set_momentum_handler(MomentumHandler handler) = 0;

  // Measures the lines from `self` to these peers in the background, never beside a reduce; in
  // place of those that an earlier call named and that are not measured yet.
  virtual void measure(ReplicaId self, std::vector<PeerAddress> peers) = 0;
  // What is known of the lines by measuring and by traffic, as far as it changed since the last
  // call.
  virtual std::vector<LinkEstimate> take_links() = 0;

  // Runs `session` until it is level or has given up (state_join.h). `moved` is called after each
  // answer, from this thread.
  virtual Status join(JoinSession& session, JoinNews& news,
                      const std::function<void(const JoinSession&)>& moved,
                      std::stop_token stop) = 0;

  // Fetches the outer momentum that `holder` keeps for `key`; `out` is as long as its range.
  virtual Status fetch_momentum(const MomentumHolder& holder, const RoundKey& key,
                                std::span<float> out, std::stop_token stop) = 0;
};

}  // namespace shoal::outer_opt
