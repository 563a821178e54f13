// A process and the agents that come and go on its socket, which the test plays.
#include "agent_channel/control.h"

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <future>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "agent_channel/socket_server_test_util.h"
#include "base/check.h"
#include "proto/convert.h"
#include "threads/mutex.h"
#include "wire/metadata.h"

namespace shoal::agent_channel {
namespace {

constexpr std::chrono::seconds kLimit{30};
constexpr ReplicaId kReplica{7};
const RoundKey kKey{JobId(1), 0, 3};

// One agent on the socket, from its construction to its destruction.
class Agent final : public v1::TrainerHost::Service {
 public:
  explicit Agent(const std::string& socket) : server_(socket, this) {}

  grpc::Status Attach(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::TrainerCommand, v1::TrainerMessage>* stream) override {
    MutexLock lock(mutex_);
    nonce_ = wire::read_text(context->client_metadata(), wire::kTrainerNonceName);
    stream_ = stream;
    lock.unlock();
    for (v1::TrainerMessage wire; stream->Read(&wire);) {
      auto message = proto::read(wire);
      EXPECT_TRUE(message.ok());
      lock.lock();
      heard_.push_back(std::move(message).value());
      changed_.notify_all();
      lock.unlock();
    }
    lock.lock();
    stream_ = nullptr;
    return grpc::Status::OK;
  }

  FromTrainer next() {
    const MutexLock lock(mutex_);
    if (!changed_.wait_for(mutex_, kLimit,
                           [this]() SHOAL_REQUIRES(mutex_) { return !heard_.empty(); })) {
      ADD_FAILURE() << "nothing was heard";
      return ReplicaFailed{};
    }
    FromTrainer message = std::move(heard_.front());
    heard_.pop_front();
    return message;
  }
  TrainerReady ready() {
    const FromTrainer message = next();
    const auto* ready = std::get_if<TrainerReady>(&message);
    EXPECT_NE(ready, nullptr);
    return ready == nullptr ? TrainerReady{} : *ready;
  }
  void say(const ToTrainer& command, const std::vector<AgentId>& revoked = {}) {
    v1::TrainerCommand wire = proto::to_wire(command);
    for (const AgentId agent : revoked) wire.add_revoked(agent.n);
    say(wire);
  }
  void say(const v1::TrainerCommand& wire) {
    const MutexLock lock(mutex_);
    ASSERT_NE(stream_, nullptr);
    stream_->Write(wire);
  }
  std::string nonce() {
    const MutexLock lock(mutex_);
    return nonce_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<FromTrainer> heard_ SHOAL_GUARDED_BY(mutex_);
  std::string nonce_ SHOAL_GUARDED_BY(mutex_);
  grpc::ServerReaderWriter<v1::TrainerCommand, v1::TrainerMessage>* stream_
      SHOAL_GUARDED_BY(mutex_) = nullptr;
  const SocketServer server_;  // the last member: it calls until it ends
};

class ControlTest : public testing::Test {
 protected:
  ControlTest() : agent_(std::make_unique<Agent>(socket_)) {}
  ~ControlTest() override {
    control_.reset();
    agent_.reset();
    std::filesystem::remove_all(folder_);
  }

  void attach(Duration orphan_limit = seconds(60)) {
    auto control =
        Control::dial({socket_, "00ff", "a test", orphan_limit},
                      {.command = [this](ToTrainer command) { return take(std::move(command)); },
                       .ended = [this] { ended_.set_value(); },
                       .closing = [] {},
                       .revoked =
                           [this](const std::vector<AgentId>& agents) {
                             const MutexLock lock(mutex_);
                             revoked_ = agents;
                           },
                       .refusals =
                           [this] {
                             const MutexLock lock(mutex_);
                             return refusals_;
                           }});
    ASSERT_TRUE(control.ok()) << to_string(control.error());
    control_ = std::move(control).value();
    control_->start({.slot = 2, .device = {}, .peer_address = "127.0.0.1:1", .libraries = "none"});
  }
  // Given a replica, and loaded.
  static LoadReplica load() {
    Assign assign{.replica = kReplica, .job = JobId(1)};
    assign.spec.name = "kjv";
    assign.spec.data.train = "/data";
    assign.cut = {{0, static_cast<std::int32_t>(assign.spec.model.layers) + 2}};
    assign.source.key = assign.record.key = kKey;
    return {assign, ""};
  }
  void serve() {
    attach();
    EXPECT_FALSE(agent_->ready().holds.has_value());
    agent_->say(load());
    await_command();
    control_->say(loaded());
    EXPECT_EQ(agent_->next(), FromTrainer(loaded()));
  }
  static Loaded loaded() { return {kReplica, kKey, {1, 2}, {}, 10, "127.0.0.1:1", {}}; }
  static FromReplica<RoundReport> report(RoundNumber round) {
    return {kReplica, {.key = {JobId(1), 0, round}, .tokens = Tokens(5), .steps = Steps(1)}};
  }
  bool take(ToTrainer) {
    const MutexLock lock(mutex_);
    ++commands_;
    changed_.notify_all();
    return true;
  }
  void await_command() {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, kLimit,
                                  [this]() SHOAL_REQUIRES(mutex_) { return commands_ > 0; }));
    --commands_;
  }
  void next_agent() {
    agent_.reset();
    agent_ = std::make_unique<Agent>(socket_);
  }

