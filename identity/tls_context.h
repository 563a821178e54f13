// TLS for connections between members of a cluster, as contexts for Boost.Asio's streams: TLS 1.3
// only, and certificates that verify_peer() judges inside the handshake, before any content.
//
// Refusals. A server refuses after the client's part of the handshake is done: in TLS 1.3 the
// client's handshake succeeds, and its first read fails. A completed handshake therefore does not
// mean that the client is accepted. The other side gets an alert without our reason;
// handshake_error() says what either side knows.
//
// How long it holds. Revocations and roots count for handshakes from then on. Connections that
// stand, stand: their owner closes those of an agent that is revoked (verdict_of() names it). A
// renewed certificate needs a new context; connections keep the old one alive.
//
// Threads: contexts may be used by many threads, a stream by one at a time. `Clock` and `Trust` are
// called by the threads that do handshakes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include <openssl/types.h>

#include "base/result.h"
#include "base/time.h"
#include "identity/certificate.h"
#include "identity/key.h"
#include "identity/peer.h"
#include "identity/trust.h"

namespace boost::asio::ssl {
class context;
}

namespace shoal::identity {

using Clock = std::function<Instant()>;

// What a process shows of itself: its certificate, what is sent with it (Authority::chain()), and
// the key.
struct Credentials {
  PrivateKey key;
  Certificate certificate;
  std::vector<Certificate> chain;
};

// Every client must be one of `expected`. No session is ever resumed: a resumed one would pass by
// expiry and revocation.
struct MutualServer {
  Credentials own;
  std::shared_ptr<const Trust> trust;
  ExpectedPeer expected;
};

// For people, and for hosts that join: clients show no certificate but a token. Sessions may be
// resumed.
struct OpenServer {
  Credentials own;
};

// `trust` is what the process believes, or the fingerprint of a join token. Without credentials of
// its own it is let in by open servers only.
struct Client {
  std::optional<Credentials> own;
  std::variant<std::shared_ptr<const Trust>, Hash256> trust;
  ExpectedPeer expected;
};

using TlsRole = std::variant<MutualServer, OpenServer, Client>;

// Errors: invalid_argument, field "certificate": key and certificate do not belong together.
Result<std::shared_ptr<boost::asio::ssl::context>> make_tls_context(const TlsRole& role,
                                                                    Clock clock);

// For one connection, before its handshake: who is expected in place of what its context says. A
// client with a host among it also tells the server the host's name.
void expect_peer(SSL* connection, const ExpectedPeer& expected);

// What was found about the peer. Without a fault it says who it is; before the handshake, and
// without a certificate, the fault is kNoCertificate.
PeerVerdict verdict_of(const SSL* connection);

// As which refusal a failed handshake counts at the side that refused; none: the other side refused
// us. `openssl_error` as below.
std::optional<RefusalReason> refusal_of(const SSL* connection, unsigned long openssl_error);

// Why a handshake, or the first read after it, failed: our own verdict, what the other side's alert
// says, or that the other side does not speak TLS. `openssl_error` is the error's number: in Asio
// value() of an error code of the category "asio.ssl", else 0.
Error handshake_error(const SSL* connection, unsigned long openssl_error);

}  // namespace shoal::identity
