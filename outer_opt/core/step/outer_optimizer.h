// The outer optimizer: the rule by which the average of a round moves the anchor
// (sync.outer.method). It names its state vectors and maps (terms, average, vectors) to new
// vectors. Replicas, joiners, checkpoints, devices and eager steps know no more of it. Each rule is
// a row of kOuterTraits (job/job_spec_enums.h) and a class of its own in this folder.
//
// A rule works value by value, in fp32 with one rounding per operation and no contraction: the same
// bits on every replica, and for a joiner that steps run by run. docs/changing.md has the places of
// another rule.
//
// Pure; thread-safe as far as const.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/named_vectors.h"
#include "job/job_spec.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::outer_opt {

// What an outer step goes by beside the average: of CommitRound, and for ddp the norm of the whole
// average, of which a joiner sees runs only.
struct StepTerms {
  RoundNumber round = 0;  // that the step ended
  std::int32_t fragment = 0;
  double outer_lr = 0;
  double share = 1, decay = 1, push = 0;
  double norm = 0;
  bool operator==(const StepTerms&) const = default;
};

// The same run of each state vector, in the order of OuterOptimizer::vectors().
using StateRuns = std::span<const std::span<float>>;

inline constexpr std::size_t kStateVectorsMax = 4;

class RunsOf {
 public:
  RunsOf(NamedVectors& vectors, const ValueRange& run) {
    SHOAL_CHECK(vectors.size() <= kStateVectorsMax);
    for (NamedVector& vector : vectors) {
      runs_[count_++] =
          std::span(vector.values)
              .subspan(static_cast<std::size_t>(run.first), static_cast<std::size_t>(run.count));
    }
  }
  operator StateRuns() const { return std::span(runs_).first(count_); }

 private:
  std::array<std::span<float>, kStateVectorsMax> runs_;
  std::size_t count_ = 0;
};

// The rules that devices have a kernel for (outer_opt/cuda/kernels.cuh).
enum class OuterKernel { kNone, kNesterov };

class OuterOptimizer {
 public:
  explicit OuterOptimizer(const OuterSpec& spec) : spec_(spec) {}
  virtual ~OuterOptimizer() = default;

  const OuterSpec& spec() const { return spec_; }  // its lr is what the terms say instead
  std::span<const std::string_view> vectors() const { return traits_of(spec_.method).vectors; }

  // The step of a run. All spans are equally long and do not overlap; a state begins with zeros.
  virtual void step(const StepTerms& terms, std::span<const float> average, StateRuns state,
                    std::span<float> anchor) const = 0;

  // With kNone the host takes the steps.
  virtual OuterKernel kernel() const { return OuterKernel::kNone; }

 private:
  OuterSpec spec_;
};

// `fragments`: sync.fragments. A round steps one of them, so each has had
// (round - 1) / fragments + 1 steps when it was stepped in `round`.
std::unique_ptr<OuterOptimizer> make_outer_optimizer(const OuterSpec& spec, std::int64_t fragments);

}  // namespace shoal::outer_opt
