// What a trainer knows of itself for the agent that it attaches to next: the replica it works on,
// brought up to the newest commit, and what it said of it and may have to say again. It is told
// every message in both directions and decides nothing; the replica itself is elsewhere.
//
// Bounded: one replica, a message of each kind, and the last words of those before it.
// Not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "messages/coming_states.h"
#include "messages/outbox.h"
#include "messages/trainer_messages.h"

namespace shoal {

class HeldWork {
 public:
  void heard(const ToTrainer& command);
  void said(const FromTrainer& message);

  // For TrainerReady: the assignment, with the record of the state that is held now. None: nothing
  // is worked on.
  const std::optional<Assign>& holds() const { return holds_; }

  // What follows TrainerReady, in this order: Loaded of the state that is held now, if it is
  // loaded; then the newest of each kind, and last words of replicas that have failed.
  std::vector<FromTrainer> say_again();

 private:
  void drop();  // what was worked on
  bool works_on(ReplicaId replica) const { return holds_ && holds_->replica == replica; }
  void take(const LoadReplica& load);
  void release(ReplicaId replica);
  void expect(ReplicaId replica, const CommitRecord& record);
  void renew(ReplicaId replica, const CommitRecord& record);
  void note(const Loaded& loaded);
  void note(const FromReplica<Applied>& applied);

  static constexpr std::size_t kLastWordsMax = 16;
  std::optional<Assign> holds_;
  ComingStates coming_;
  std::optional<Loaded> loaded_;
  Outbox<FromTrainer> outbox_{kLastWordsMax};  // all but Loaded
};

}  // namespace shoal
