// The port for agents over real TLS: who has no certificate of the cluster gets nowhere.
#include "coordinator/service/agent_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/service/agent_acceptor.h"
#include "coordinator/service/grpc_log.h"
#include "coordinator/service/port_probe.h"
#include "coordinator/service/service_test_util.h"
#include "threads/clock.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

class AgentDoorTest : public ::testing::Test {
 protected:
  AgentDoorTest() {
    store_ = std::move(Store::open(registry_folder_.path())).value();
    machines_ = std::move(Machines::open(
                              {.folder = registry_folder_.path(), .clock = [this] { return now_; }},
                              *store_))
                    .value();
    AgentServiceOptions service;
    service.door = make_agent_door(*machines_, refusals_);
    coordinator_ = std::make_unique<TestCoordinator>(folder_.path(), Options(), service);
    machines_->on_revoked(
        [this](AgentId machine) { coordinator_->agents().end_sessions_of(machine); });
  }

  IssuedCertificate join(const identity::PrivateKey& key, const std::string& uid) {
    auto issued = machines_->enrol({*machines_->create_token(1, seconds(60)),
                                    identity::make_request(key), uid, "one", machines_->now()});
    SHOAL_CHECK(issued.ok(), issued.ok() ? "" : to_string(issued.error()));
    return std::move(issued).value();
  }
  std::int64_t refused(RefusalReason why) const { return refusals_.counts(Port::kAgents)[why]; }
  std::shared_ptr<grpc::Channel> channel(const grpc::SslCredentialsOptions& tls) {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(kServerName);
    return grpc::CreateCustomChannel(coordinator_->agents().address(), grpc::SslCredentials(tls),
                                     arguments);
  }
  std::shared_ptr<grpc::Channel> channel_of(const IssuedCertificate& issued,
                                            const identity::PrivateKey& key) {
    return channel({issued.roots, key.pem(), issued.chain});
  }

  TemporaryFolder registry_folder_, folder_;
  // The coordinator's clock starts in the past, so that it can advance. Clients use the system's.
  Instant now_ = UnixClock().now() - identity::kAgentLife * 2;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Machines> machines_;
  Refusals refusals_;
  std::unique_ptr<TestCoordinator> coordinator_;
  const GrpcLog grpc_log_{refusals_};
  const identity::PrivateKey key_ = identity::PrivateKey::make();
  const Hello hello_ = TestAgent::hello("one");
};

TEST_F(AgentDoorTest, AMachineIsWelcomedUnderTheIdOfItsCertificate) {
  const auto issued = join(key_, hello_.uid);
  TestAgent agent(channel_of(issued, key_));
  ASSERT_TRUE(agent.say(hello_));
  const auto welcome = agent.hear_a<Welcome>();
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->agent, issued.machine);
}