  std::string folder_ = [] {
    std::string path = "/tmp/shoal-test-XXXXXX";
    SHOAL_CHECK(mkdtemp(path.data()) != nullptr);
    return path;
  }();
  const std::string socket_ = folder_ + "/agent.sock";
  std::unique_ptr<Agent> agent_;
  std::promise<void> ended_;
  Mutex mutex_;
  CondVar changed_;
  int commands_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::vector<AgentId> revoked_ SHOAL_GUARDED_BY(mutex_);
  RefusalCounts refusals_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<Control> control_;
};

TEST_F(ControlTest, ItSaysWhoItIsAndHandsOnWhatItHears) {
  serve();
  EXPECT_EQ(agent_->nonce(), "00ff");
  agent_->say(ToReplica<CloseRound>{kReplica, {kKey}});
  await_command();
}

TEST_F(ControlTest, WhoWasRevokedIsKnownBeforeTheCommand) {
  serve();
  agent_->say(ToReplica<CloseRound>{kReplica, {kKey}}, {AgentId(5), AgentId(6)});
  await_command();
  const MutexLock lock(mutex_);
  EXPECT_THAT(revoked_, testing::ElementsAre(AgentId(5), AgentId(6)));
}

// An agent that was upgraded may hand on a job that uses what this process does not know.
TEST_F(ControlTest, AJobThatCannotBeReadIsRefusedAndNothingElse) {
  attach();
  agent_->ready();
  v1::TrainerCommand order = proto::to_wire(ToTrainer(load()));
  order.mutable_load()->mutable_assign()->set_spec_json(
      R"({"name":"kjv","data":{"train":"/data"},"warp":9})");
  agent_->say(order);
  const FromTrainer said = agent_->next();
  const auto* failed = std::get_if<ReplicaFailed>(&said);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->replica, kReplica);
  EXPECT_THAT(failed->detail, testing::HasSubstr("warp"));
  agent_->say(load());
  await_command();
}

// To every agent all of it, and no more while nothing changes.
TEST_F(ControlTest, WhatThePortRefusesIsTold) {
  serve();
  {
    const MutexLock lock(mutex_);
    refusals_[RefusalReason::kForeign] = 3;
  }
  const FromTrainer told = PortRefusals{{{RefusalReason::kForeign, 3}}};
  EXPECT_EQ(agent_->next(), told);
  control_->say(report(4));
  EXPECT_EQ(agent_->next(), FromTrainer(report(4)));
  next_agent();
  agent_->ready();
  EXPECT_EQ(agent_->next(), FromTrainer(loaded()));
  EXPECT_EQ(agent_->next(), FromTrainer(report(4)));
  EXPECT_EQ(agent_->next(), told);
}

TEST_F(ControlTest, TheNextAgentHearsWhatItHoldsAndWhatWasSaidMeanwhile) {
  serve();
  agent_.reset();
  for (RoundNumber round = 4; round < 7; ++round) control_->say(report(round));
  agent_ = std::make_unique<Agent>(socket_);
  const TrainerReady ready = agent_->ready();
  EXPECT_EQ(ready.slot, 2);
  ASSERT_TRUE(ready.holds.has_value());
  EXPECT_EQ(ready.holds->replica, kReplica);
  EXPECT_EQ(ready.holds->record.key, kKey);
  EXPECT_EQ(agent_->next(), FromTrainer(loaded()));
  EXPECT_EQ(agent_->next(), FromTrainer(report(6)));
  control_->say(report(7));
  EXPECT_EQ(agent_->next(), FromTrainer(report(7)));
  agent_->say(ToReplica<CloseRound>{kReplica, {kKey}});
  await_command();
  EXPECT_EQ(agent_->nonce(), "00ff");
}

TEST_F(ControlTest, AgentsMayComeAndGoOften) {
  serve();
  for (int time = 0; time < 5; ++time) {
    next_agent();
    EXPECT_TRUE(agent_->ready().holds.has_value());
    EXPECT_EQ(agent_->next(), FromTrainer(loaded()));
  }
}

TEST_F(ControlTest, WhatWasSaidLastArrives) {
  serve();
  for (RoundNumber round = 4; round < 104; ++round) control_->say(report(round));
  control_.reset();
  for (RoundNumber round = 4; round < 104; ++round) {
    EXPECT_EQ(agent_->next(), FromTrainer(report(round)));
  }
}

TEST_F(ControlTest, WithoutALimitItEndsWithItsAgent) {
  attach(Duration{});
  agent_->ready();
  agent_.reset();
  EXPECT_EQ(ended_.get_future().wait_for(kLimit), std::future_status::ready);
}

TEST_F(ControlTest, ItEndsAtOnceWhileItLooksForAnAgent) {
  serve();
  agent_.reset();
  control_.reset();
  EXPECT_EQ(ended_.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

}  // namespace
}  // namespace shoal::agent_channel
