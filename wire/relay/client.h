// A replica at a relay (relay.h): calls another one, or waits to be called. What comes of it is a
// descriptor over which the two talk as over any connection.
//
// The relay is not asked who it is: it carries TLS between the two ends, who look at each other's
// certificates, so a false one can lose bytes, and no more.
//
// Threads: everything happens on the thread that runs the context; call from there only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/backoff.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "identity/tls_context.h"
#include "wire/relay/word_line.h"

namespace shoal::wire::relay {

// Returns the current credentials; certificates are renewed.
using OwnCredentials = std::function<identity::Credentials()>;
// A non-blocking descriptor, which belongs to the callee.
using Connected = std::function<void(Result<int>)>;

// Reaches `whom` over the relay at host:port. Errors: not_found, nobody of that number waits there;
// deadline_exceeded; unavailable; what the relay says.
void call_over(net::io_context& io, const std::string& relay, const OwnCredentials& own,
               ReplicaId whom, Duration limit, Connected connected);

struct WaitOptions {
  std::string relay;            // host:port
  Duration limit = seconds(5);  // of each handshake
  Duration beat = seconds(3);   // how often it says that it lives
  Duration backoff_first = milliseconds(200), backoff_max = seconds(10);
};

// Waits at one relay until its end, also after the relay was gone for a while.
class Waiter : public std::enable_shared_from_this<Waiter> {
 public:
  // Called for each peer that has called and was answered.
  using Reached = std::function<void(int fd)>;
  // Whether it waits at the moment, or why not.
  using Told = std::function<void(const Status&)>;

  Waiter(net::io_context& io, WaitOptions options, OwnCredentials own, std::uint64_t seed);
  void start(Reached reached, Told told);
  void close();

 private:
  void dial();
  void granted(std::shared_ptr<WordLine> line);
  void listen();
  void beat();
  void answer(CallId call);
  void again(const Error& why);

  net::io_context& io_;
  const WaitOptions options_;
  const OwnCredentials own_;
  Prng prng_;
  Backoff backoff_;
  net::steady_timer retry_, beat_;
  std::shared_ptr<WordLine> line_;
  Reached reached_;
  Told told_;
  bool is_over_ = false;
};

}  // namespace shoal::wire::relay
