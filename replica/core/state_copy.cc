// See state_copy.h.
#include "replica/core/state_copy.h"

#include <utility>

#include "base/check.h"

namespace shoal::replica {

using outer_opt::JoinSession;
using outer_opt::StateAnswer;
using outer_opt::StateAsk;

StateCopy::StateCopy(CopiedStage stage, const CopiedRound& first,
                     const outer_opt::JoinOptions& options, std::uint64_t seed, Instant now)
    : stage_(std::move(stage)),
      algorithm_(make_outer_algorithm(stage_.spec, {})),
      coming_(algorithm_->zero_state(stage_.value_count)),
      wanted_(first) {
  const bool follows = algorithm_->join_mode() == outer_opt::JoinMode::kFollows;
  SHOAL_CHECK(follows && !coming_.shares_adam() && !algorithm_->gathers_momentum(),
              "a state that cannot be copied");
  source_.keep_no_moments();
  outer_opt::JoinOptions staying = options;
  staying.stays = true;
  session_.emplace(first.key, join_shape(*algorithm_, coming_, stage_.fragments, 0), first.sources,
                   target_, staying, seed, now);
}

void StateCopy::follow(const CopiedRound& round, Instant now) {
  if (round.key < wanted_.key) return;
  wanted_ = round;
  session_->set_sources(round.sources, now);
  session_->aim(round.key.round);
}

CopyState StateCopy::settle() {
  if (error_) return CopyState::kFailed;
  if (session_->state() == JoinSession::State::kGivenUp) {
    error_ = session_->error();
    return CopyState::kFailed;
  }
  // Sources may be at a round that this process has not heard of yet.
  const bool there =
      session_->state() == JoinSession::State::kLevel && session_->round() == wanted_.key.round;
  if (!there) return CopyState::kComing;
  if (held_ == wanted_.key) return CopyState::kHeld;
  if (digests_of(coming_) != wanted_.digests) {
    error_ = Error{Code::kDataLoss, "the copy has other digests than its stage", "", ""};
    return CopyState::kFailed;
  }
  held_ = wanted_.key;
  source_.publish(stage_.copy, held_state(*held_, std::make_shared<const OuterState>(coming_)));
  return CopyState::kHeld;
}

StateAnswer StateCopy::answer(const StateAsk& ask, Instant now) {
  StateAnswer none;
  none.refusal = outer_opt::StateRefusal::kNotHere;
  return source_.answer(ask, now).value_or(none);
}

}  // namespace shoal::replica
