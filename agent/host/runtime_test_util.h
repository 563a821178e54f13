// The whole host side of an agent in this process, against a coordinator that the test plays.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/host/coordinator_test_util.h"
#include "agent/host/folder_test_util.h"
#include "agent/host/roster.h"
#include "agent/host/runtime.h"
#include "threads/file_content.h"

namespace shoal::agent {

inline const RoundKey kKey{JobId(1), 0, 3};

class RuntimeTest : public testing::Test {
 protected:
  ~RuntimeTest() override {
    if (!thread_.joinable()) return;
    runtime_->stop();
    runtime_->stop();
    thread_.join();
  }

  HostOptions options() {
    HostOptions options;
    options.coordinator = {coordinator_.address(),
                           [] { return grpc::InsecureChannelCredentials(); }};
    options.core.name = "node";
    options.core.version = "test";
    options.core.host = "127.0.0.1";
    options.core.devices = {{0, DeviceKind::kCpu, "cpu", Bytes(1 << 30), 0, false}};
    options.core.reconnect_first = options.core.reconnect_cap = milliseconds(50);
    options.core.restart_first = options.core.restart_cap = milliseconds(50);
    options.core.upload_first = options.core.upload_cap = milliseconds(50);
    options.data_dir = folder_.path() + "/agent";
    options.speed = 0.5;  // of the 14 GFLOP/s of the scripted trainer
    options.trainer = SCRIPTED_TRAINER;
    return options;
  }
  void start(HostOptions options) {
    auto runtime = Runtime::open(std::move(options));
    ASSERT_TRUE(runtime.ok()) << to_string(runtime.error());
    runtime_ = std::move(runtime).value();
    thread_ = std::thread([this] { end_ = runtime_->run(); });
  }
  void join() {
    coordinator_.hello(1);
    coordinator_.welcome();
  }
  ExitProcess ended() {
    thread_.join();
    return end_;
  }
  // Ends and leaves its trainers to the next start.
  ExitProcess handed_over() {
    runtime_->hand_over();
    const ExitProcess end = ended();
    runtime_.reset();
    return end;
  }
  std::string journal() const {
    return file_content(folder_.path() + "/agent/logs/agent.log").value_or("");
  }
  std::vector<RosterEntry> roster() const {
    const auto read = read_roster(folder_.path() + "/agent/trainers");
    EXPECT_TRUE(read.ok());
    return read.ok() ? read->trainers : std::vector<RosterEntry>();
  }
  static Assign assign(std::uint64_t replica) {
    Assign message{.replica = ReplicaId(replica), .job = JobId(1)};
    message.cut = {{0, static_cast<std::int32_t>(message.spec.model.layers) + 2}};
    message.spec.name = "kjv";
    message.spec.data.train = "/data";
    message.source.key = message.record.key = kKey;
    return message;
  }
  static Assign assign_from(CheckpointId checkpoint) {
    Assign message = assign(1);
    message.source.kind = SourceKind::kCheckpoint;
    message.source.checkpoint = checkpoint;
    return message;
  }
  void serve() {
    start(options());
    join();
    coordinator_.say(assign(1));
    EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(1));
  }

  TestFolder folder_;
  Coordinator coordinator_;
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
  ExitProcess end_;
};

}  // namespace shoal::agent
