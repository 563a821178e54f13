// A pipeline of two stages on agents that are played by hand.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/coordinator_test_util.h"

namespace shoal::coordinator {

inline JobSpec two_stages() {
  JobSpec spec = small_job();
  spec.model.layers = 2;
  spec.swarm.stages = 2;
  spec.swarm.min_replicas = 1;
  return spec;
}

// Two stages on equal agents, in training.
struct Piped : Rig {
  explicit Piped(int count = 3, std::optional<Bytes> memory = {})
      : Piped(two_stages(), count, memory) {}
  Piped(JobSpec spec, int count, std::optional<Bytes> memory = {}) {
    device_memory = memory.value_or(device_memory);
    spec.train.steps = Steps(40);
    adopt(spec);
    for (int i = 0; i < count; ++i) agents.push_back(join("agent-" + std::to_string(i)));
    wait(seconds(3));
    for (const auto agent : agents) load(agent);
    wait(seconds(3));
  }
  StageIndex stage(ConnectionId agent) { return last<Assign>(agent)->stage; }
  // The one that serves its stage alone.
  ConnectionId alone() {
    for (const auto agent : agents) {
      if (std::count_if(agents.begin(), agents.end(),
                        [&](auto other) { return stage(other) == stage(agent); }) == 1)
        return agent;
    }
    return {};
  }
  std::vector<ConnectionId> of_stage(StageIndex wanted) {
    std::vector<ConnectionId> found;
    for (const auto agent : agents) {
      if (stage(agent) == wanted) found.push_back(agent);
    }
    return found;
  }
  void lose(ConnectionId agent) {
    say(agent, Goodbye{"stopped"});
    std::erase(agents, agent);
  }
  void commit_round(RoundNumber number) {
    const RoundKey key{JobId(1), 0, number};
    const auto all = [&](const auto& act) {
      for (const auto agent : agents) act(agent, last<Assign>(agent)->replica);
    };
    all([&](auto agent, auto replica) { report(agent, replica, key); });
    all([&](auto agent, auto replica) { vote(agent, replica, key, 1); });
    all([&](auto agent, auto replica) { applied(agent, replica, key, {11, 11}); });
    EXPECT_EQ(job(JobId(1)).committed_round, number);
  }
  void stay_alive(Duration d) {
    for (Duration passed; passed < d; passed = passed + seconds(5)) {
      wait(seconds(5));
      for (const auto agent : agents) say(agent, Heartbeat{});
    }
  }
  std::vector<ConnectionId> agents;
};

}  // namespace shoal::coordinator
