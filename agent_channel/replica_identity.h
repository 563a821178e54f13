// The certificate of the replica that this process works on: makes a key, asks the agent for a
// certificate (TrainerHost.Certify), and asks again when half of its life is over, when the job has
// gone into another epoch, and after each failure. The key never leaves the process.
//
// Threads: one of its own asks. The methods may be called by any thread, and do not block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent_channel/control.h"
#include "base/ids.h"
#include "base/result.h"
#include "identity/trust.h"
#include "messages/trainer_messages.h"
#include "outer_opt/transport/peer_identity.h"
#include "threads/mutex.h"

namespace shoal::agent_channel {

class ReplicaIdentity {
 public:
  using Use = std::function<void(std::shared_ptr<const outer_opt::PeerIdentity>)>;
  using Complain = std::function<void(const std::string&)>;

  // The thread calls `use` and `complain`. It ends with this object.
  ReplicaIdentity(const ControlOptions& line, Use use, Complain complain);
  ~ReplicaIdentity();
  ReplicaIdentity(const ReplicaIdentity&) = delete;
  ReplicaIdentity& operator=(const ReplicaIdentity&) = delete;

  // Reads from the agent's commands which replica this process has, and in which epoch.
  void heard(const ToTrainer& command) SHOAL_EXCLUDES(mutex_);
  // Replicas of these agents are refused from the next handshake on, also over contexts that are in
  // use. Ids are never given out again, so nobody is taken off the list.
  void revoke(const std::vector<AgentId>& agents) SHOAL_EXCLUDES(mutex_);

 private:
  struct Wanted {
    ReplicaId replica;
    std::int64_t epoch = 0;
    bool operator==(const Wanted&) const = default;
  };
  struct Held {
    std::shared_ptr<const outer_opt::PeerIdentity> identity;
    std::shared_ptr<identity::Trust> trust;  // of its contexts
    Duration lasts;                          // from now on
  };
  void trust_from_now_on(std::shared_ptr<identity::Trust> trust) SHOAL_EXCLUDES(mutex_);
  void run(const std::stop_token& stop);
  Wanted wait(const Wanted& held, Instant again, const std::stop_token& stop)
      SHOAL_EXCLUDES(mutex_);  // zero: stopped
  Result<Held> ask(ReplicaId replica) const;

  const ControlOptions line_;
  const Use use_;
  const Complain complain_;
  Mutex mutex_;
  CondVar changed_;
  Wanted wanted_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<identity::Trust> trust_ SHOAL_GUARDED_BY(mutex_);  // none before the first answer
  identity::Revocations revoked_ SHOAL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the others
};

}  // namespace shoal::agent_channel
