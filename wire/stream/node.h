// A process among its peers: listens, dials, and keeps the pairs that come of it. Connections
// between hosts are TLS 1.3, both ends with a certificate (identity/tls_context.h); on one host and
// in one network namespace they run over Unix sockets between processes of one user.
//
// Threads. A node has one I/O thread. All sockets, all cryptography and all events of streams are
// its business; callbacks from it must not block. The node's methods may be called from any
// thread. Its end closes every pair, with closed() for every stream, and then joins the thread:
// nothing is called afterwards, and hold no Stream or Pair longer. It must not end within an event.
//
// Bounds. A handshake, the hello included, has a deadline. While they last, handshakes have a quota
// for all and one for each host; then pairs have one for all and one for each peer, connections of
// a pair one, streams one, and a stream its window. A frozen peer is noticed after four beats.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "identity/peer.h"
#include "threads/refusal_counter.h"
#include "wire/emulated_line.h"
#include "wire/stream/pair.h"

namespace shoal::wire::stream {

struct TlsContexts {
  std::shared_ptr<boost::asio::ssl::context> server, client;
};

struct NodeOptions {
  std::string bind = "127.0.0.1:0";  // host:port, port 0 takes a free one; empty: dials only
  std::string advertise_host;        // what peers dial; empty: the host of `bind`
  std::optional<TlsContexts> tls;    // none: bytes as they are, on a network the operator trusts
  bool needs_tls = false;            // set_tls() comes later: until then no host is talked to
  bool local_sockets = true;         // also reachable by a Unix socket from the same host
  std::shared_ptr<EmulatedLine> line = nullptr;  // all connections go over it; none: the real line
  Quotas quotas;
  Duration handshake_limit = seconds(5);
  Duration beat = seconds(2);
  Duration stream_limit = seconds(600);  // of streams that peers open, unless their user sets one
  int handshakes_max = 64, handshakes_per_host_max = 32;
  int pairs_max = 1024, pairs_per_peer_max = 8;  // that peers dialed
};
// Error: validation, with the field's name.
Status check_options(const NodeOptions& options);

// Makes a connection in place of dialing an address, as over a relay: is called from the I/O
// thread of `io`, and gives a descriptor or a reason from there, once, within a limit of its own.
using MakeConnection =
    std::function<void(net::io_context& io, std::function<void(Result<int>)> made)>;

struct DialOptions {
  std::string address;                             // host:port
  std::optional<identity::ExpectedPeer> expected;  // none: as the context says
  int lanes = 1;                                   // connections, at most kLanesMax
  bool local = true;                               // a Unix socket, where there is one
  MakeConnection make = nullptr;                   // each connection; the address is its name only
};

class Node {
 public:
  using Dialed = std::function<void(Result<std::shared_ptr<Pair>>)>;

  static Result<std::unique_ptr<Node>> start(NodeOptions options, AcceptStream accept);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::string address() const { return address_; }  // empty: it does not listen
  // Resolves a name in the caller's thread; the rest is done in the background, one address of the
  // name after another. `dialed` comes from the I/O thread once, when the peer has let us in;
  // further connections follow.
  void dial(DialOptions options, Dialed dialed);
  // A connection that came another way than over the port, as over a relay: takes the descriptor,
  // as if a peer had dialed it. May be called from any thread.
  void adopt(int fd);
  // Where connections are made for this node, on its I/O thread. Code that begins something there
  // ends it before the node's end, which waits for it.
  net::io_context& io() { return *io_; }
  // Contexts for connections from now on. Dialing that waited for them continues. Established pairs
  // keep their certificates; `anew` ends those with other hosts, because this node is another
  // replica from now on.
  void set_tls(TlsContexts contexts, bool anew);
  // Ends those pairs, soon. `which` is called by the I/O thread.
  void end_pairs(std::function<bool(const Pair&)> which, Error why);
  // For pairs that peers dialed: called from the I/O thread, once it is known whose they are.
  void set_joined(std::function<void(std::shared_ptr<Pair>)> joined);
  // Connections that were turned away, and pairs that ended because the peer broke a rule.
  RefusalCounts refusals() const { return refusals_.counts(); }

 private:
  struct Listener {
    Descriptor descriptor;
    bool is_local = false;
  };
  using LanePtr = std::shared_ptr<Lane>;
  using PairPtr = std::shared_ptr<Pair>;

  Node(NodeOptions options, AcceptStream accept);
  Status listen();
  void listen_on(int fd, bool is_local);
  void accept_next(std::shared_ptr<Listener> listener);
  bool accept_all(Listener& listener);
  void accepted(int fd, bool is_local);
  bool is_full(const std::string& host) const;

  void greet(int fd, bool is_local, const std::string& host);
  LanePtr new_lane(int fd, bool is_local, bool dials,
                   const std::optional<identity::ExpectedPeer>& expected);
  void join(const LanePtr& lane, const Hello& hello, const std::string& host);
  Status begin_pair(const LanePtr& lane, const Hello& hello, const std::string& host);
  static std::string name_of(const Lane& lane, const std::string& host);
  bool may_begin(const std::string& peer) const;

  struct Dialing {
    DialOptions options;
    Dialed done;
    bool is_local = false;
    std::vector<std::string> numbers;  // of the address
    std::size_t number = 0;            // which of them is tried, or was found to answer
  };
  using DialingPtr = std::shared_ptr<Dialing>;
  void begin_dial(int fd, DialingPtr dialing);
  void wait_for_tls(int fd, DialingPtr dialing);
  bool lacks_tls(bool is_local) const { return !is_local && options_.needs_tls && !tls_; }
  Status check_dial(const Dialing& dialing) const;
  void dial_first(int fd, DialingPtr dialing);
  void make_first(DialingPtr dialing);
  void not_dialed(Error why, const DialingPtr& dialing);
  void tell(DialingPtr dialing, Result<PairPtr> result);
  void dial_further(const PairPtr& pair, const Dialing& dialing);
  void dial_one_more(const PairPtr& pair, const Dialing& dialing, std::uint16_t lane);
  void add_lane(int fd, const PairPtr& pair, const Dialing& dialing, std::uint16_t lane);
  Hello hello_for(PairId id, std::uint16_t lane, int lanes) const;
  Pair::Options options_for(Side side, const Hello& own, const Lane& first);
  void keep(PairId id, const PairPtr& pair, std::string peer);
  void shut_pairs(const std::function<bool(const Pair&)>& which, const Error& why);
  void shut_all();

  const NodeOptions options_;
  const AcceptStream accept_;
  const std::shared_ptr<net::io_context> io_;
  net::executor_work_guard<net::io_context::executor_type> work_;
  std::string address_;
  RefusalCounter refusals_;

  // I/O thread.
  std::optional<TlsContexts> tls_;
  struct Waiting {
    Waiting(int connection, net::io_context& io) : fd(connection), limit(io) {}
    int fd;
    net::steady_timer limit;
  };
  std::map<DialingPtr, Waiting> without_tls_;
  struct Kept {
    PairPtr pair;
    std::string peer;  // for the quota; empty: we dialed
  };
  std::function<void(PairPtr)> joined_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::map<LanePtr, std::string> shaking_;  // and the host that each is of; empty: we dial
  std::set<DialingPtr> dialing_;            // each is answered, in any case
  std::map<PairId, Kept> pairs_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace shoal::wire::stream
