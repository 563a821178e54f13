// See device_outer_vectors.h.
#include "replica/runtime/device_outer_vectors.h"

#include "base/check.h"

namespace shoal::replica {

Result<outer_opt::VectorStatistics> DeviceOuterVectors::take_contribution(
    const Boundary& boundary) {
  return vectors_->take_pseudo_gradient(compute_.parameters_in_place(), boundary.fragment);
}

Status DeviceOuterVectors::step(OuterAlgorithm& algorithm, const outer_opt::StepTerms& terms,
                                const outer_opt::Fragment& fragment, OuterState& state) {
  const outer_opt::OuterOptimizer* optimizer = algorithm.optimizer();
  SHOAL_CHECK(optimizer != nullptr, "a device takes the steps of optimizers only");
  return vectors_->step(*optimizer, terms, fragment, state.vectors, state.anchor);
}

Status DeviceOuterVectors::adopt(const outer_opt::Fragment& fragment, double blend,
                                 const OuterState&, LocalParameters&) {
  const Status adopted = vectors_->adopt(fragment, blend, compute_.parameters_in_place());
  compute_.parameters_written();
  return adopted;
}

Status DeviceOuterVectors::bring_average(std::int64_t values) {
  average_.resize(static_cast<std::size_t>(values));
  return vectors_->read_average(average_);
}

Status DeviceOuterVectors::bring_contribution(std::int64_t values) {
  contribution_.resize(static_cast<std::size_t>(values));
  average_.resize(contribution_.size());
  return vectors_->read_pseudo_gradient(contribution_);
}

}  // namespace shoal::replica
