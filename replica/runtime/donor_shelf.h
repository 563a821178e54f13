// What this trainer offers to joiners: the outer state of the round it holds, and, where Adam's
// moments are not part of that, a copy of them made when somebody asks. The vectors are shared,
// never locked while they are sent: the compute thread takes a fresh copy before it changes what a
// joiner still reads.
//
// With sync.outer_state = sharded others also fetch the ranges of outer momentum that it keeps.
//
// publish(), withdraw() and provide_adam() belong to the compute thread; serve() and
// serve_momentum() to any.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "outer_opt/transport/peer_node.h"
#include "replica/core/outer_state.h"
#include "threads/mutex.h"

namespace shoal::replica {

struct AdamCopy {
  std::vector<float> m, v;
  std::int64_t step = 0;
};

class DonorShelf {
 public:
  // `adam_wanted` is called, from a serving thread, when the moments are missing.
  explicit DonorShelf(std::function<void()> adam_wanted) : adam_wanted_(std::move(adam_wanted)) {}

  void publish(ReplicaId replica, const RoundKey& key, std::shared_ptr<const OuterState> state);
  void withdraw();
  void provide_adam(std::shared_ptr<const AdamCopy> adam);

  // A PeerNode's Donor. Waits at most kAdamWait for the moments.
  Status serve(ReplicaId replica, const RoundKey& key,
               const std::function<void(const outer_opt::DonorState&)>& send);
  // A PeerNode's MomentumDonor. Waits at most kRoundWait for the outer step of the wanted round.
  Status serve_momentum(ReplicaId replica, const RoundKey& key, const outer_opt::ValueRange& range,
                        const std::function<void(std::span<const float>)>& send);

 private:
  static constexpr Duration kAdamWait = seconds(60), kRoundWait = seconds(5);

  std::function<void()> adam_wanted_;
  Mutex mutex_;
  CondVar changed_;
  ReplicaId replica_ SHOAL_GUARDED_BY(mutex_);
  RoundKey key_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<const OuterState> state_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<const AdamCopy> adam_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::replica
