// Which process gets a certificate of which replica: processes speak over the real socket.
#include "agent/host/trainer_server.h"

#include <chrono>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"
#include "proto/convert.h"
#include "proto/trainer.grpc.pb.h"
#include "threads/mutex.h"
#include "wire/metadata.h"

namespace shoal::agent {
namespace {

constexpr std::chrono::seconds kLimit{20};

class TrainerServerTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string socket = folder_.path() + "/trainer.sock";
    auto server = TrainerServer::start(socket, seconds(10), {{{0, 4}, "left", ReplicaId(1)}},
                                       [this](Input i) {
                                         const MutexLock guard(mutex_);
                                         inputs_.push_back(std::move(i));
                                         changed_.notify_all();
                                       });
    ASSERT_TRUE(server.ok()) << to_string(server.error());
    server_ = std::move(server).value();
    stub_ = v1::TrainerHost::NewStub(
        grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
  }
  void TearDown() override { server_.reset(); }

  static void prepare(grpc::ClientContext& context, const std::string& nonce) {
    context.set_deadline(std::chrono::system_clock::now() + kLimit);
    context.AddMetadata(wire::kTrainerNonceName, nonce);
  }
  // No coordinator is there: what is let through is "cannot be reached".
  grpc::StatusCode certify(const std::string& nonce, std::uint64_t replica) {
    grpc::ClientContext context;
    prepare(context, nonce);
    v1::CertifyRequest request;
    request.set_replica(replica);
    v1::CertifyAnswer answer;
    return stub_->Certify(&context, request, &answer).error_code();
  }
  template <typename T>
  T next() {
    const MutexLock guard(mutex_);
    T found{};
    const bool came = changed_.wait_for(mutex_, kLimit, [&]() SHOAL_REQUIRES(mutex_) {
      for (const Input& input : inputs_) {
        if (const auto* match = std::get_if<T>(&input)) return found = *match, true;
      }
      return false;
    });
    EXPECT_TRUE(came);
    return found;
  }

  TestFolder folder_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Input> inputs_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<TrainerServer> server_;
  std::unique_ptr<v1::TrainerHost::Stub> stub_;
};

constexpr auto kPassed = grpc::StatusCode::UNAVAILABLE;
constexpr auto kRefused = grpc::StatusCode::PERMISSION_DENIED;

TEST_F(TrainerServerTest, AProcessThatSaysItIsAnotherReplicaGetsNoCertificateOfIt) {
  grpc::ClientContext context;
  prepare(context, "left");
  const auto stream = stub_->Attach(&context);
  TrainerReady ready{0, {0, DeviceKind::kCpu, "cpu", Bytes(1 << 30), 14, false}, "10.0.0.4:1", ""};
  Assign pretended{.replica = ReplicaId(2), .job = JobId(1)};
  pretended.cut = {{0, static_cast<std::int32_t>(pretended.spec.model.layers) + 2}};
  pretended.spec.name = "kjv";
  pretended.spec.data.train = "/data";
  pretended.source.key = pretended.record.key = {JobId(1), 0, 3};
  ready.holds = pretended;
  ASSERT_TRUE(stream->Write(proto::to_wire(FromTrainer(ready))));
  EXPECT_EQ(next<TrainerAttached>().ready.holds->replica, ReplicaId(2)) << "the core is told";
  EXPECT_EQ(certify("left", 2), kRefused);
  EXPECT_EQ(certify("left", 1), kPassed);
  const auto told = next<TrainerOverstepped>();
  EXPECT_EQ(told.trainer, (TrainerId{0, 4}));
  EXPECT_EQ(told.asked, ReplicaId(2));
  context.TryCancel();
}

TEST_F(TrainerServerTest, ACertificateIsOfTheReplicaThatTheAgentGaveLast) {
  server_->expect({{1, 1}, "new", {}});
  EXPECT_EQ(certify("new", 5), kRefused);
  EXPECT_EQ(certify("new", 0), kRefused) << "no replica is none's";
  server_->identify({1, 1}, ReplicaId(5));
  EXPECT_EQ(certify("new", 5), kPassed);
  server_->identify({1, 1}, ReplicaId(6));
  EXPECT_EQ(certify("new", 5), kRefused);
  server_->identify({1, 2}, ReplicaId(5));
  EXPECT_EQ(certify("new", 5), kRefused) << "that was for another process";
}

TEST_F(TrainerServerTest, AStrangerGetsNoCertificate) {
  EXPECT_EQ(certify("", 1), kRefused);
  EXPECT_EQ(certify("guessed", 1), kRefused);
}

TEST_F(TrainerServerTest, DataIsReadForTheReplicaThatTheAgentGave) {
  std::optional<ReplicaId> asked;
  server_->read_data_with(
      [&](ReplicaId replica, const v1::ReadDataRequest&,
          const std::function<void(Result<std::string>)>& done) {
        asked = replica;
        done(std::string("text"));
      },
      [] {});
  grpc::ClientContext context;
  prepare(context, "left");
  v1::ReadDataAnswer answer;
  ASSERT_TRUE(stub_->ReadData(&context, {}, &answer).ok());
  EXPECT_EQ(asked, ReplicaId(1));
}

}  // namespace
}  // namespace shoal::agent
