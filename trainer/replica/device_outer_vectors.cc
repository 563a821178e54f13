// See device_outer_vectors.h.
#include "trainer/replica/device_outer_vectors.h"

namespace shoal::trainer {

Result<outer_opt::VectorStatistics> DeviceOuterVectors::take_contribution(
    const replica::OuterAlgorithm&, const replica::LocalParameters&, const replica::OuterState&,
    const outer_opt::Fragment& fragment) {
  return vectors_->take_pseudo_gradient(model_.parameters_in_place(), fragment);
}

Status DeviceOuterVectors::step(replica::OuterAlgorithm&, const CommitRound& commit,
                                const outer_opt::Fragment& fragment, replica::OuterState& state) {
  return vectors_->step({commit.outer_lr, momentum_}, fragment, state.momentum, state.anchor);
}

Status DeviceOuterVectors::adopt(const outer_opt::Fragment& fragment, double blend,
                                 const replica::OuterState&, replica::LocalParameters&) {
  const Status adopted = vectors_->adopt(fragment, blend, model_.parameters_in_place());
  model_.parameters_written();
  return adopted;
}

Status DeviceOuterVectors::bring_contribution(std::int64_t values) {
  contribution_.resize(static_cast<std::size_t>(values));
  average_.resize(contribution_.size());
  return vectors_->read_pseudo_gradient(contribution_);
}

}  // namespace shoal::trainer
