// See state_server.h.
#include "replica/runtime/state_server.h"

#include <chrono>

#include "threads/clock.h"

namespace shoal::replica {
namespace {

constexpr Duration kLookAgain = seconds(1);

std::chrono::nanoseconds for_chrono(Duration d) { return std::chrono::nanoseconds(d.ns); }

}  // namespace

void StateServer::publish(ReplicaId replica, const RoundKey& key,
                          std::shared_ptr<const OuterState> state) {
  const MutexLock lock(mutex_);
  replica_ = replica;
  key_ = key;
  source_.publish(replica, held_state(key, state));
  state_ = std::move(state);
  changed_.notify_all();
}

void StateServer::begin_step() {
  const MutexLock lock(mutex_);
  state_.reset();
  source_.begin_step();
}

void StateServer::withdraw() {
  const MutexLock lock(mutex_);
  state_.reset();
  source_.withdraw();
  changed_.notify_all();
}

void StateServer::provide_moments(std::shared_ptr<const outer_opt::MomentsCopy> moments) {
  const MutexLock lock(mutex_);
  source_.provide_moments(std::move(moments), steady_now());
  changed_.notify_all();
}

std::shared_ptr<const OuterState> StateServer::published() {
  const MutexLock lock(mutex_);
  return state_;
}

std::shared_ptr<const outer_opt::MomentsCopy> StateServer::moments() {
  const MutexLock lock(mutex_);
  return source_.moments();
}

OuterLoop::AverageWatch StateServer::watch() {
  OuterLoop::AverageWatch watch;
  watch.wanted = [this] {
    const MutexLock lock(mutex_);
    return source_.keeps_averages(steady_now());
  };
  watch.averaged = [this](const OuterLoop::Averaged& a) {
    const MutexLock lock(mutex_);
    if (!source_.keeps_averages(steady_now())) return;
    source_.averages().add(a.terms, a.fragment, a.codec, a.owned, a.average);
  };
  return watch;
}

std::optional<outer_opt::StateAnswer> StateServer::settled(const outer_opt::StateAsk& ask) {
  auto answer = source_.answer(ask, steady_now());
  if (answer && answer->refusal == outer_opt::StateRefusal::kNotYet) return std::nullopt;
  return answer;
}

void StateServer::offer_copies(CopyHandler copies) {
  const MutexLock lock(mutex_);
  copies_ = std::move(copies);
}

std::optional<outer_opt::StateAnswer> StateServer::of_copy(const outer_opt::StateAsk& ask) {
  CopyHandler copies;
  {
    const MutexLock lock(mutex_);
    copies = copies_;
  }
  return copies ? copies(ask) : std::nullopt;
}

bool StateServer::lacks_moments() {
  const MutexLock lock(mutex_);
  return source_.lacks_moments();
}

outer_opt::StateAnswer StateServer::answer(const outer_opt::StateAsk& ask) {
  if (const auto copied = of_copy(ask)) return *copied;
  MutexLock lock(mutex_);
  const bool moments = ask.kind == outer_opt::AskKind::kMoments;
  const Instant until = steady_now() + (moments ? kMomentsWait : kRoundWait);
  std::optional<outer_opt::StateAnswer> answer;
  while (!(answer = settled(ask)) && steady_now() < until) {
    if (moments && source_.lacks_moments()) {
      const MutexUnlock meanwhile(mutex_);
      moments_wanted_();
    }
    changed_.wait_for(mutex_, for_chrono(kLookAgain),
                      [&]() SHOAL_REQUIRES(mutex_) { return (answer = settled(ask)).has_value(); });
    if (answer) break;
  }
  if (!answer) answer = source_.answer(ask, steady_now());
  if (answer) return *answer;
  outer_opt::StateAnswer none;
  none.refusal = outer_opt::StateRefusal::kNotYet;
  return none;
}

Status StateServer::serve_momentum(ReplicaId replica, const RoundKey& key,
                                   const outer_opt::ValueRange& range,
                                   const std::function<void(std::span<const float>)>& send) {
  MutexLock lock(mutex_);
  changed_.wait_for(mutex_, for_chrono(kRoundWait), [&]() SHOAL_REQUIRES(mutex_) {
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
