// Eager updates at a simulated trainer (outer_opt/core/step/eager.h); without sync.eager all of
// this does nothing.
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

using namespace outer_opt;

void Trainer::begin_eagerly(const RoundReport& report) {
  Replica& r = *replica_;
  if (!r.eager || report.nonfinite > 0 || !r.walk->adopts_later()) return;
  const std::vector<float> before = r.local;
  ++sim_.transitions[r.eager->knows(r.open.fragment) ? "eager step taken" : "eager step unknown"];
  r.eager->begin(r.open.fragment, r.kept.values, r.state.momentum, r.state.anchor, r.local);
  sim_.observe(&Checker::eagerly_begun,
               EagerlyBegun{r.id, report.key, r.open.fragment, values_of(r.open.fragment),
                            r.kept.values, r.state.anchor, r.state.momentum, before, r.local});
}

void Trainer::take_back_eagerly() {
  Replica& r = *replica_;
  if (!r.eager || r.eager->state() != EagerState::kAhead) return;
  ++sim_.transitions["eager step taken back"];
  const std::vector<float> before = r.local;
  r.eager->take_back(r.kept.values, r.state.anchor, r.local);
  if (sim_.misbehave(Bug::kForgetfulAbort)) r.local = r.state.anchor;
  sim_.observe(&Checker::taken_back, TakenBack{r.id, before, r.local});
}

void Trainer::learn_average(const CommitRound& commit, std::span<const float> average) {
  Replica& r = *replica_;
  if (!r.eager) return;
  if (!r.contributed) return r.eager->dropped(r.averaged_fragment);
  const double share = r.share * (sim_.misbehave(Bug::kOwnTwice) ? 2 : 1);
  const OuterSpec outer{commit.outer_lr, r.assign.spec.sync.outer.momentum};
  r.eager->committed(r.averaged_fragment, outer, share, r.kept.values, average);
}

void Trainer::correct_local() {
  Replica& r = *replica_;
  std::vector<float> local = r.local;
  r.eager->adopt(r.state.anchor, local);
  ++sim_.transitions["eager step corrected"];
  if (!sim_.misbehave(Bug::kUncorrected)) r.local = local;
}

}  // namespace shoal::sim
