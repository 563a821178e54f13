// For the tests of the service: a coordinator in this process (store, runtime, agents' side) and an
// agent that is a plain gRPC client.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "coordinator/service/agent_service.h"
#include "coordinator/service/runtime.h"
#include "coordinator/store/store_test_util.h"
#include "job/sync_spec_test_util.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"

namespace shoal::coordinator {

// Lets everybody in, as `machine`: for tests of what comes after the door.
class OpenDoor final : public AgentDoor {
 public:
  std::atomic<AgentId> machine{};

  std::shared_ptr<grpc::ServerCredentials> credentials() const override {
    return grpc::InsecureServerCredentials();
  }
  Result<Caller> admit(const grpc::ServerContextBase&) const override {
    return Caller{.machine = machine, .key_hash = {}, .uid = {}};
  }
  Status admit_folder(const Caller&, const std::string&, const std::string&) override { return {}; }
};

class TestCoordinator {
 public:
  explicit TestCoordinator(const std::string& folder, Options core = {},
                           AgentServiceOptions service = {}) {
    core.measure_limit = {};  // its agents are played by hand
    auto store = Store::open(folder);
    SHOAL_CHECK(store.ok(), store.ok() ? "" : to_string(store.error()));
    store_ = std::move(store).value();
    files_ = std::move(CheckpointFiles::open(folder + "/checkpoints")).value();
    auto runtime =
        Runtime::create({.core = core,
                         .checkpoint_root = folder + "/checkpoints",
                         .on_fatal = [](const Error& e) { SHOAL_CHECK(false, to_string(e)); }},
                        *store_);
    SHOAL_CHECK(runtime.ok(), runtime.ok() ? "" : to_string(runtime.error()));
    runtime_ = std::move(runtime).value();
    service.bind = "127.0.0.1:0";
    if (!service.door) service.door = std::make_shared<OpenDoor>();
    auto agents = AgentService::start(std::move(service), *runtime_, *files_,
                                      runtime_->checkpoints_at_start());
    SHOAL_CHECK(agents.ok(), agents.ok() ? "" : to_string(agents.error()));
    agents_ = std::move(agents).value();
    runtime_->start(*agents_);
  }
  ~TestCoordinator() {
    agents_->stop();
    runtime_->stop(seconds(10));
  }

  Runtime& runtime() { return *runtime_; }
  Store& store() { return *store_; }
  AgentService& agents() { return *agents_; }
  CheckpointFiles& files() { return *files_; }
  std::shared_ptr<grpc::Channel> channel() {
    return grpc::CreateChannel(agents_->address(), grpc::InsecureChannelCredentials());
  }

 private:
  std::unique_ptr<Store> store_;
  std::unique_ptr<CheckpointFiles> files_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<AgentService> agents_;
};

// One stream. Every read ends within the deadline of the call.
class TestAgent {
 public:
  explicit TestAgent(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::AgentService::NewStub(channel)) {
    prepare(context_);
    stream_ = stub_->Session(&context_);
  }
  ~TestAgent() {
    context_.TryCancel();
    if (!finished_) (void)stream_->Finish();
  }

  static void prepare(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  static Hello hello(const std::string& name) {
    Hello hello;
    hello.uid = std::string(31, 'a') + name.substr(name.size() - 1);
    hello.name = name;
    hello.version = "test";
    hello.host = "127.0.0.1";
    hello.devices.push_back({.name = "test cpu", .memory = mebibytes(65'536), .gflops = 10});
    return hello;
  }

  template <typename Message>
  bool say(const Message& message) {
    return stream_->Write(proto::to_wire(message));
  }
  bool say_raw(const v1::AgentMessage& message) { return stream_->Write(message); }

  // The next message; none when the stream ended.
  std::optional<ToAgent> hear() {
    v1::CoordinatorMessage wire;
    if (!stream_->Read(&wire)) return std::nullopt;
    revoked.assign(wire.revoked().begin(), wire.revoked().end());
    auto message = proto::read(wire);
    SHOAL_CHECK(message.ok(), message.ok() ? "" : to_string(message.error()));
    return std::move(message).value();
  }
  std::vector<std::uint64_t> revoked;  // as the last message said
  // The next message of one kind, skipping others.
  template <typename Body>
  std::optional<Body> hear_a() {
    while (auto message = hear()) {
      if (auto* body = std::get_if<Body>(&*message)) return *body;
    }
    return std::nullopt;
  }
  grpc::Status finish() {
    v1::CoordinatorMessage wire;
    while (stream_->Read(&wire)) {
    }
    finished_ = true;
    return stream_->Finish();
  }

 private:
  std::unique_ptr<v1::AgentService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AgentMessage, v1::CoordinatorMessage>> stream_;
  bool finished_ = false;
};

inline JobSpec small_job(const std::string& name) {
  JobSpec spec;
  spec.name = name;
  spec.data.train = "/data/text.txt";
  spec.train.steps = Steps(10);
  spec.train.warmup = Steps(1);
  change_sync(spec, [](SyncSpec& sync) { sync.every = Steps(10); });
  return with_derived_fields(spec);
}

inline Cluster::Answer submit_and_wait(Cluster& cluster, const JobSpec& spec) {
  std::promise<Cluster::Answer> promise;
  cluster.submit({spec, {}, {}}, false,
                 [&](Cluster::Answer answer) { promise.set_value(std::move(answer)); });
  return promise.get_future().get();
}

}  // namespace shoal::coordinator
