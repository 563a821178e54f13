// For the tests of the agent's core: one agent with two devices, a hand on the clock, and the
// effects of the last step. No driver: a test says what happened and looks at what shall be done.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/core/agent.h"

namespace shoal::agent {

constexpr Bytes kDeviceMemory = mebibytes(4096);

inline Options test_options() {
  Options options;
  options.uid = std::string(32, 'a');
  options.name = "node-1";
  options.version = "0.1.0";
  options.host = "10.0.0.4";
  options.data_dir = "/data";
  options.devices = {
      {0, DeviceKind::kCpu, "cpu", kDeviceMemory, 0, false, "cpu-0", mebibytes(16384)},
      {1, DeviceKind::kCpu, "cpu", kDeviceMemory, 0, false, "cpu-1", mebibytes(16384)}};
  return options;
}

class AgentFixture : public testing::Test {
 protected:
  explicit AgentFixture(Options options = test_options()) : agent_(std::move(options)) {}

  void step(const Input& input) {
    effects_.clear();
    agent_.step(now_, input, effects_);
  }
  void advance(Duration duration) {
    now_ = now_ + duration;
    step(Tick{});
  }
  // Moves to the next deadline; false when nothing waits.
  bool wake() {
    const auto deadline = agent_.next_deadline();
    if (!deadline) return false;
    now_ = std::max(now_, *deadline);
    step(Tick{});
    return true;
  }

  template <typename T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const Effect& effect : effects_) {
      if (const auto* match = std::get_if<T>(&effect)) found.push_back(*match);
    }
    return found;
  }
  // The only effect of this kind in the last step.
  template <typename T>
  T one() const {
    const auto found = all<T>();
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? T{} : found.front();
  }
  // Messages of one kind to the coordinator in the last step.
  template <typename Body>
  std::vector<Body> said() const {
    std::vector<Body> found;
    for (const auto& send : all<SendCoordinator>()) {
      if (const auto* body = std::get_if<Body>(&send.message)) found.push_back(*body);
    }
    return found;
  }
  template <typename Body>
  std::vector<Body> told(std::int32_t slot) const {
    std::vector<Body> found;
    for (const auto& send : all<SendTrainer>()) {
      const auto* body = std::get_if<Body>(&send.message);
      if (body != nullptr && send.trainer.slot == slot) found.push_back(*body);
    }
    return found;
  }

  void boot() {
    step(Booted{});
    link_ = one<OpenLink>().link;
  }
  void connect(std::vector<ReplicaId> keep = {}) {
    step(LinkUp{link_});
    hear(Welcome{AgentId(7), {3}, seconds(2), seconds(10), std::move(keep)});
  }
  void hear(ToAgent message) { step(CoordinatorSaid{link_, std::move(message)}); }
  void lose_link() { step(LinkDown{link_, {Code::kUnavailable, "gone", "", ""}}); }
  // Loses the link and opens the next one, up to the greeting.
  OpenLink reconnect() {
    lose_link();
    while (all<OpenLink>().empty() && wake()) {
    }
    const auto open = one<OpenLink>();
    link_ = open.link;
    return open;
  }
  void attach(std::int32_t slot, std::uint64_t generation = 1, std::int32_t device = -1) {
    const Device measured{device < 0 ? slot : device,
                          DeviceKind::kCpu,
                          "cpu",
                          kDeviceMemory + kDeviceMemory,
                          50,
                          false};
    step(TrainerAttached{{slot, generation}, {slot, measured, "10.0.0.4:7100", "libtorch"}});
  }
  void trainer_says(std::int32_t slot, FromTrainer message, std::uint64_t generation = 1) {
    step(TrainerSaid{{slot, generation}, std::move(message)});
  }

  static Assign assign(std::uint64_t replica, std::int32_t device = 0) {
    Assign message{.replica = ReplicaId(replica), .job = JobId(1), .device = device};
    message.source.key = {JobId(1), 0, 0};
    message.spec.name = "mine";  // as a coordinator before protocol 8 says it
    return message;
  }
  static Assign assign_from_checkpoint(std::uint64_t replica, std::int32_t device,
                                       std::uint64_t checkpoint) {
    Assign message = assign(replica, device);
    message.source.kind = SourceKind::kCheckpoint;
    message.source.checkpoint = CheckpointId(checkpoint);
    message.source.key = key(3);
    return message;
  }
  static RoundKey key(RoundNumber round) { return {JobId(1), 0, round}; }
  static Loaded loaded(std::uint64_t replica) {
    return {ReplicaId(replica), key(0), {1, 1}, {}, 10, "10.0.0.4:7100"};
  }
  static FromReplica<RoundReport> report(std::uint64_t replica, RoundNumber round) {
    return {ReplicaId(replica), {.key = key(round), .tokens = Tokens(5), .steps = Steps(1)}};
  }

  // Booted, connected, both trainers attached, replica 1 serving on device 0.
  void serve() {
    boot();
    connect();
    attach(0);
    attach(1);
    hear(assign(1));
    trainer_says(0, loaded(1));
  }

  Agent agent_;
  Instant now_ = from_unix_ms(1'000'000);
  Effects effects_;
  LinkId link_;
};

}  // namespace shoal::agent
