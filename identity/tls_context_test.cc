// Handshakes over loopback sockets: who is let in, who is refused, and what each side learns.
#include "identity/tls_context.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include <openssl/ssl.h>

#include "identity/asio_ssl.h"
#include "identity/identity_test_util.h"

namespace shoal::identity {
namespace {

namespace net = boost::asio;
namespace ssl = net::ssl;
using tcp = net::ip::tcp;
using Stream = ssl::stream<tcp::socket>;
using ContextPtr = std::shared_ptr<ssl::context>;
using ErrorCode = boost::system::error_code;

ContextPtr context_of(const TlsRole& role, Instant now = kNoon) {
  auto context = make_tls_context(role, [now] { return now; });
  EXPECT_TRUE(context.ok());
  return *context;
}

// What one side of a connection saw.
struct Side {
  ErrorCode handshake, transfer;
  PeerVerdict verdict;
  std::optional<Error> error;  // in words, when something failed
  bool has_ticket = false;
  std::string version;
};

struct Meeting {
  Side server, client;
  bool has_passed = false;  // the server's byte reached the client
};

unsigned long openssl_error(const ErrorCode& error) {
  const bool is_ssl = error.category() == net::error::get_ssl_category();
  return is_ssl ? static_cast<unsigned long>(error.value()) : 0;
}

void look_back(Side& side, Stream& stream) {
  SSL* connection = stream.native_handle();
  side.verdict = verdict_of(connection);
  const ErrorCode& failed = side.handshake ? side.handshake : side.transfer;
  if (failed) side.error = handshake_error(connection, openssl_error(failed));
  const SSL_SESSION* session = SSL_get_session(connection);
  side.has_ticket = session != nullptr && SSL_SESSION_has_ticket(session) == 1;
  side.version = SSL_get_version(connection);
}

// The server sends a byte once it has let the client in; the client waits for it.
Meeting meet(ssl::context& server_context, ssl::context& client_context,
             const std::optional<ExpectedPeer>& client_expects = std::nullopt) {
  net::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(net::ip::address_v4::loopback(), 0));
  Stream client(io, client_context), server(io, server_context);
  client.next_layer().connect(acceptor.local_endpoint());
  acceptor.accept(server.next_layer());
  if (client_expects) expect_peer(client.native_handle(), *client_expects);
  Meeting meeting;
  char sent = 'x', got = 0;
  server.async_handshake(Stream::server, [&](const ErrorCode& error) {
    meeting.server.handshake = error;
    if (error) return server.next_layer().close();
    net::async_write(server, net::buffer(&sent, 1), [&](const ErrorCode& failed, std::size_t) {
      meeting.server.transfer = failed;
    });
  });
  client.async_handshake(Stream::client, [&](const ErrorCode& error) {
    meeting.client.handshake = error;
    if (error) return client.next_layer().close();
    net::async_read(client, net::buffer(&got, 1), [&](const ErrorCode& failed, std::size_t) {
      meeting.client.transfer = failed;
    });
  });
  io.run_for(std::chrono::seconds(20));
  EXPECT_TRUE(io.stopped()) << "a handshake hangs";
  meeting.has_passed = got == sent;
  look_back(meeting.server, server);
  look_back(meeting.client, client);
  return meeting;
}

// A cluster whose members have keys.
struct Net : Cluster {
  std::shared_ptr<Trust> trust = std::make_shared<Trust>(Beliefs{ca.roots(kNoon), {}});

  explicit Net(const char* text = "reef", Instant now = kNoon) : Cluster(text, now) {}

