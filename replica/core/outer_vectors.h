// Where the contribution and the average of a round lie, and where the outer step is computed: in
// host memory for every kind of job (HostVectors), or on the device that trains
// (replica/runtime/device_outer_vectors.h) for those that suit it.
//
// One thread at a time; while a reduce runs, the reduce alone. A Status that fails is the device's:
// the replica is given up.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/vector_statistics.h"
#include "replica/core/local_parameters.h"
#include "replica/core/outer_algorithm.h"
#include "replica/core/outer_state.h"

namespace shoal::replica {

class OuterVectors {
 public:
  virtual ~OuterVectors() = default;

  // Takes the contribution at a boundary. Values that are not finite count even outside
  // the part that is sent, because they spread.
  virtual Result<outer_opt::VectorStatistics> take_contribution(
      const OuterAlgorithm& algorithm, const LocalParameters& local, const OuterState& state,
      const outer_opt::Fragment& fragment) = 0;
  virtual Status step(OuterAlgorithm& algorithm, const CommitRound& commit,
                      const outer_opt::Fragment& fragment, OuterState& state) = 0;
  // local <- blend * local + (1 - blend) * anchor on the fragment.
  virtual Status adopt(const outer_opt::Fragment& fragment, double blend, const OuterState& state,
                       LocalParameters& local) = 0;

  // For an audit: values of contribution and average from `first` on, wherever these lie.
  virtual Status read(std::int64_t first, std::span<float> contribution,
                      std::span<float> average) = 0;

  // In host memory; a fragment's values are the first ones. On a device these are empty until the
  // host computes a reduce for it.
  virtual std::span<float> contribution() = 0;
  virtual std::span<float> average() = 0;
  // Whether the average of a reduce lies there, so that its digest can be compared with what was
  // voted for.
  virtual bool average_is_here() const = 0;
  // Makes it lie there, between its step and the next plan.
  virtual Status bring_average(std::int64_t values) = 0;
};

class HostVectors final : public OuterVectors {
 public:
  explicit HostVectors(std::int64_t value_count);

  Result<outer_opt::VectorStatistics> take_contribution(
      const OuterAlgorithm& algorithm, const LocalParameters& local, const OuterState& state,
      const outer_opt::Fragment& fragment) override;
  Status step(OuterAlgorithm& algorithm, const CommitRound& commit,
              const outer_opt::Fragment& fragment, OuterState& state) override;
  Status adopt(const outer_opt::Fragment& fragment, double blend, const OuterState& state,
               LocalParameters& local) override;
  Status read(std::int64_t first, std::span<float> contribution, std::span<float> average) override;
  std::span<float> contribution() override { return contribution_; }
  std::span<float> average() override { return average_; }
  bool average_is_here() const override { return true; }
  Status bring_average(std::int64_t) override { return {}; }

 private:
  // Between two reduces the average's room takes the local parameters. So does the contribution's
  // in adopt(): what it held counts in the average that is adopted, and the next boundary comes
  // later. Memory that is there already costs no page faults.
  std::vector<float> contribution_, average_;
};

}  // namespace shoal::replica
