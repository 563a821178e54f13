// Bits that flip at a simulated trainer, in its memory and in what it gives away.
#include <utility>

#include "tests/sim/bits.h"
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

void Trainer::flip_memory() {
  Replica& r = *replica_;
  std::vector<std::vector<float>*> targets{&r.state.anchor};
  if (!r.state.momentum.empty()) targets.push_back(&r.state.momentum);
  if (!r.averages.empty()) targets.push_back(&r.averages.rbegin()->second.values);
  sim_.taint(r.id);
  flip_bit(*targets[prng_.below(targets.size())], prng_.next());
}

void Trainer::maybe_flip(State& state, ReplicaId joiner) {
  if (!sim_.faults_on || !std::exchange(flip_transfer_, false)) return;
  sim_.strike(Fault::kFlippedTransfer, device_name());
  sim_.taint(joiner);  // until somebody compares its digests
  const bool momentum = !state.momentum.empty() && prng_.chance(0.5);
  flip_bit(momentum ? state.momentum : state.anchor, prng_.next());
}

}  // namespace shoal::sim