  Credentials agent_credentials(AgentId id = AgentId(7), Instant now = kNoon) const {
    const PrivateKey key = PrivateKey::make();
    return {key, *ca.issue_agent(request_of(key), id, now), ca.chain(now)};
  }
  Credentials replica_credentials(const ReplicaName& of = kReplica) const {
    const PrivateKey key = PrivateKey::make();
    return {key, *ca.issue_replica(request_of(key), of, kNoon), ca.chain(kNoon)};
  }
  Credentials server_credentials() const {
    const PrivateKey key = PrivateKey::make();
    return {key, *ca.issue_server(key, {"localhost", "127.0.0.1"}, kNoon), ca.chain(kNoon)};
  }
  ContextPtr server(Instant now = kNoon) const {
    return context_of(MutualServer{server_credentials(), trust, any_agent()}, now);
  }
  ContextPtr client(const Credentials& own, Instant now = kNoon) const {
    return context_of(Client{own, trust, coordinator()}, now);
  }
};

TEST(Tls, MembersOfAClusterMeet) {
  const Net net;
  const Meeting meeting = meet(*net.server(), *net.client(net.agent_credentials()));
  EXPECT_TRUE(meeting.has_passed);
  EXPECT_FALSE(meeting.server.error);
  EXPECT_EQ(meeting.server.verdict.name, (PeerName{net.name, AgentId(7)}));
  EXPECT_EQ(meeting.client.verdict.name, (PeerName{net.name, CoordinatorName()}));
  EXPECT_TRUE(meeting.server.verdict.ok() && meeting.client.verdict.ok());
  EXPECT_EQ(meeting.client.version, "TLSv1.3");
}

// Refused by the server: its handshake fails, and the client reads an alert in place of content.
void expect_refused(const Meeting& meeting, PeerFault fault, const char* alert) {
  EXPECT_FALSE(meeting.has_passed);
  EXPECT_TRUE(meeting.server.handshake) << to_string(fault);
  EXPECT_EQ(meeting.server.verdict.fault, fault);
  ASSERT_TRUE(meeting.client.error) << to_string(fault);
  EXPECT_NE(meeting.client.error->message.find(alert), std::string::npos)
      << to_string(*meeting.client.error);
}

TEST(Tls, AServerRefusesInTheHandshake) {
  const Net net, foreign;
  // A day later the server's own certificate still counts, the agent's does not.
  const Instant later = kNoon + days(1) + minutes(1);
  expect_refused(meet(*net.server(later), *net.client(net.agent_credentials(), later)),
                 PeerFault::kExpired, "expired by its clock");
  expect_refused(meet(*net.server(), *net.client(net.agent_credentials(AgentId(7), later))),
                 PeerFault::kNotYetValid, "not valid yet");
  const Client stranger{foreign.agent_credentials(), net.trust, net.coordinator()};
  expect_refused(meet(*net.server(), *context_of(stranger)), PeerFault::kForeignCa,
                 "does not know the CA");
  const Client nobody{std::nullopt, net.trust, net.coordinator()};
  expect_refused(meet(*net.server(), *context_of(nobody)), PeerFault::kNoCertificate,
                 "wants a certificate");
  expect_refused(meet(*net.server(), *net.client(net.replica_credentials())), PeerFault::kOtherKind,
                 "it expects another peer");
}

TEST(Tls, ARevocationCountsForTheNextHandshake) {
  const Net net;
  const ContextPtr server = net.server(), client = net.client(net.agent_credentials());
  EXPECT_TRUE(meet(*server, *client).has_passed);
  net.trust->set({net.ca.roots(kNoon), {{AgentId(7)}, {}}});
  expect_refused(meet(*server, *client), PeerFault::kRevoked, "was revoked");
  net.trust->set({net.ca.roots(kNoon), {}});
  EXPECT_TRUE(meet(*server, *client).has_passed);
}

TEST(Tls, AClientRefusesAnotherCoordinator) {
  const Net net, foreign;
  const auto refused_with = [&](const Credentials& server) {
    const ContextPtr context = context_of(MutualServer{server, net.trust, net.any_agent()});
    const Meeting meeting = meet(*context, *net.client(net.agent_credentials()));
    EXPECT_FALSE(meeting.has_passed);
    EXPECT_TRUE(meeting.client.handshake);
    EXPECT_TRUE(meeting.server.handshake);  // and it never saw the agent's certificate
    EXPECT_EQ(meeting.server.verdict.fault, PeerFault::kNoCertificate);
    EXPECT_TRUE(meeting.server.error && meeting.client.error);
    return meeting.client.verdict.fault;
  };
  EXPECT_EQ(refused_with(foreign.server_credentials()), PeerFault::kForeignCa);
  EXPECT_EQ(refused_with(net.agent_credentials(AgentId(8))), PeerFault::kOtherKind);
  EXPECT_EQ(refused_with(net.replica_credentials()), PeerFault::kOtherKind);
}

TEST(Tls, AReplicaIsTheOneThatTheViewNames) {
  const Net net;
  const ContextPtr server =
      context_of(MutualServer{net.replica_credentials(), net.trust, net.any_replica()});
  ReplicaName near = kReplica;
  near.agent = AgentId(8);
  near.replica = ReplicaId(42);
  const ContextPtr client =
      context_of(Client{net.replica_credentials(near), net.trust, net.any_replica()});
  const Meeting right = meet(*server, *client, expect_exactly({net.name, kReplica}));
  EXPECT_TRUE(right.has_passed);
  EXPECT_EQ(right.server.verdict.name, (PeerName{net.name, near}));
  ReplicaName before = kReplica;
  before.epoch = 1;
  const Meeting wrong = meet(*server, *client, expect_exactly({net.name, before}));
  EXPECT_FALSE(wrong.has_passed);
  EXPECT_EQ(wrong.client.verdict.fault, PeerFault::kOtherEpoch);
  EXPECT_EQ(wrong.client.error->code, Code::kPermissionDenied);
}

TEST(Tls, TheHostThatWasCalledIsChecked) {
  const Net net;
  const ContextPtr server = net.server(), client = net.client(net.agent_credentials());
  ExpectedPeer expected = net.coordinator();
  for (const char* host : {"localhost", "127.0.0.1"}) {
    expected.host = host;
    EXPECT_TRUE(meet(*server, *client, expected).has_passed) << host;
  }
  expected.host = "example.org";
  EXPECT_EQ(meet(*server, *client, expected).client.verdict.fault, PeerFault::kOtherHost);
}

TEST(Tls, AJoinerFindsTheCaOfItsToken) {
  const Net net, foreign;
  const ContextPtr server = context_of(OpenServer{net.server_credentials()});
  const auto join = [&](const Hash256& pin) {
    return meet(*server, *context_of(Client{std::nullopt, pin, net.coordinator()}));
  };
  EXPECT_TRUE(join(net.ca.fingerprint()).has_passed);
  const Meeting refused = join(foreign.ca.fingerprint());
  EXPECT_FALSE(refused.has_passed);
  EXPECT_EQ(refused.client.verdict.fault, PeerFault::kForeignCa);
  EXPECT_EQ(refused.client.verdict.their_ca, net.ca.fingerprint());
}

TEST(Tls, DuringARotationOldAndNewMeet) {
  Net net;
  const Credentials old = net.agent_credentials();
  const auto knows_old_only = std::make_shared<const Trust>(Beliefs{net.ca.roots(kNoon), {}});
  net.ca = *net.ca.rotated(Authority::make(net.name, kNoon), kOverlap, kNoon);
  net.trust->set({net.ca.roots(kNoon), {}});
  const ContextPtr client = context_of(Client{old, knows_old_only, net.coordinator()});
  EXPECT_TRUE(meet(*net.server(), *client).has_passed);
  EXPECT_TRUE(meet(*net.server(), *net.client(net.agent_credentials())).has_passed);
}

// By a client of somebody else, who would like to resume.
TEST(Tls, OnlyAnOpenServerLetsResume) {
  const Net net;
  const Credentials own = net.agent_credentials();
  ssl::context plain(ssl::context::tls_client);
  SSL_CTX_use_certificate(plain.native_handle(), own.certificate.get());
  SSL_CTX_use_PrivateKey(plain.native_handle(), own.key.get());
  const Meeting mutual = meet(*net.server(), plain);
  EXPECT_TRUE(mutual.has_passed);
  EXPECT_FALSE(mutual.client.has_ticket);
  const Meeting open = meet(*context_of(OpenServer{net.server_credentials()}), plain);
  EXPECT_TRUE(open.has_passed);
  EXPECT_TRUE(open.client.has_ticket);
}

TEST(Tls, OlderVersionsAreRefused) {
  const Net net;
  ssl::context old(ssl::context::tlsv12_client);
  const Meeting meeting = meet(*context_of(OpenServer{net.server_credentials()}), old);
  EXPECT_FALSE(meeting.has_passed);
  EXPECT_TRUE(meeting.server.handshake);
}

TEST(Tls, ARenewedContextLeavesConnectionsAlone) {
  const Net net;
  net::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(net::ip::address_v4::loopback(), 0));
  ContextPtr server_context = net.server(), client_context = net.client(net.agent_credentials());
  Stream client(io, *client_context), server(io, *server_context);
  server_context.reset();
  client_context.reset();
  client.next_layer().connect(acceptor.local_endpoint());
  acceptor.accept(server.next_layer());
  int done = 0;
  const auto count = [&](const ErrorCode& error) { done += error ? 0 : 1; };
  server.async_handshake(Stream::server, count);
  client.async_handshake(Stream::client, count);
  io.run_for(std::chrono::seconds(20));
  EXPECT_EQ(done, 2);
}

