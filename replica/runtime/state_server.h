// What this trainer offers to joiners: the outer state of the round it holds, the averages of the
// rounds after that (outer_opt/core/joining/state_source.h), and, where Adam's moments are not part
// of the state, a copy of them made when somebody asks. The vectors are shared: the compute thread
// takes a fresh copy before it changes what somebody still reads.
//
// Copies of other stages that are kept here (copy_keeper.h) are asked for by ids of their own.
//
// With sync.outer_state = sharded others also fetch the ranges of outer momentum that it keeps.
//
// publish(), withdraw(), watch() and provide_moments() belong to the compute thread; answer() and
// serve_momentum() to any.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "outer_opt/core/joining/state_source.h"
#include "outer_opt/transport/peer_node.h"
#include "replica/core/join_target.h"
#include "replica/core/outer_loop.h"
#include "threads/mutex.h"

namespace shoal::replica {

class StateServer {
 public:
  // `moments_wanted` is called, from a serving thread, when the moments are missing.
  explicit StateServer(std::function<void()> moments_wanted)
      : moments_wanted_(std::move(moments_wanted)) {}

  void publish(ReplicaId replica, const RoundKey& key, std::shared_ptr<const OuterState> state);
  // The outer step begins: requests wait for publish().
  void begin_step();
  // Nothing is offered any more.
  void withdraw();
  bool lacks_moments();  // whether provide_moments() is what an ask may wait for
  void provide_moments(std::shared_ptr<const outer_opt::MomentsCopy> moments);
  std::shared_ptr<const OuterState> published();            // null: nothing is
  std::shared_ptr<const outer_opt::MomentsCopy> moments();  // likewise
  // None: no copy has the id that the ask names.
  using CopyHandler =
      std::function<std::optional<outer_opt::StateAnswer>(const outer_opt::StateAsk& ask)>;
  void offer_copies(CopyHandler copies);
  // Takes the averages of a loop's commits while joiners ask for them.
  OuterLoop::AverageWatch watch();

  // A PeerNode's StateHandler. Waits at most kMomentsWait for the moments, kRoundWait for a round
  // that this trainer is about to commit.
  outer_opt::StateAnswer answer(const outer_opt::StateAsk& ask);
  // A PeerNode's MomentumHandler. Waits at most kRoundWait for the outer step of the wanted round.
  Status serve_momentum(ReplicaId replica, const RoundKey& key, const outer_opt::ValueRange& range,
                        const std::function<void(std::span<const float>)>& send);

 private:
  static constexpr Duration kMomentsWait = seconds(60), kRoundWait = seconds(5);

  std::optional<outer_opt::StateAnswer> of_copy(const outer_opt::StateAsk& ask);
  std::optional<outer_opt::StateAnswer> settled(const outer_opt::StateAsk& ask)
      SHOAL_REQUIRES(mutex_);

  std::function<void()> moments_wanted_;
  Mutex mutex_;
  CondVar changed_;
  outer_opt::StateSource source_ SHOAL_GUARDED_BY(mutex_);
  ReplicaId replica_ SHOAL_GUARDED_BY(mutex_);
  RoundKey key_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<const OuterState> state_ SHOAL_GUARDED_BY(mutex_);
  CopyHandler copies_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::replica
