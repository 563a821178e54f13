// How the replicas of a job stay one model: the [sync] table of a job file, flat, every key with
// its default. Most keys belong to some methods only. Where a key does not apply, a spec holds its
// default (effective_sync()), so readers use members without asking whether they apply. What
// differs by method is a switch over `algorithm`, or a predicate of sync_questions.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/fields.h"
#include "base/units.h"
#include "job/job_spec_enums.h"

namespace shoal {

struct OuterSpec {  // docs/convergence.md has the runs that these come from
  double lr = 0.9;
  double momentum = 0.5;
  OuterMethod method = OuterMethod::kNesterov;
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-3;  // Reddi et al. 2021, section 5 and appendix D
  bool operator==(const OuterSpec&) const = default;
};
constexpr auto fields_of(Of<OuterSpec>) {
  using T = OuterSpec;
  return fields<&T::lr, &T::momentum, &T::method, &T::beta1, &T::beta2, &T::eps>();
}

inline constexpr double kAuditUsual = 0.02;

struct SyncSpec {
  SyncAlgorithm algorithm = SyncAlgorithm::kDiloco;
  Steps every{
      50};  // H, inner steps per round; with `none` the distance of checkpoints and evaluations
  // sync.every = "10m": seconds of training per round instead of a number of steps; 0: steps. Then
  // `every` is train.steps (derived): a round has no other bound.
  std::int64_t every_s = 0;
  Balance balance = Balance::kEqual;
  Topology topology = Topology::kButterfly;
  CodecKind codec = CodecKind::kInt8;
  double feedback = 0.95;  // what sparse2 keeps of the residual it did not send, 0: none
  Aggregator aggregator = Aggregator::kMean;
  bool clip = true;  // pseudo-gradients above the median norm are scaled down to it
  // A round averages one of so many fragments (blocks dealt in strides), H / fragments inner steps
  // after the one before.
  std::int64_t fragments = 1;
  // Inner steps that a replica takes between its boundary and adopting the round's result, so that
  // the reduce travels behind training; below H / fragments. 0: everybody waits.
  Steps overlap_steps{0};
  double blend = 0;  // share of the local parameters kept when the result is adopted
  // With overlap_steps: at its boundary a replica continues from its own estimate of the result,
  // the average before with its own news, until the result is there.
  bool eager = false;
  std::int64_t quorum = 0;  // async: reports that are enough for a round; 0: half of the replicas
  OuterState outer_state = OuterState::kReplicated;
  double audit = kAuditUsual;  // share of the frames of an average that is made a second time
  OuterSpec outer;
  bool operator==(const SyncSpec&) const = default;
};
constexpr auto fields_of(Of<SyncSpec>) {
  using T = SyncSpec;
  return fields<&T::algorithm, &T::every, &T::every_s, &T::balance, &T::topology, &T::codec,
                &T::feedback, &T::aggregator, &T::clip, &T::fragments, &T::overlap_steps, &T::blend,
                &T::eager, &T::quorum, &T::outer_state, &T::audit, &T::outer>();
}

struct JobSpec;

// spec.sync with the keys that apply as they are, and the others at their defaults. Of keys that
// contradict each other one applies; validate() (job_rules.h) refuses the other. Idempotent.
SyncSpec effective_sync(const JobSpec& spec);

// Share of the frames of an average that is made a second time; 0 where none can be.
double audit_share(const JobSpec& spec);

// Names of the vectors that the outer step keeps, which checkpoints store. None with ddp, whose
// replicas share the moments of the inner optimizer instead.
std::span<const std::string_view> outer_vectors(const SyncSpec& sync);

}  // namespace shoal
