// Bytes over a non-blocking descriptor, with TLS or without. A carrier does what can be done at
// once and says what to wait for; it never waits.
//
// TLS. Records are encrypted from where the payload lies and decrypted to where it belongs; small
// parts share a record. The record layer works on the descriptor itself, not through Asio's stream,
// which copies each record twice more and reads 16 KiB at a time. The kernel's TLS is not used.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "base/refusals.h"
#include "base/result.h"
#include "identity/names.h"
#include "identity/peer.h"

namespace boost::asio::ssl {
class context;
}

namespace shoal::wire::stream {

enum class Wait {
  kNothing,  // continue
  kRead,     // until the descriptor can be read
  kWrite,
  kOver,  // it has ended: why() says how
};

struct Step {
  std::size_t bytes = 0;  // moved
  Wait wait = Wait::kNothing;
};

class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual Step handshake() = 0;  // kNothing: done
  // Into `first`, then into `rest`, as far as there is something. One of them is not empty.
  virtual Step read(std::span<std::byte> first, std::span<std::byte> rest) = 0;
  // From the front of `parts`, of which none is empty. After kWrite the next call must begin with
  // the same bytes, wherever they lie by then.
  virtual Step write(std::span<const std::span<const std::byte>> parts) = 0;
  virtual Error why() const = 0;
  // As which refusal it counts that the handshake failed; none: the other end refused us.
  virtual std::optional<RefusalReason> refusal() const { return RefusalReason::kMalformed; }
  // The proven identity of the other end; nothing without TLS.
  virtual std::optional<identity::PeerName> peer() const = 0;
};

// Neither owns the descriptor, which must be non-blocking.
std::unique_ptr<Carrier> make_plain_carrier(int fd);
std::unique_ptr<Carrier> make_tls_carrier(int fd,
                                          std::shared_ptr<boost::asio::ssl::context> context,
                                          bool dials,
                                          const std::optional<identity::ExpectedPeer>& expected);

}  // namespace shoal::wire::stream
