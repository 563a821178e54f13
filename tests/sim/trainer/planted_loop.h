// The outer loop of a simulated replica: the product's, with the bugs that may be planted in it
// (tests/negative/bugs.h). Without one it does what its base does.
#pragma once

#include "base/prng.h"
#include "replica/core/outer_loop.h"
#include "tests/sim/sim.h"

namespace shoal::sim {

class PlantedLoop final : public replica::OuterLoop {
 public:
  PlantedLoop(Sim& sim, Prng& prng, replica::OuterLoopSetup setup, replica::LocalParameters& local,
              std::shared_ptr<replica::OuterState> state, const RoundKey& held);

  // An average changes after the vote.
  void corrupt_average();
  // What was not sent is settled at the vote. True: it was.
  bool settle_early(const outer_opt::ReduceInput& input);
  // Members of a group exchange what they trained without the anchors.
  void forget_anchor();

 protected:
  double share_in(const ReducePlan& plan) const override;
  void take_step(const outer_opt::StepTerms& terms) override;
  void move_with_anchor() override;
  void take_back(std::span<float> local) override;
  void correct(std::span<float> local) override;
  void stay(bool counts) override;

 private:
  bool seldom(Bug bug);
  void skip_momentum();
  void leak_momentum();

  Sim& sim_;
  Prng& prng_;
};

}  // namespace shoal::sim
