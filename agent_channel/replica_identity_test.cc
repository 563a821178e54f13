// A process that asks its agent, which the test plays, for certificates.
#include "agent_channel/replica_identity.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "agent_channel/socket_server_test_util.h"
#include "identity/asio_ssl.h"
#include "identity/authority.h"
#include "identity/request.h"
#include "identity/tls_context.h"
#include "proto/trainer.grpc.pb.h"
#include "threads/clock.h"
#include "threads/mutex.h"
#include "wire/metadata.h"
#include "wire/stream/stream_test_util.h"

namespace shoal::agent_channel {
namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr ReplicaId kReplica{7};

// Certifies the requested replica, for the epoch that it believes in; at first it may refuse.
class Agent final : public v1::TrainerHost::Service {
 public:
  explicit Agent(const std::string& socket) : server_(socket, this) {}
  grpc::Status Certify(grpc::ServerContext* context, const v1::CertifyRequest* request,
                       v1::CertifyAnswer* answer) override {
    const MutexLock lock(mutex_);
    nonces_.push_back(wire::read_text(context->client_metadata(), wire::kTrainerNonceName));
    if (refusals > 0) {
      --refusals;
      return {grpc::StatusCode::UNAVAILABLE, "the coordinator cannot be reached"};
    }
    const auto csr = identity::SigningRequest::parse(request->csr());
    EXPECT_TRUE(csr.ok());
    const identity::ReplicaName who{AgentId(3), JobId(1), 0, epoch, ReplicaId(request->replica())};
    const auto issued = ca_.issue_replica(*csr, who, unix_now());
    EXPECT_TRUE(issued.ok());
    answer->set_chain(issued->pem());
    answer->set_roots(ca_.roots(unix_now()).front().certificate.pem());
    return grpc::Status::OK;
  }
  // A certificate for a replica of another agent.
  wire::stream::TlsContexts contexts_of(AgentId agent) const {
    const auto key = identity::PrivateKey::make();
    const auto csr = identity::SigningRequest::parse(identity::make_request(key));
    const identity::ReplicaName who{agent, JobId(1), 0, 0, ReplicaId(agent.n)};
    const identity::Credentials own{key, *ca_.issue_replica(*csr, who, unix_now()), {}};
    const auto trust =
        std::make_shared<identity::Trust>(identity::Beliefs{ca_.roots(unix_now()), {}});
    const identity::ExpectedPeer any{.cluster = {"reef"}};
    return {*identity::make_tls_context(identity::MutualServer{own, trust, any}, unix_now),
            *identity::make_tls_context(identity::Client{own, trust, any}, unix_now)};
  }
  std::vector<std::string> nonces() {
    const MutexLock lock(mutex_);
    return nonces_;
  }

  std::atomic<int> refusals{0};
  std::atomic<std::int64_t> epoch{0};

 private:
  Mutex mutex_;
  std::vector<std::string> nonces_ SHOAL_GUARDED_BY(mutex_);
  const identity::Authority ca_ = identity::Authority::make({"reef"}, unix_now());
  const SocketServer server_;  // the last member: it calls until it ends
};

class ReplicaIdentityTest : public testing::Test {
 protected:
  ReplicaIdentityTest() : agent_(std::make_unique<Agent>(socket_)) {
    identity_ = std::make_unique<ReplicaIdentity>(
        ControlOptions{socket_, "00ff", "a test", {}},
        [this](std::shared_ptr<const outer_opt::PeerIdentity> used) {
          const MutexLock lock(mutex_);
          used_.push_back(std::move(used));
          changed_.notify_all();
        },
        [this](const std::string& complaint) {
          const MutexLock lock(mutex_);
          complaints_.push_back(complaint);
          changed_.notify_all();
        });
  }
  ~ReplicaIdentityTest() override {
    identity_.reset();
    agent_.reset();
    std::filesystem::remove_all(folder_);
  }
  void load(ReplicaId replica, std::int64_t epoch) {
    LoadReplica load;
    load.assign.replica = replica;
    load.assign.source.key = {JobId(1), epoch, 0};
    identity_->heard(load);
  }
  void open(ReplicaId replica, std::int64_t epoch) {
    OpenRound round;
    round.key = {JobId(1), epoch, 5};
    identity_->heard(ToReplica<OpenRound>{replica, round});
  }
  std::vector<identity::ReplicaName> used(std::size_t count) {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, kPatience,
                                  [&]() SHOAL_REQUIRES(mutex_) { return used_.size() >= count; }));
    std::vector<identity::ReplicaName> names;
    for (const auto& each : used_) names.push_back(each->own);
    return names;
  }
  std::vector<std::string> complaints() {
    const MutexLock lock(mutex_);
    return complaints_;
  }

  const std::string folder_ = [] {
    std::string made = (std::filesystem::temp_directory_path() / "shoal-identity-XXXXXX").string();
    return std::string(mkdtemp(made.data()));
  }();
  const std::string socket_ = folder_ + "/trainer.sock";
  std::unique_ptr<Agent> agent_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<const outer_opt::PeerIdentity>> used_ SHOAL_GUARDED_BY(mutex_);
  std::vector<std::string> complaints_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<ReplicaIdentity> identity_;
};

