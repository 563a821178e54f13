// Where the contribution and the average of a round lie, in which form the average is kept, and
// where the outer step is computed: in host memory for every kind of job (HostVectors), or on the
// device that trains (replica/runtime/device_outer_vectors.h) for those that suit it.
//
// One thread at a time; while a reduce runs, the reduce alone. A Status that fails is the device's:
// the replica is given up.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "outer_opt/core/reduce/average_frames.h"
#include "outer_opt/core/reduce/vector_source.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/vector_statistics.h"
#include "replica/core/local_parameters.h"
#include "replica/core/outer_algorithm.h"
#include "replica/core/outer_state.h"

namespace shoal::replica {

class OuterVectors {
 public:
  virtual ~OuterVectors() = default;

  // What the contribution of a boundary is made of. `stands`: until the next one, or the commit,
  // nobody changes `local` or the anchor, so that it can be read from them.
  struct Boundary {
    const OuterAlgorithm& algorithm;
    const LocalParameters& local;
    const OuterState& state;
    const outer_opt::Fragment& fragment;
    bool stands = false;
  };
  // Takes it. Values that are not finite count even outside the part that is sent, because they
  // spread.
  virtual Result<outer_opt::VectorStatistics> take_contribution(const Boundary& boundary) = 0;
  virtual Status step(OuterAlgorithm& algorithm, const outer_opt::StepTerms& terms,
                      const outer_opt::Fragment& fragment, OuterState& state) = 0;
  // local <- blend * local + (1 - blend) * anchor on the fragment.
  virtual Status adopt(const outer_opt::Fragment& fragment, double blend, const OuterState& state,
                       LocalParameters& local) = 0;

  // For an audit: values of contribution (none, where there is none) and average from `first` on,
  // wherever these lie.
  virtual Status read(std::int64_t first, std::span<float> contribution,
                      std::span<float> average) = 0;

  // In host memory; a fragment's values are the first ones. Empty where it is read from the local
  // parameters, and on a device until the host computes a reduce for it.
  virtual std::span<float> contribution() = 0;
  // The first `values` of it, wherever they are; and room for it, as long as the parameters.
  virtual outer_opt::VectorSource contribution_source(std::int64_t values) = 0;
  virtual std::span<float> values_for_contribution() = 0;
  // Whether these values are the ones that were taken. One that is read from memory that fails may
  // be another one than it was in the reduce, and an audit would blame those who averaged it.
  virtual bool contribution_is_intact(const outer_opt::ValueRange& /*range*/) const { return true; }
  // Room for the average of a plan: for a session, as frames where the plan suits (AverageFrames)
  // and `frames` allows it; or for who makes it elsewhere, always as values.
  virtual outer_opt::AverageRoom room_for_average(const ReducePlan& plan, std::int64_t frame_values,
                                                  bool frames) = 0;
  virtual std::span<float> values_for_average(std::int64_t values) = 0;
  // All of what was given last; in frames it is bytes and no values. For digests.
  virtual std::span<float> average_memory() = 0;
  // Hands the values [first, first + count) of the average to `use`, run after run in order.
  using Use = outer_opt::AverageFrames::Use;
  virtual void visit_average(const outer_opt::ValueRange& range, const Use& use) const = 0;
  void read_average(std::int64_t first, std::span<float> out) const;
  // Whether the average of a reduce lies there, so that its digest can be compared with what was
  // voted for.
  virtual bool average_is_here() const = 0;
  // All memory of a round that nobody needs behind its commit.
  virtual void visit_idle(const std::function<void(std::span<float>)>& use) = 0;
  // Makes it lie there, between its step and the next plan.
  virtual Status bring_average(std::int64_t values) = 0;
};

class HostVectors final : public OuterVectors {
 public:
  explicit HostVectors(std::int64_t value_count);

  // Takes no memory for a whole vector that stands, of parameters that are read by parts.
  Result<outer_opt::VectorStatistics> take_contribution(const Boundary& boundary) override;
  Status step(OuterAlgorithm& algorithm, const outer_opt::StepTerms& terms,
              const outer_opt::Fragment& fragment, OuterState& state) override;
  Status adopt(const outer_opt::Fragment& fragment, double blend, const OuterState& state,
               LocalParameters& local) override;
  Status read(std::int64_t first, std::span<float> contribution, std::span<float> average) override;
  std::span<float> contribution() override { return contribution_; }
  outer_opt::VectorSource contribution_source(std::int64_t values) override;
  std::span<float> values_for_contribution() override;
  bool contribution_is_intact(const outer_opt::ValueRange& range) const override;
  outer_opt::AverageRoom room_for_average(const ReducePlan& plan, std::int64_t frame_values,
                                          bool frames) override;
  std::span<float> values_for_average(std::int64_t values) override;
  std::span<float> average_memory() override { return std::span(memory_).first(used_); }
  void visit_idle(const std::function<void(std::span<float>)>& use) override;
  void visit_average(const outer_opt::ValueRange& range, const Use& use) const override;
  bool average_is_here() const override { return true; }
  Status bring_average(std::int64_t) override { return {}; }

 private:
  std::span<float> use_memory(std::size_t floats);
  std::span<const std::byte> frame_bytes() const;
  void read_difference(std::int64_t first, std::span<float> out) const;
  std::span<const float> read_block(std::size_t block, std::vector<float>& room) const;

  std::size_t value_count_;
  std::vector<float> contribution_;  // empty until it is needed
  // Where the contribution is read instead: the difference of both. Null: it is in contribution_.
  const LocalParameters* local_ = nullptr;
  std::span<const float> anchor_;
  std::vector<std::uint64_t> checksums_;  // of its blocks, as it was taken
  // The average: values, or frames, of which the last one is filled up with zeros.
  std::vector<float> memory_;
  std::size_t used_ = 0;
  std::optional<outer_opt::AverageFrames> frames_;
  outer_opt::SpareValues sums_;
};

}  // namespace shoal::replica
