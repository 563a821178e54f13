// See donor_shelf.h.
#include "replica/runtime/donor_shelf.h"

#include <chrono>

namespace shoal::replica {

void DonorShelf::publish(ReplicaId replica, const RoundKey& key,
                         std::shared_ptr<const OuterState> state) {
  const MutexLock lock(mutex_);
  replica_ = replica;
  key_ = key;
  state_ = std::move(state);
  adam_.reset();
  changed_.notify_all();
}

void DonorShelf::withdraw() {
  const MutexLock lock(mutex_);
  state_.reset();
  adam_.reset();
  changed_.notify_all();
}

void DonorShelf::provide_adam(std::shared_ptr<const AdamCopy> adam) {
  const MutexLock lock(mutex_);
  adam_ = std::move(adam);
  changed_.notify_all();
}

Status DonorShelf::serve(ReplicaId replica, const RoundKey& key,
                         const std::function<void(const outer_opt::DonorState&)>& send) {
  MutexLock lock(mutex_);
  if (!state_ || replica_ != replica) {
    return Error{Code::kNotFound, to_string(replica) + " has no state to give here", "", ""};
  }
  if (key_ != key) {
    return Error{Code::kConflict, "this replica holds another round than the wanted one", "", ""};
  }
  const auto state = state_;
  if (state->shares_adam()) {
    lock.unlock();
    send({key, state->anchor, state->momentum, state->adam_m, state->adam_v, key.round});
    return {};
  }
  if (!adam_) {
    {
      const MutexUnlock meanwhile(mutex_);
      adam_wanted_();
    }
    changed_.wait_for(mutex_, std::chrono::nanoseconds(kAdamWait.ns),
                      [&]() SHOAL_REQUIRES(mutex_) { return adam_ || state_ != state; });
  }
  if (!adam_ || state_ != state) {
    return Error{Code::kConflict, "the round went on while its state was asked for", "", ""};
  }
  const auto adam = adam_;
  lock.unlock();
  send({key, state->anchor, state->momentum, adam->m, adam->v, adam->step});
  return {};
}

Status DonorShelf::serve_momentum(ReplicaId replica, const RoundKey& key,
                                  const outer_opt::ValueRange& range,
                                  const std::function<void(std::span<const float>)>& send) {
  MutexLock lock(mutex_);
  changed_.wait_for(mutex_, std::chrono::nanoseconds(kRoundWait.ns), [&]() SHOAL_REQUIRES(mutex_) {
    return state_ && (replica_ != replica || key_ >= key);
  });
  if (!state_ || replica_ != replica) {
    return Error{Code::kNotFound, to_string(replica) + " has no state to give here", "", ""};
  }
  if (key_ != key || !state_->shards.holds(range)) {
    return Error{Code::kConflict, "this replica does not keep that momentum of that round", "", ""};
  }
  const auto state = state_;
  lock.unlock();
  send(state->shards.at(range));
  return {};
}

}  // namespace shoal::replica
