// A trainer's presence among its peers: serves PeerService on one port and calls it on others. It
// moves vectors for the outer all-reduce and hands a joiner the state of a donor. It drives the
// pure sessions of outer_opt/core over gRPC streams (raw zero-copy frames of about 1 MiB) and
// counts the bytes of each attempt. It knows nothing of models and nothing of the
// coordinator.
//
// Threads: every method may be called from any thread; reduce() and the fetch methods block the
// caller until they end, fail, meet their deadline or are cancelled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "outer_opt/core/reduce/reduce_session.h"
#include "outer_opt/core/step/fragments.h"

namespace grpc {
class Service;
}
namespace shoal::wire {
class EmulatedLine;
}

namespace shoal::outer_opt {

// How long a fetch of state is gone on with. A donor may have to finish a step of training before
// the first value comes, so a silent stream is waited for longer than a line that is gone.
struct FetchPatience {
  Duration broken = seconds(30);  // nothing moved over however many lines
  Duration silent = seconds(90);  // nothing moved in one stream
};

struct PeerNodeOptions {
  std::string bind = "127.0.0.1:0";  // host:port, port 0 takes a free one
  std::string advertise_host;        // what peers dial; empty: the host of `bind`
  Duration keepalive = seconds(4);   // a frozen peer is noticed after about two of these
  int sessions_max = 8;              // attempts that peers may open before we know them
  FetchPatience state_patience;
  FetchPatience momentum_patience{seconds(3), seconds(15)};  // a reduce waits for it
  bool local_sockets = true;                 // also reachable by a Unix socket from the same host
  std::shared_ptr<wire::EmulatedLine> line;  // all connections go over it; none: the real line
  std::vector<grpc::Service*> services;      // further ones on the same port; must outlive the node
};

// The state of one replica at its last commit. The spans stay valid until the donor callback
// returns.
struct DonorState {
  RoundKey key;
  std::span<const float> anchor, momentum, adam_m, adam_v;
  std::int64_t adam_step = 0;
};

// Called from a gRPC thread for FetchState. Must call `serve` once while the state cannot change,
// or return an error (kNotFound: not my replica; kConflict: I do not hold that round).
using Donor = std::function<Status(ReplicaId replica, const RoundKey& key,
                                   const std::function<void(const DonorState&)>& serve)>;

// Likewise for FetchMomentum: a range of sharded outer momentum. kConflict also when it does not
// keep that range.
using MomentumDonor =
    std::function<Status(ReplicaId replica, const RoundKey& key, const ValueRange& range,
                         const std::function<void(std::span<const float>)>& serve)>;

// Where fetch_state() writes.
struct StateSink {
  std::span<float> anchor, momentum, adam_m, adam_v;  // as long as the donor's, or empty
  std::int64_t adam_step = 0;
  Bytes received;  // as it travelled
  // How much of it is filled and how large it is; called from the fetching thread for each chunk.
  std::function<void(Bytes filled, Bytes all)> moved = {};
};

struct ReduceOutcome {
  Digest average;  // over the checksums of the averaged chunks: to be compared with other members'
                   // only
  ReduceStats stats;
  std::vector<ReplicaId> left_out;  // of the own part (ReduceSession::left_out)
  std::size_t streams = 0;          // to and from all peers
  Bytes borrowed;  // of those received: read in the memory of other processes of this host
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

class PeerNode {
 public:
  static Result<std::unique_ptr<PeerNode>> start(PeerNodeOptions options);
  virtual ~PeerNode() = default;

  virtual std::string address() const = 0;  // advertise_host:port

  // Takes part in `plan` as `self`. `input` must not change meanwhile; `average` has
  // plan.value_count values, and is complete and the same on every member on success. Ends early
  // when `stop` is requested.
  virtual ReduceResult reduce(const ReducePlan& plan, ReplicaId self, const ReduceInput& input,
                              std::span<float> average, std::stop_token stop) = 0;

  // The same with a session that somebody else made, whose vectors may lie anywhere.
  virtual ReduceResult reduce_with(std::unique_ptr<ReduceSession> session,
                                   std::stop_token stop) = 0;

  virtual void set_donor(Donor donor) = 0;
  virtual void set_momentum_donor(MomentumDonor donor) = 0;

  // Measures the lines from `self` to these peers in the background, never beside a reduce; in
  // place of those that an earlier call named and that are not measured yet.
  virtual void measure(ReplicaId self, std::vector<PeerAddress> peers) = 0;
  // What is known of the lines by measuring and by traffic, as far as it changed since the last
  // call.
  virtual std::vector<LinkEstimate> take_links() = 0;

  // Fetches the state that `donor` at `address` holds for `key`, and goes on where it was when the
  // line breaks. Checks chunk checksums, not digests.
  virtual Status fetch_state(const std::string& address, ReplicaId donor, const RoundKey& key,
                             StateSink& sink, std::stop_token stop) = 0;

  // Fetches the outer momentum that `holder` keeps for `key`; `out` is as long as its range.
  virtual Status fetch_momentum(const MomentumHolder& holder, const RoundKey& key,
                                std::span<float> out, std::stop_token stop) = 0;
};

}  // namespace shoal::outer_opt
