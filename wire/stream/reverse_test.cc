// The identity of the other end, and streams against the direction of dialing.
#include <gtest/gtest.h>

#include "wire/stream/stream_test_util.h"

namespace shoal::wire::stream {
namespace {

// A node that listens nowhere, as behind a translating router, serves the peers that it dialed.
TEST(Reverse, TheAcceptorOpensStreamsToTheDialer) {
  const TestCluster cluster;
  std::promise<std::shared_ptr<Pair>> joined;
  Host open_one({.tls = cluster.contexts(1), .local_sockets = false});
  open_one.node().set_joined(
      [&](std::shared_ptr<Pair> pair) { joined.set_value(std::move(pair)); });
  Host hidden({.bind = "", .tls = cluster.contexts(2)});
  EXPECT_EQ(hidden.node().address(), "");
  const auto dialed = hidden.dial({.address = open_one.node().address()});
  ASSERT_TRUE(dialed.ok()) << to_string(dialed.error());
  auto known = joined.get_future();
  ASSERT_EQ(known.wait_for(kPatience), std::future_status::ready);
  const std::shared_ptr<Pair> back = known.get();
  EXPECT_FALSE(back->has_dialed());
  EXPECT_EQ(back->peer(), cluster.name_of(2));
  const auto user = open(*back, "reduce");
  const std::string body = pattern(1'000'000, 1);
  user->stream->send(message_of("head", body));
  const auto peer = hidden.accepted();
  ASSERT_TRUE(peer && peer->wait_messages(1));
  EXPECT_TRUE(peer->messages()[0].body == body);
  EXPECT_EQ(peer->stream->pair()->peer(), cluster.name_of(1));
}

TEST(Identity, ADialerExpectsOneReplica) {
  const TestCluster cluster;
  Host server({.tls = cluster.contexts(1), .local_sockets = false});
  Host client({.tls = cluster.contexts(2), .local_sockets = false});
  const std::string address = server.node().address();
  EXPECT_TRUE(client.dial({.address = address, .expected = cluster.exactly(1)}).ok());
  const auto other = client.dial({.address = address, .expected = cluster.exactly(3)});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, Code::kPermissionDenied);
}

TEST(Identity, AStrangerIsRefused) {
  const TestCluster cluster, foreign("atoll");
  Host server({.tls = cluster.contexts(1), .local_sockets = false});
  Host stranger({.tls = foreign.contexts(2), .local_sockets = false});
  EXPECT_FALSE(stranger.dial({.address = server.node().address()}).ok());
  Host plain({.local_sockets = false, .handshake_limit = milliseconds(500)});
  EXPECT_FALSE(plain.dial({.address = server.node().address()}).ok());
  Host member({.tls = cluster.contexts(3), .local_sockets = false});
  EXPECT_TRUE(member.dial({.address = server.node().address()}).ok());
  EXPECT_TRUE(eventually([&] { return server.node().refusals().total() >= 1; }));
}

// Each kind of stranger is counted under its own reason.
TEST(Identity, RefusalsAreCounted) {
  const TestCluster cluster, foreign("atoll");
  const auto refused = [&](const TlsContexts& client, RefusalReason as) {
    Host server({.tls = cluster.contexts(1), .local_sockets = false});
    Host stranger({.tls = client, .local_sockets = false});
    (void)stranger.dial({.address = server.node().address()});
    const bool counted = eventually([&] { return server.node().refusals()[as] == 1; });
    return counted && server.node().refusals().total() == 1;
  };
  // A client that accepts any server, so that only the server refuses.
  const auto with = [&](identity::Credentials own) {
    TlsContexts contexts = cluster.contexts(2);
    const auto clock = [] { return kNow; };
    const identity::ExpectedPeer any{.cluster = cluster.name()};
    contexts.client =
        *identity::make_tls_context(identity::Client{std::move(own), cluster.trust(), any}, clock);
    return contexts;
  };
  EXPECT_TRUE(refused(with(foreign.credentials(2)), RefusalReason::kForeign));
  EXPECT_TRUE(
      refused(with(cluster.credentials(2, 1, kNow - identity::kDay)), RefusalReason::kExpired));
  EXPECT_TRUE(refused(with(cluster.agent(2)), RefusalReason::kOtherMember));
  TlsContexts nobody = cluster.contexts(2);
  nobody.client = *identity::make_tls_context(
      identity::Client{std::nullopt, cluster.trust(), {.cluster = cluster.name()}},
      [] { return kNow; });
  EXPECT_TRUE(refused(nobody, RefusalReason::kNoCertificate));
}

}  // namespace
}  // namespace shoal::wire::stream