TEST(Tls, SaysWhenTheOtherSideSpeaksNoTls) {
  const Net net;
  net::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(net::ip::address_v4::loopback(), 0));
  const ContextPtr context = net.client(net.agent_credentials());
  Stream client(io, *context);
  tcp::socket server(io);
  client.next_layer().connect(acceptor.local_endpoint());
  acceptor.accept(server);
  net::write(server, net::buffer("HTTP/1.1 400 Bad Request\r\n\r\n", 28));
  std::optional<Error> said;
  client.async_handshake(Stream::client, [&](const ErrorCode& error) {
    if (error) said = handshake_error(client.native_handle(), openssl_error(error));
  });
  io.run_for(std::chrono::seconds(20));
  ASSERT_TRUE(said);
  EXPECT_EQ(said->message, "the other side does not speak TLS");
}

TEST(Tls, AKeyOfAnotherCertificateIsRefused) {
  const Net net;
  Credentials own = net.agent_credentials();
  own.key = PrivateKey::make();
  const auto refused = make_tls_context(OpenServer{own}, [] { return kNoon; });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "certificate");
}

TEST(Tls, ThreadsShareContextsAndTrust) {
  const Net net;
  const ContextPtr server = net.server(), client = net.client(net.agent_credentials());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) EXPECT_TRUE(meet(*server, *client).has_passed);
    });
  }
  for (int i = 0; i < 100; ++i) net.trust->set({net.ca.roots(kNoon), {{AgentId(8)}, {}}});
  for (std::thread& thread : threads) thread.join();
}

// Not judged: a busy machine may take any time. Seen with two shared cores: docs/identity.md.
TEST(Tls, TellsHowLongAHandshakeTakes) {
  const Net net;
  const ContextPtr server = net.server(), client = net.client(net.agent_credentials());
  std::vector<double> times;
  for (int i = 0; i < 50; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(meet(*server, *client).has_passed);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  std::printf("mutual handshake and one byte, both ends in one thread: median %.2f ms, p99 %.2f\n",
              times[times.size() / 2], times.back());
}

}  // namespace
}  // namespace shoal::identity
