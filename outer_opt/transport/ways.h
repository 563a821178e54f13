// How this process reaches a peer, the first of these that works:
//
//   direct    it dials the peer's address
//   reverse   it takes a connection that the peer dialed: one that the peer lends, because either
//             end of a pair opens streams, or one that the peer makes when it is asked for it over
//             a relay
//   relayed   a relay carries the bytes (wire/relay)
//
// What failed is remembered and left out for WaysOptions::again; then it is tried in the
// background, so that nobody waits for an address that nobody can dial. Only replicas with
// certificates go other ways than the direct one, because nothing else says who is at the other
// end.
//
// A process waits for calls at two of the relays that it is told of. Which two follows from its
// replica's number, so that callers know where to look first. With a relay that is lost go the
// pairs over it; a replica that reaches the peer again takes the other one.
//
// Streams of the purpose kWayPurpose: "lend", this pair may be used by you, too; "back LANES
// ADDRESS", dial me there, which the end of the stream answers; "given", this is what you asked
// for; "are REPLICA", over a Unix socket, which shows no certificate: are you it?
//
// Bounds. Each try has a deadline. kPeersMax peers are remembered, kRelaysMax relays are known.
//
// Threads. All methods may be called from any thread; `done` comes from the node's I/O thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "outer_opt/core/round/round.h"
#include "outer_opt/transport/peer_identity.h"
#include "threads/mutex.h"
#include "wire/relay/client.h"
#include "wire/stream/blocking_stream.h"

namespace shoal::outer_opt {

inline constexpr char kWayPurpose[] = "way";

// A pair with a peer, and how it came about.
struct Reached {
  std::shared_ptr<wire::stream::Pair> pair;
  PeerWay way = PeerWay::kDirect;
  bool is_lent = false;  // the peer uses it, too, and closes it
  void let_go() const {
    if (!is_lent) pair->close();
  }
};

struct WaysOptions {
  Duration direct_limit = seconds(3);  // until the next way is tried
  Duration lent_limit = seconds(1);    // for a pair that the peer is about to lend
  Duration call_limit = seconds(3);    // of a call over one relay
  Duration back_limit = seconds(3);    // for a peer that was asked to dial
  Duration name_limit = seconds(2);    // for the certificate of a process that is asked its name
  Duration again = seconds(120);       // what failed is left out for so long
  Duration relay_again = seconds(15);  // a relay that failed is asked last for so long
  wire::relay::WaitOptions wait;       // its `relay` is set here
};

// The relays in the order in which this replica is called over them; it waits at the first two.
std::vector<std::string> relays_of(ReplicaId replica, std::vector<std::string> relays);

class Ways : public std::enable_shared_from_this<Ways> {
 public:
  static constexpr std::size_t kPeersMax = 256, kRelaysMax = 64, kWaitsAtMax = 2;
  using Done = std::function<void(Result<Reached>)>;

  // The node outlives close().
  Ways(wire::stream::Node& node, WaysOptions options) : node_(node), options_(options) {}
  Ways(const Ways&) = delete;
  Ways& operator=(const Ways&) = delete;
  void close();  // waits for the I/O thread; pending calls end

  // `anew`: this process is another replica from now on.
  void set_identity(std::shared_ptr<const PeerIdentity> identity, bool anew);
  // Replaces those it knew. Beyond kRelaysMax they are left out. May wait for the name service.
  void set_relays(std::vector<std::string> relays);
  std::size_t waits_at() const;  // so many relays at the moment

  // A pair for `peer`, dialed as `to` says where that can be done. `keeps`: it is used for long,
  // so the peer may use it, too, and a pair that the peer lends will do.
  void reach(const PeerAddress& peer, wire::stream::DialOptions to, bool keeps, Done done);
  // Cancelled when `stop` is requested: a connection that still comes about is closed.
  Result<Reached> reach_and_wait(const PeerAddress& peer, wire::stream::DialOptions to,
                                 const std::stop_token& stop);
  // Whether nothing better is known than the way of a pair that stands. Looks in the background
  // whether there is, when the last try was long ago.
  bool is_best(const PeerAddress& peer, const wire::stream::DialOptions& to, PeerWay way);

