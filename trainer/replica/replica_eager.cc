// Eager updates (outer_opt/core/step/eager.h) at a replica: when each of their steps is due.
// Without sync.eager all of this does nothing.
#include "trainer/replica/replica.h"

namespace shoal::trainer {
namespace {

template <typename Change>
void change_local(StageModel& model, const Change& change) {
  std::vector<float> local(static_cast<std::size_t>(model.value_count()));
  model.read_parameters(local);
  change(std::span(local));
  model.write_parameters(local);
}

}  // namespace

std::span<const float> Replica::own_contribution() const {
  const std::int64_t values = outer_opt::value_count(values_of(own_fragment_));
  return std::span(pseudo_gradient_).first(static_cast<std::size_t>(values));
}

// At a boundary, the pseudo-gradient is taken.
void Replica::begin_eagerly() {
  if (!eager_) return;
  change_local(*model_, [this](std::span<float> local) {
    eager_->begin(own_fragment_, own_contribution(), outer_->momentum, outer_->anchor, local);
  });
}

// More is to be trained for the same round.
void Replica::take_back_eagerly() {
  if (!eager_ || eager_->state() != outer_opt::EagerState::kAhead) return;
  change_local(*model_, [this](std::span<float> local) {
    eager_->take_back(own_contribution(), outer_->anchor, local);
  });
}

// The outer step was taken with the average of the newest plan.
void Replica::learn_average(double outer_lr) {
  if (!eager_) return;
  if (!contributed_) return eager_->dropped(averaged_fragment_);
  const auto own = own_contribution();
  eager_->committed(averaged_fragment_, {outer_lr, spec_.sync.outer.momentum}, share_, own,
                    std::span(average_).first(own.size()));
}

void Replica::correct_local() {
  change_local(*model_, [this](std::span<float> local) { eager_->adopt(outer_->anchor, local); });
}

}  // namespace shoal::trainer