TEST_F(AgentDoorTest, WithoutACertificateOrTlsNobodyIsHeard) {
  const auto issued = join(key_, hello_.uid);
  TestAgent bare(channel({issued.roots, "", ""}));
  bare.say(hello_);
  EXPECT_EQ(bare.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  TestAgent plain(coordinator_->channel());
  plain.say(hello_);
  EXPECT_EQ(plain.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(refused(RefusalReason::kNoCertificate), 1);  // a channel tries more than once
  EXPECT_GE(refused(RefusalReason::kMalformed), 1);
  EXPECT_EQ(coordinator_->runtime().meters()->runtime.sessions.Value(), 0);
}

TEST_F(AgentDoorTest, ACertificateOfAForeignCaIsRefused) {
  const auto issued = join(key_, hello_.uid);
  const auto foreign = identity::Authority::make({machines_->cluster()}, machines_->now());
  const auto forged =
      foreign.issue_agent(*identity::SigningRequest::parse(identity::make_request(key_)),
                          issued.machine, machines_->now());
  TestAgent agent(channel({issued.roots, key_.pem(), forged->pem()}));
  agent.say(hello_);
  EXPECT_EQ(agent.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(coordinator_->runtime().meters()->runtime.sessions.Value(), 0);
  EXPECT_GE(refused(RefusalReason::kForeign), 1);
}

TEST_F(AgentDoorTest, ACertificateThatHasExpiredIsRefused) {
  const auto issued = join(key_, hello_.uid);
  now_ = now_ + identity::kAgentLife * 2;
  TestAgent agent(channel_of(issued, key_));
  agent.say(hello_);
  EXPECT_EQ(agent.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(refused(RefusalReason::kExpired), 1);
  EXPECT_EQ(coordinator_->runtime().meters()->runtime.sessions.Value(), 0);
}

// Its key is a trainer's, which a user's code may hold.
TEST_F(AgentDoorTest, ACertificateOfAReplicaIsRefused) {
  const auto issued = join(key_, hello_.uid);
  const identity::ReplicaName replica{issued.machine, JobId(1), 0, 0, ReplicaId(1)};
  const auto certified = machines_->certify(replica, identity::make_request(key_));
  ASSERT_TRUE(certified.ok());
  TestAgent agent(channel_of(*certified, key_));
  agent.say(hello_);
  EXPECT_EQ(agent.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(refused(RefusalReason::kOtherMember), 1);
  EXPECT_EQ(coordinator_->runtime().meters()->runtime.sessions.Value(), 0);
}

TEST_F(AgentDoorTest, AHelloOfAnotherFolderIsRefused) {
  const auto issued = join(key_, std::string(32, 'f'));
  TestAgent agent(channel_of(issued, key_));
  agent.say(hello_);
  const grpc::Status status = agent.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr(to_string(issued.machine)));
  EXPECT_EQ(refused(RefusalReason::kOtherMember), 1);
}

TEST_F(AgentDoorTest, ARevocationEndsTheSessionAndRefusesTheNext) {
  const auto issued = join(key_, hello_.uid);
  TestAgent agent(channel_of(issued, key_));
  ASSERT_TRUE(agent.say(hello_));
  ASSERT_TRUE(agent.hear_a<Welcome>());
  ASSERT_TRUE(machines_->revoke(issued.machine).ok());
  EXPECT_EQ(agent.finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  TestAgent again(channel_of(issued, key_));
  again.say(hello_);
  const grpc::Status status = again.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("revoked"));
  EXPECT_EQ(refused(RefusalReason::kRevoked), 1);
}

TEST_F(AgentDoorTest, TheProbeOfThePortChecksItsCertificateAndIsNotCounted) {
  PortProbeOptions probe{
      .address = coordinator_->agents().address(),
      .roots_file = machines_->files().roots,
      .name = kServerName,
      .announce = [this](std::uint16_t port) { coordinator_->agents().expect_own(port); }};
  const Status good = probe_port(probe);
  EXPECT_TRUE(good.ok()) << to_string(good.error());
  EXPECT_EQ(refusals_.counts(Port::kAgents).total(), 0);
  probe.name = "another-name";
  EXPECT_THAT(probe_port(probe).error().message, HasSubstr("a certificate that is not valid"));
  probe.name = kServerName;
  probe.roots_file = "/none";
  EXPECT_THAT(probe_port(probe).error().message, HasSubstr("no readable roots"));
}

TEST_F(AgentDoorTest, TheProbeNamesAPortThatAnswersNothing) {
  const auto silent = AgentAcceptor::listen("127.0.0.1:0", {}, [] {});
  ASSERT_TRUE(silent.ok());
  PortProbeOptions probe{.address = "127.0.0.1:" + std::to_string((*silent)->port()),
                         .roots_file = machines_->files().roots,
                         .name = kServerName,
                         .limit = milliseconds(200)};
  EXPECT_THAT(probe_port(probe).error().message, HasSubstr("does not answer a TLS handshake"));
}

}  // namespace
}  // namespace shoal::coordinator