  // For a thread that may wait: answers a stream of kWayPurpose. Its opener is a replica of
  // this job. Errors: not_found, the address cannot be dialed; invalid_argument.
  Status serve(const std::shared_ptr<wire::stream::Pair>& pair, std::string_view purpose);

 private:
  using PairPtr = std::shared_ptr<wire::stream::Pair>;
  struct Attempt;
  using AttemptPtr = std::shared_ptr<Attempt>;
  using Step = void (Ways::*)(const AttemptPtr&);
  struct Peer {
    Instant direct_again, back_again;  // a try before that would be in vain; zero: it was not
    PairPtr lent;
    Instant used_at;
  };
  struct Relay {
    std::string name, number;  // host:port as it was told, and without a name
    Instant failed_at;
  };

  // ---- what is known
  Peer& peer_of(ReplicaId replica) SHOAL_REQUIRES(mutex_);
  bool has_others(const Peer& peer) const SHOAL_REQUIRES(mutex_);
  bool may_dial(const AttemptPtr& attempt);
  void note_direct(ReplicaId replica, bool is_reached);
  void look_for_direct(ReplicaId replica, wire::stream::DialOptions to);
  PairPtr lent_by(ReplicaId replica);
  bool may_ask_back(ReplicaId replica);
  std::optional<Relay> next_relay(Attempt& attempt);
  void note_relay(const std::string& name);
  identity::Credentials credentials() const;

  // ---- an attempt, on the I/O thread except dial()
  void dial(const AttemptPtr& attempt);
  void dialed(const AttemptPtr& attempt, Result<PairPtr> pair);
  void named(const AttemptPtr& attempt, const PairPtr& pair, bool is_right);
  void not_direct(const AttemptPtr& attempt);
  void call(const AttemptPtr& attempt);
  void in_vain(const AttemptPtr& attempt);
  void go_on(const AttemptPtr& attempt);
  void called(const AttemptPtr& attempt, const Relay& relay, Result<PairPtr> pair);
  void ask_back(const AttemptPtr& attempt);
  void not_back(const AttemptPtr& attempt);
  void wait(const AttemptPtr& attempt, Duration limit, Step then);
  void finish(const AttemptPtr& attempt, Result<Reached> result);
  void lend(const AttemptPtr& attempt, wire::stream::Pair& pair);

  // ---- what peers say
  void lent(ReplicaId by, const PairPtr& pair);
  void given(ReplicaId by, const PairPtr& pair);
  Status dial_back(ReplicaId whom, std::string_view words);
  Status answer_name(std::string_view words);

  // ---- where it waits
  std::map<std::string, std::string> wanted_relays(ReplicaId own) const;
  void arrange();
  void wait_at(const std::string& name, const std::string& number);

  wire::stream::Node& node_;
  const WaysOptions options_;

  mutable Mutex mutex_;
  CondVar identified_;  // identity_ is another one, or closing_ is set
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const PeerIdentity> identity_ SHOAL_GUARDED_BY(mutex_);
  std::vector<Relay> relays_ SHOAL_GUARDED_BY(mutex_);
  std::map<ReplicaId, Peer> peers_ SHOAL_GUARDED_BY(mutex_);

  // I/O thread.
  std::list<AttemptPtr> attempts_;
  struct Waiting {
    std::shared_ptr<wire::relay::Waiter> waiter;
    std::shared_ptr<bool> waits;
  };
  std::map<std::string, Waiting> waiting_;  // by the relay's name
  ReplicaId waiting_as_;
  bool is_over_ = false;
  std::atomic<std::size_t> waits_at_{0};
};

}  // namespace shoal::outer_opt
