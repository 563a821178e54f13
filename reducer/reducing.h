// The work of a reducer: it serves one replica id, obeys the plans that its outer_opt::Reducer
// accepts, and averages in a thread of its own, so that commands are still obeyed. It holds the
// part of the vector that it averages, and only while it does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "agent_channel/event_queue.h"
#include "messages/trainer_messages.h"
#include "outer_opt/core/participant/reducer.h"
#include "outer_opt/transport/peer_node.h"

namespace shoal::reducer {

// A reduce came to its end; of an attempt that was given up meanwhile it is no news.
struct ReduceEnded {
  RoundKey key;
  std::int32_t attempt = 0;
  outer_opt::ReduceResult result;
};

using Event = std::variant<ToTrainer, ReduceEnded, agent_channel::StreamEnded>;
using EventQueue = agent_channel::EventQueue<Event>;

class Reducing {
 public:
  // Node and queue outlive it. `say` is called from the thread in run(); `ready` is said again when
  // it has ended a replica.
  Reducing(outer_opt::PeerNode& node, EventQueue& queue,
           std::function<void(const FromTrainer&)> say, TrainerReady ready = {});
  ~Reducing();

  void run();  // until the agent stops it or stays away

 private:
  void handle(const Event& event);
  void obey(const ToTrainer& command);
  void load(const LoadReplica& command);
  void release(ReplicaId replica);
  void ended(const ReduceEnded& event);
  void perform(const outer_opt::Actions& actions);
  void start(const ReducePlan& plan);
  void stop();  // waits: a reduce ends within moments when it is asked to

  outer_opt::PeerNode& node_;
  EventQueue& queue_;
  const std::function<void(const FromTrainer&)> say_;
  const TrainerReady ready_;
  ReplicaId replica_;
  std::optional<outer_opt::Reducer> reducer_;
  std::vector<float> part_;
  std::jthread work_;
  bool over_ = false;
};

}  // namespace shoal::reducer
