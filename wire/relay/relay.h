// The server of an agent that relays: brings together replicas neither of which can dial the other.
//
// A replica that nobody can dial keeps a connection to the relay and waits. A peer of its job calls
// it by its number; the one that waits is told, dials the relay once more and answers; from then on
// the relay carries bytes from one connection to the other. What passes is their TLS: the relay has
// no key of theirs, and cannot read or change what it carries. It can only lose it.
//
// Access. Every request proves by certificate and signature which replica of this cluster sends it
// (words.h), and reaches waiting replicas of the same job only.
//
// Bounds: a deadline and two quotas for handshakes, the quotas of switchboard.h, a shared rate, and
// the idle limit of splice.h. The reasons for which connections were refused are counted.
//
// Threads: one I/O thread of its own. The methods may be called from any thread. Its end closes all
// connections and joins the thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "identity/tls_context.h"
#include "identity/trust.h"
#include "wire/relay/core/switchboard.h"

namespace shoal::wire::relay {

struct RelayOptions {
  std::string bind = "127.0.0.1:0";  // host:port, port 0 takes a free one
  std::string advertise_host;        // what replicas dial; empty: the host of `bind`
  Limits limits;
  Duration handshake_limit = seconds(5);
  int handshakes_max = 64, handshakes_per_host_max = 16;
  Duration idle_limit = seconds(30);
  double mbit_max = 0;  // of all that it carries, both ways together; 0: no limit
};
// Error: validation, with the field's name.
Status check_options(const RelayOptions& options);

struct RelayCounts {
  std::uint64_t waiting = 0, joined = 0;                 // now
  std::uint64_t joined_total = 0, bytes_total = 0;       // since it started
  std::uint64_t refused_identity = 0, refused_asks = 0;  // not who they say; quotas, nobody there
  std::uint64_t refused_handshakes = 0;                  // too many, too slow, no words
};

class Relay {
 public:
  // Errors: validation; unavailable, the address is taken or not one of this host.
  static Result<std::unique_ptr<Relay>> start(RelayOptions options, identity::ClusterName cluster,
                                              std::shared_ptr<const identity::Trust> trust,
                                              identity::Clock clock);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string address() const;
  RelayCounts counts() const;

 private:
  class Server;
  explicit Relay(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace shoal::wire::relay
