// Nodes over loopback, TLS and Unix sockets: messages, ends, limits, quotas, frozen peers.
#include "wire/stream/node.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/emulated_line.h"
#include "wire/stream/stream_test_util.h"
#include "wire/tcp_socket.h"

namespace shoal::wire::stream {
namespace {

NodeOptions plain() { return {.local_sockets = false}; }

// How two nodes are joined.
struct Way {
  const char* name;
  bool tls, local;
  int lanes;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class Ways : public testing::TestWithParam<Way> {
 protected:
  NodeOptions options(std::uint64_t n) const {
    NodeOptions made{.local_sockets = GetParam().local};
    if (GetParam().tls) made.tls = cluster_.contexts(n);
    return made;
  }
  std::shared_ptr<Pair> join(Host& from, Host& to) {
    auto pair = from.dial({.address = to.node().address(), .lanes = GetParam().lanes});
    EXPECT_TRUE(pair.ok()) << to_string(pair.error());
    return pair.ok() ? *pair : nullptr;
  }
  TestCluster cluster_;
};

INSTANTIATE_TEST_SUITE_P(All, Ways,
                         testing::Values(Way{"tls", true, false, 1}, Way{"tls4", true, false, 4},
                                         Way{"tcp", false, false, 1}, Way{"tcp4", false, false, 4},
                                         Way{"unix", true, true, 1}),
                         testing::PrintToStringParamName());

TEST_P(Ways, MessagesGoBothWaysAndStreamsEnd) {
  Host server(options(1)), client(options(2));
  server.prepare = [](Recorder& user, const std::string& purpose) {
    EXPECT_EQ(purpose, "echo");
    user.on_message = [&user](const Recorder::Seen& seen) {
      auto body = std::make_shared<std::string>(seen.body);
      user.stream->send(message_of(seen.head, *body, [body](bool) {}));
    };
  };
  const auto pair = join(client, server);
  ASSERT_TRUE(pair);
  const auto user = open(*pair, "echo");
  std::vector<std::string> bodies;
  for (const std::size_t size : {0ul, 1ul, 4096ul, 16'356ul, 300'000ul, 5'000'000ul}) {
    bodies.push_back(pattern(size, static_cast<unsigned>(size)));
  }
  for (const std::string& body : bodies) user->stream->send(message_of("head", body));
  ASSERT_TRUE(user->wait_messages(bodies.size()));
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    EXPECT_EQ(user->messages()[i].head, "head");
    EXPECT_TRUE(user->messages()[i].body == bodies[i]) << bodies[i].size();
  }
  user->stream->end();
  const auto peer = server.accepted();
  ASSERT_TRUE(peer);
  peer->stream->end();
  EXPECT_TRUE(user->wait_closed() && peer->wait_closed());
  EXPECT_FALSE(user->error() || peer->error());
}

TEST_P(Ways, ManyStreamsAtOnce) {
  Host server(options(1)), client(options(2));
  const auto pair = join(client, server);
  ASSERT_TRUE(pair);
  constexpr std::size_t kStreams = 4, kMessages = 10;
  std::vector<std::shared_ptr<Recorder>> users;
  const std::string body = pattern(700'000, 3);
  for (std::size_t i = 0; i < kStreams; ++i) {
    users.push_back(open(*pair, "s"));
    for (std::size_t k = 0; k < kMessages; ++k) {
      users[i]->stream->send(message_of(std::to_string(k), body));
    }
  }
  for (std::size_t i = 0; i < kStreams; ++i) {
    const auto peer = server.accepted();
    ASSERT_TRUE(peer && peer->wait_messages(kMessages));
    for (std::size_t k = 0; k < kMessages; ++k) {
      EXPECT_EQ(peer->messages()[k].head, std::to_string(k));
      EXPECT_TRUE(peer->messages()[k].body == body);
    }
  }
}

TEST_P(Ways, ACancelFreesTheMemoryAtOnce) {
  Host server(options(1)), client(options(2));
  server.prepare = [](Recorder& user, const std::string&) { user.holds = true; };
  const auto pair = join(client, server);
  ASSERT_TRUE(pair);
  const auto user = open(*pair, "s");
  std::atomic<int> done = 0;
  constexpr int kMessages = 8;
  {
    const std::string body = pattern(kMessageMax, 1);  // more than window and sockets take
    for (int i = 0; i < kMessages; ++i) {
      user->stream->send(message_of("", body, [&](bool) { ++done; }));
    }
    const auto peer = server.accepted();
    ASSERT_TRUE(peer && peer->wait_messages(1));
    user->stream->cancel({Code::kCancelled, "enough", "", ""});
    ASSERT_TRUE(user->wait_closed());
    EXPECT_EQ(done, kMessages);
    ASSERT_TRUE(peer->wait_closed());
    EXPECT_EQ(peer->error()->message, "enough");
  }
  const auto next = open(*pair, "next");  // the connections are whole
  const std::string body = pattern(1'000'000, 2);
  next->stream->send(message_of("", body));
  const auto peer = server.accepted();
  ASSERT_TRUE(peer && peer->wait_messages(1));
  EXPECT_TRUE(peer->messages()[0].body == body);
}

TEST_P(Ways, WithANodeItsStreamsAreOver) {
  auto server = std::make_unique<Host>(options(1));
  Host client(options(2));
  const auto pair = join(client, *server);
  ASSERT_TRUE(pair);
  const auto user = open(*pair, "s");
  ASSERT_TRUE(server->accepted());
  server.reset();
  ASSERT_TRUE(user->wait_closed());
  ASSERT_TRUE(user->error());
  EXPECT_EQ(user->error()->code, Code::kUnavailable);
}

TEST(Node, StreamsHaveALimit) {
  Host server(plain()), client(plain());
  const auto pair = client.dial({.address = server.node().address()});
  ASSERT_TRUE(pair.ok());
  const auto user = open(**pair, "s", milliseconds(30));
  ASSERT_TRUE(user->wait_closed());
  EXPECT_EQ(user->error()->code, Code::kDeadlineExceeded);
  const auto peer = server.accepted();
  ASSERT_TRUE(peer && peer->wait_closed());
  EXPECT_EQ(peer->error()->code, Code::kDeadlineExceeded);
}

TEST(Node, AcceptedStreamsHaveALimitToo) {
  NodeOptions options = plain();
  options.stream_limit = milliseconds(30);
  Host server(options), client(plain());
  const auto pair = client.dial({.address = server.node().address()});
  ASSERT_TRUE(pair.ok());
  const auto user = open(**pair, "s");
  ASSERT_TRUE(user->wait_closed());
  EXPECT_EQ(user->error()->code, Code::kDeadlineExceeded);
}

TEST(Node, AStreamThatNobodyWaitsFor) {
  Host server(plain()), client(plain());
  const auto pair = client.dial({.address = server.node().address()});
  ASSERT_TRUE(pair.ok());
  const auto user = open(**pair, "nobody");
  ASSERT_TRUE(user->wait_closed());
  EXPECT_EQ(user->error()->code, Code::kNotFound);
}

TEST(Node, AMessageThatIsTooLargeEndsItsStream) {
  NodeOptions options = plain();
  options.quotas.message_max = kPieceBytes;
  Host server(options), client(plain());
  const auto pair = client.dial({.address = server.node().address()});
  ASSERT_TRUE(pair.ok());
  const auto user = open(**pair, "s");
  const std::string body(kPieceBytes + 1, 'x');
  user->stream->send(message_of("", body));
  ASSERT_TRUE(user->wait_closed());
  EXPECT_EQ(user->error()->code, Code::kValidation);
}

TEST(Node, NobodyListensThere) {
  Host client(plain());
  std::string address;
  {
    Host gone(plain());
    address = gone.node().address();
  }
  const auto refused = client.dial({.address = address});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find(address), std::string::npos);
  EXPECT_EQ(client.dial({.address = "no colon"}).error().field, "address");
  EXPECT_EQ(client.dial({.address = address, .lanes = 99}).error().field, "lanes");
}

// An event calls behind what another thread has called before.
TEST(Node, CallsHappenInTheirOrder) {
  const std::string none;
  Host server(plain()), client(plain());
  server.prepare = [&](Recorder& user, const std::string&) {
    user.stream->send(message_of("go", none));
  };
  const auto pair = client.dial({.address = server.node().address()});
  ASSERT_TRUE(pair.ok());
  std::promise<void> in_event, sent;
  const auto user = open(**pair, "any", kLimit, [&](Recorder& recorder) {
    recorder.on_message = [&](const Recorder::Seen&) {
      in_event.set_value();
      sent.get_future().wait();
      recorder.stream->send(message_of("second", none));
    };
  });
  in_event.get_future().wait();
  user->stream->send(message_of("first", none));
  sent.set_value();
  const auto other = server.accepted();
  ASSERT_TRUE(other && other->wait_messages(2));
  EXPECT_EQ(other->messages()[0].head, "first");
  EXPECT_EQ(other->messages()[1].head, "second");
}

TEST(Node, WhoSaysNothingIsNotWaitedForLong) {
  NodeOptions options = plain();
  options.handshake_limit = milliseconds(30);
  options.handshakes_max = 1;
  Host server(options);
  const int mute = begin_connect(server.node().address());
  EXPECT_TRUE(eventually([&] { return server.node().refusals()[RefusalReason::kLimits] == 1; }));
  ::close(mute);
  Host client(plain());
  EXPECT_TRUE(client.dial({.address = server.node().address()}).ok());
}

// What a node sends takes half a round trip of its line, and no process is known past it.
TEST(Node, AllConnectionsGoOverItsLine) {
  for (const bool local : {false, true}) {
    NodeOptions options{.local_sockets = local};
    options.line = std::make_shared<EmulatedLine>(parse_link("rtt=40ms").value());
    Host server({.local_sockets = local}), client(options);
    const auto begin = std::chrono::steady_clock::now();
    const auto pair = client.dial({.address = server.node().address(), .lanes = 2});
    ASSERT_TRUE(pair.ok()) << to_string(pair.error());
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(19));
    EXPECT_EQ((*pair)->process(), 0);
    EXPECT_TRUE(eventually([&] { return (*pair)->lanes() == 2; }));
  }
}

TEST(Node, APairOfOneHostKnowsTheProcess) {
  Host server(NodeOptions{}), client(NodeOptions{});
  const auto pair = client.dial({.address = server.node().address()});
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ((*pair)->process(), getpid());
}

// A pending dial is answered, even when the node ends first.
TEST(Node, WithANodeItsDialsAreOver) {
  const auto listener = listen_at("127.0.0.1:0");  // which lets nobody in
  ASSERT_TRUE(listener.ok());
  auto client = Node::start(plain(), nullptr).value();
  std::promise<Code> told;
  client->dial({.address = "127.0.0.1:" + std::to_string(port_of_listener(*listener))},
               [&](const auto& pair) { told.set_value(pair.error().code); });
  client.reset();
  auto code = told.get_future();
  ASSERT_EQ(code.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(code.get(), Code::kCancelled);
  ::close(*listener);
}

TEST(Node, OptionsAreChecked) {
  const auto field = [](const std::function<void(NodeOptions&)>& change) {
    NodeOptions options;
    change(options);
    const Status good = check_options(options);
    return good.ok() ? std::string() : good.error().field;
  };
  EXPECT_EQ(field([](NodeOptions&) {}), "");
  EXPECT_EQ(field([](NodeOptions& o) { o.tls = TlsContexts(); }), "tls");
  EXPECT_EQ(field([](NodeOptions& o) { o.handshake_limit = {}; }), "handshake_limit");
  EXPECT_EQ(field([](NodeOptions& o) { o.beat = {}; }), "beat");
  EXPECT_EQ(field([](NodeOptions& o) { o.stream_limit = {}; }), "stream_limit");
  EXPECT_EQ(field([](NodeOptions& o) { o.pairs_max = 0; }), "pairs_max");
  EXPECT_EQ(field([](NodeOptions& o) { o.quotas.window = 0; }), "quotas.window");
  EXPECT_EQ(Node::start({.bind = "no colon"}, nullptr).error().field, "bind");
}

// A process that serves and is stopped: the other end finds out by the missing beats.
TEST(Node, AFrozenPeerIsNoticed) {
  std::array<int, 2> pipes{};
  ASSERT_EQ(pipe(pipes.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    NodeOptions options = plain();
    options.beat = milliseconds(50);
    Host server(options);
    const std::string address = server.node().address() + "\n";
    if (write(pipes[1], address.data(), address.size()) < 0) _exit(1);
    pause();
    _exit(0);
  }
  close(pipes[1]);
  std::string address;
  for (char c = 0; read(pipes[0], &c, 1) == 1 && c != '\n';) address.push_back(c);
  NodeOptions options = plain();
  options.beat = milliseconds(50);
  Host client(options);
  const auto pair = client.dial({.address = address});
  EXPECT_TRUE(pair.ok());
  if (pair.ok()) {
    const auto user = open(**pair, "s");
    kill(child, SIGSTOP);
    EXPECT_TRUE(user->wait_closed());
    EXPECT_TRUE(user->error() && user->error()->code == Code::kUnavailable);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipes[0]);
}

// Beats alone keep a pair that says nothing.
TEST(Node, AnIdlePairStands) {
  NodeOptions options = plain();
  options.beat = milliseconds(100);
  Host server(options), client(options);
  const auto pair = client.dial({.address = server.node().address()});
  ASSERT_TRUE(pair.ok());
  const auto watched = open(**pair, "s", milliseconds(1500));
  ASSERT_TRUE(watched->wait_closed());
  EXPECT_EQ(watched->error()->code, Code::kDeadlineExceeded);  // and not the silence of 450 ms
}

}  // namespace
}  // namespace shoal::wire::stream