TEST_F(ReplicaIdentityTest, AReplicaGetsOneAndAnotherForANewEpoch) {
  load(kReplica, 0);
  const identity::ReplicaName first{AgentId(3), JobId(1), 0, 0, kReplica};
  EXPECT_THAT(used(1), testing::ElementsAre(first));
  EXPECT_THAT(agent_->nonces(), testing::ElementsAre("00ff"));
  agent_->epoch = 2;
  open(kReplica, 2);
  const identity::ReplicaName second{AgentId(3), JobId(1), 0, 2, kReplica};
  EXPECT_THAT(used(2), testing::ElementsAre(first, second));
  open(kReplica, 2);  // nothing new
  load(ReplicaId(9), 2);
  EXPECT_EQ(used(3).back().replica, ReplicaId(9));
  EXPECT_TRUE(complaints().empty());
}

TEST_F(ReplicaIdentityTest, ARefusalIsToldOnceAndTriedAgain) {
  agent_->refusals = 3;
  load(kReplica, 0);
  EXPECT_EQ(used(1).size(), 1u);
  ASSERT_EQ(complaints().size(), 1u);
  EXPECT_THAT(complaints()[0], testing::HasSubstr("cannot be reached"));
  EXPECT_EQ(agent_->nonces().size(), 4u);
}

// The coordinator may say it to the trainer before it has written it down.
TEST_F(ReplicaIdentityTest, ACertificateOfThePastEpochIsReplaced) {
  load(kReplica, 1);
  EXPECT_EQ(used(1).front().epoch, 0);
  agent_->epoch = 1;
  for (std::size_t n = 2; used(n).back().epoch != 1; ++n) ASSERT_LT(n, 100u);
}

TEST_F(ReplicaIdentityTest, ARevokedAgentIsRefusedAtOnceAndAfterARenewal) {
  load(kReplica, 0);
  used(1);
  const auto lets_in = [&](std::size_t identity, AgentId agent) {
    wire::stream::NodeOptions options{.local_sockets = false};
    {
      const MutexLock lock(mutex_);
      options.tls = used_[identity]->contexts;
    }
    wire::stream::Host server(options);
    wire::stream::Host peer({.tls = agent_->contexts_of(agent), .local_sockets = false});
    return peer.dial({.address = server.node().address()}).ok();
  };
  EXPECT_TRUE(lets_in(0, AgentId(5)));
  identity_->revoke({AgentId(5)});
  EXPECT_FALSE(lets_in(0, AgentId(5)));
  EXPECT_TRUE(lets_in(0, AgentId(6)));
  agent_->epoch = 1;
  open(kReplica, 1);
  used(2);
  EXPECT_FALSE(lets_in(1, AgentId(5)));
  EXPECT_TRUE(lets_in(1, AgentId(6)));
}

}  // namespace
}  // namespace shoal::agent_channel
