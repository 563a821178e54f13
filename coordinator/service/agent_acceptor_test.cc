// The agents' port with strangers at it: real sockets, and agents that speak gRPC.
#include "coordinator/service/agent_acceptor.h"

#include <cstring>

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/host_port.h"
#include "coordinator/service/service_test_util.h"
#include "threads/clock.h"

namespace shoal::coordinator {
namespace {

// A connection that says nothing, unless it is asked to.
class Stranger {
 public:
  explicit Stranger(const std::string& address)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(read_host_port(address)->port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  bool is_closed_within(int milliseconds) const {
    pollfd one{fd_.get(), POLLIN | POLLRDHUP, 0};
    char byte = 0;
    return ::poll(&one, 1, milliseconds) == 1 &&
           ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
  }
  void send(const char* text) { EXPECT_GT(::send(fd_.get(), text, std::strlen(text), 0), 0); }

 private:
  const Descriptor fd_;
};

// Connections come to the acceptor in the order in which they were opened.
class AgentAcceptorTest : public ::testing::Test {
 protected:
  void start(ConnectionLimitOptions limits) {
    AgentServiceOptions service;
    service.connections = limits;
    service.on_refused_connection = [this] { ++refused_; };
    coordinator_ = std::make_unique<TestCoordinator>(folder_.path(), Options(), std::move(service));
  }
  std::string address() { return coordinator_->agents().address(); }

  TemporaryFolder folder_;
  std::atomic<int> refused_{0};
  std::unique_ptr<TestCoordinator> coordinator_;
};

TEST_F(AgentAcceptorTest, PeersOfCallsHaveOneSpelling) {
  EXPECT_EQ(peer_of_call("ipv4:1.2.3.4:5"), "1.2.3.4:5");
  EXPECT_EQ(peer_of_call("ipv6:[::1]:5"), "[::1]:5");
  EXPECT_EQ(peer_of_call("ipv6:%5B::1%5D:5"), "[::1]:5");
}

TEST_F(AgentAcceptorTest, StrangersDisplaceStrangersAndAnAgentStays) {
  start({.all = 100, .unfinished = 8, .per_client = 6, .per_member = 4, .finish = seconds(600)});
  TestAgent agent(coordinator_->channel());
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  ASSERT_TRUE(agent.hear_a<Welcome>());
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(std::make_unique<Stranger>(address()));
  for (std::size_t i = 0; i < 34; ++i) EXPECT_TRUE(strangers[i]->is_closed_within(10'000)) << i;
  for (std::size_t i = 34; i < 40; ++i) EXPECT_FALSE(strangers[i]->is_closed_within(0)) << i;
  EXPECT_EQ(refused_, 34);
  TestAgent joins(coordinator_->channel());
  ASSERT_TRUE(joins.say(TestAgent::hello("two")));
  EXPECT_TRUE(joins.hear_a<Welcome>()) << "an agent finds a place";
  EXPECT_EQ(coordinator_->runtime().stats().sessions_opened, 2) << "the first one has kept its own";
}

TEST_F(AgentAcceptorTest, AConnectionThatDoesNotFinishIsClosed) {
  start(
      {.all = 100, .unfinished = 8, .per_client = 6, .per_member = 4, .finish = milliseconds(300)});
  const Stranger silent(address());
  EXPECT_FALSE(silent.is_closed_within(0));
  EXPECT_TRUE(silent.is_closed_within(10'000));
  EXPECT_EQ(refused_, 1);
}

TEST_F(AgentAcceptorTest, AgentsOfOneAddressAreNotCountedByIt) {
  start({.all = 100, .unfinished = 8, .per_client = 6, .per_member = 4, .finish = seconds(600)});
  std::vector<std::unique_ptr<TestAgent>> agents;
  for (int i = 0; i < 30; ++i) {
    // Without arguments of their own, channels to one address share a connection.
    grpc::ChannelArguments own;
    own.SetInt("test.connection", i);
    agents.push_back(std::make_unique<TestAgent>(
        grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), own)));
    Hello hello = TestAgent::hello("agent-" + std::to_string(i));
    hello.uid = std::string(30, 'b') + std::to_string(10 + i);
    ASSERT_TRUE(agents.back()->say(hello));
    ASSERT_TRUE(agents.back()->hear_a<Welcome>()) << i;
  }
  EXPECT_EQ(refused_, 0);
}

TEST_F(AgentAcceptorTest, WithoutDescriptorsConnectionsAreRefusedAndLaterAcceptedAgain) {
  start({.all = 1'000,
         .unfinished = 500,
         .per_client = 400,
         .per_member = 4,
         .finish = seconds(600)});
  TestAgent agent(coordinator_->channel());
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  ASSERT_TRUE(agent.hear_a<Welcome>());
  auto waiting = std::make_unique<Stranger>(address());  // its own descriptor is taken before
  std::vector<Descriptor> taken;
  while (true) {
    Descriptor one(::dup(0));
    if (!one) break;
    taken.push_back(std::move(one));
  }
  taken.resize(taken.size() - 1);  // that of a client
  const Stranger refused(address());
  EXPECT_TRUE(refused.is_closed_within(10'000));
  EXPECT_GE(refused_, 1);
  taken.clear();
  TestAgent joins(coordinator_->channel());
  ASSERT_TRUE(joins.say(TestAgent::hello("two")));
  EXPECT_TRUE(joins.hear_a<Welcome>());
}

TEST_F(AgentAcceptorTest, APortThatIsTakenIsRefusedByName) {
  start({});
  const auto second = AgentAcceptor::listen(address(), {}, [] {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kConflict);
  EXPECT_EQ(second.error().field, "--grpc");
  EXPECT_THAT(second.error().message, ::testing::HasSubstr("the port is in use"));
}

}  // namespace
}  // namespace shoal::coordinator
