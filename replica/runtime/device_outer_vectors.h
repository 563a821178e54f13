// The outer step on the device that trains (outer_opt::DeviceVectors), as the outer loop sees it.
// Only for jobs that suit: there the algorithm's step is that of an optimizer with a kernel, and
// what replica/core would compute on the host is one pass over the device's memory, with the same
// bits. The host gets contribution and average where a plan needs them there, and the state after
// each step.
#pragma once

#include <memory>
#include <vector>

#include "outer_opt/cuda/device_vectors.h"
#include "replica/core/outer_vectors.h"
#include "replica/runtime/compute.h"

namespace shoal::replica {

class DeviceOuterVectors final : public OuterVectors {
 public:
  // `vectors` are loaded; `compute` outlives this.
  DeviceOuterVectors(std::shared_ptr<outer_opt::DeviceVectors> vectors, Compute& compute)
      : vectors_(std::move(vectors)), compute_(compute) {}

  Result<outer_opt::VectorStatistics> take_contribution(const Boundary& boundary) override;
  Status step(OuterAlgorithm& algorithm, const outer_opt::StepTerms& terms,
              const outer_opt::Fragment& fragment, OuterState& state) override;
  Status adopt(const outer_opt::Fragment& fragment, double blend, const OuterState& state,
               LocalParameters& local) override;
  Status read(std::int64_t first, std::span<float> contribution,
              std::span<float> average) override {
    return vectors_->read(first, contribution, average);
  }
  std::span<float> contribution() override { return contribution_; }
  outer_opt::VectorSource contribution_source(std::int64_t values) override {
    return std::span<const float>(contribution_).first(static_cast<std::size_t>(values));
  }
  std::span<float> values_for_contribution() override {
    contribution_.resize(static_cast<std::size_t>(compute_.value_count()));
    return contribution_;
  }
  outer_opt::AverageRoom room_for_average(const ReducePlan& plan, std::int64_t, bool) override {
    return values_for_average(plan.value_count);
  }
  std::span<float> values_for_average(std::int64_t values) override {
    average_.resize(static_cast<std::size_t>(values));
    return average_;
  }
  std::span<float> average_memory() override { return average_; }
  void visit_idle(const std::function<void(std::span<float>)>& use) override {
    use(contribution_);
    use(average_);
  }
  void visit_average(const outer_opt::ValueRange& range, const Use& use) const override {
    use(range.first, std::span(average_).subspan(static_cast<std::size_t>(range.first),
                                                 static_cast<std::size_t>(range.count)));
  }
  bool average_is_here() const override { return false; }
  Status bring_average(std::int64_t values) override;

  Result<std::unique_ptr<outer_opt::ReduceSession>> make_session(const ReducePlan& plan,
                                                                 ReplicaId self, bool contributes) {
    return vectors_->make_session(plan, self, contributes);
  }
  // For a plan that the host computes: contribution() and average() are there afterwards; and the
  // average goes to the device.
  Status bring_contribution(std::int64_t values);
  Status take_average() { return vectors_->write_average(average_); }

 private:
  std::shared_ptr<outer_opt::DeviceVectors> vectors_;
  Compute& compute_;
  std::vector<float> contribution_, average_;
};

}  // namespace shoal::replica
