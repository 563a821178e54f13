// The outer state as joiners see it (outer_opt/core/joining): what a replica that serves offers,
// and where one that joins puts what it is given.
#pragma once

#include <memory>
#include <vector>

#include "messages/messages.h"
#include "outer_opt/core/joining/join_session.h"
#include "outer_opt/core/joining/state_source.h"
#include "replica/core/outer_algorithm.h"

namespace shoal::replica {

// The state of a commit, for a StateSource. Shards of momentum are fetched otherwise.
outer_opt::HeldState held_state(const RoundKey& key, std::shared_ptr<const OuterState> state);

// What a joiner of this kind of job takes. `state` is the algorithm's zero_state(); `moments` of
// the inner optimizer that are wanted, first and second ones, none where they are in the state.
outer_opt::JoinShape join_shape(const OuterAlgorithm& algorithm, const OuterState& state,
                                std::vector<outer_opt::Fragment> fragments, std::int64_t moments);

// Moments are their source's own, and no digest stands for them: whether they can be moments at
// all, finite and the second ones not negative. Those that cannot are left out, and begin at zero.
bool are_possible(const outer_opt::MomentsCopy& moments);

class OuterStateTarget final : public outer_opt::JoinTarget {
 public:
  // All outlive this.
  OuterStateTarget(const OuterAlgorithm& algorithm, OuterState& state,
                   outer_opt::MomentsCopy& moments)
      : algorithm_(algorithm), state_(state), moments_(moments) {}

  void place(const outer_opt::ValueRange& run, std::span<const float> values) override;
  void follow(const outer_opt::StepTerms& terms, const outer_opt::ValueRange& run,
              std::span<const float> average) override;
  void place_moments(std::int64_t first, std::span<const float> values) override;
  Digest digest_of(const outer_opt::ValueRange& run) const override;

 private:
  const OuterAlgorithm& algorithm_;
  OuterState& state_;
  outer_opt::MomentsCopy& moments_;
};

}  // namespace shoal::replica
