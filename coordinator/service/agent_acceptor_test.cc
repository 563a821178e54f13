// The agents' port with strangers at it: real sockets, and agents that speak gRPC.
#include "coordinator/service/agent_acceptor.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/host_port.h"
#include "coordinator/service/service_test_util.h"

namespace shoal::coordinator {
namespace {

// A connection that says nothing.
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
  // What gRPC has sent before may still be unread.
  bool is_closed_within(int milliseconds) const {
    pollfd one{fd_.get(), POLLRDHUP, 0};
    return ::poll(&one, 1, milliseconds) == 1 && (one.revents & (POLLRDHUP | POLLHUP)) != 0;
  }

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
  // With a connection of its own: channels of the same arguments share one.
  std::unique_ptr<TestAgent> agent(const std::string& name, int number) {
    grpc::ChannelArguments own;
    own.SetInt("test.connection", number);
    auto made = std::make_unique<TestAgent>(
        grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), own));
    Hello hello = TestAgent::hello(name);
    hello.uid = std::string(30, 'b') + std::to_string(10 + number);
    EXPECT_TRUE(made->say(hello));
    return made;
  }

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
  const auto first = agent("one", 1);
  ASSERT_TRUE(first->hear_a<Welcome>());
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(std::make_unique<Stranger>(address()));
  for (std::size_t i = 0; i < 34; ++i) EXPECT_TRUE(strangers[i]->is_closed_within(10'000)) << i;
  for (std::size_t i = 34; i < 40; ++i) EXPECT_FALSE(strangers[i]->is_closed_within(0)) << i;
  EXPECT_EQ(refused_, 34);
  const auto second = agent("two", 2);
  EXPECT_TRUE(second->hear_a<Welcome>()) << "an agent finds a place";
  EXPECT_EQ(coordinator_->runtime().meters()->runtime.sessions.Value(), 2)
      << "the first one has kept its own";
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
    agents.push_back(agent("agent-" + std::to_string(i), i));
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
  const auto first = agent("one", 1);
  ASSERT_TRUE(first->hear_a<Welcome>());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Descriptor> taken;
  for (Descriptor one(::dup(0)); one; one = Descriptor(::dup(0))) taken.push_back(std::move(one));
  taken.pop_back();  // for the client's end
  const Stranger refused(address());
  EXPECT_TRUE(refused.is_closed_within(10'000));
  EXPECT_GE(refused_, 1);
  taken.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  const auto second = agent("two", 2);
  EXPECT_TRUE(second->hear_a<Welcome>());
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
