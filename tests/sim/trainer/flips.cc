// Bits that flip at a simulated trainer, in its memory and in what it gives away.
#include <utility>

#include "tests/sim/bits.h"
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

// Memory asks nobody: neither the loop nor its state offers this.
void Trainer::flip_memory() {
  Replica& r = *replica_;
  auto& state = const_cast<replica::OuterState&>(r.loop->state());
  std::vector<std::span<float>> targets{state.anchor};
  for (NamedVector& vector : state.vectors) targets.push_back(vector.values);
  if (r.has_average) targets.push_back(r.loop->vectors().average_memory());
  sim_.taint(r.id);
  flip_bit(targets[prng_.below(targets.size())], prng_.next());
}

void Trainer::maybe_flip(std::vector<float>& values, ReplicaId joiner) {
  if (!sim_.faults_on || !std::exchange(flip_transfer_, false)) return;
  sim_.strike(Fault::kFlippedTransfer, device_name());
  sim_.observe(&Checker::gave_falsely, GaveFalsely{replica_->id});
  sim_.taint(joiner);  // until somebody compares its digests
  flip_bit(values, prng_.next());
}

}  // namespace shoal::sim
