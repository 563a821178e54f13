// How the replicas of a job stay one model. People write the flat table SyncOptions, every key
// beside every other; a SyncSpec is one of six methods, each with the fields that it has, so that
// what cannot be combined cannot be held. parse_sync() goes from the table to the
// method, options() back. Code that treats the methods differently visits `method`; code that needs
// one number asks for it by name, and gets what a job file without that key means where the method
// has no such field.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/fields.h"
#include "base/units.h"
#include "job/job_spec_enums.h"

namespace shoal {

struct OuterSpec {  // docs/convergence.md has the runs that these come from
  double lr = 0.9;
  double momentum = 0.5;
  bool operator==(const OuterSpec&) const = default;
};
constexpr auto fields_of(Of<OuterSpec>) {
  using T = OuterSpec;
  return fields(field<&T::lr>("lr"), field<&T::momentum>("momentum"));
}
static_assert(lists_every_field<OuterSpec>());

inline constexpr double kAuditUsual = 0.02;

// The [sync] table of a job file.
struct SyncOptions {
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
  bool operator==(const SyncOptions&) const = default;
};
constexpr auto fields_of(Of<SyncOptions>) {
  using T = SyncOptions;
  return fields(
      field<&T::algorithm>("algorithm"), field<&T::every>("every"), field<&T::every_s>("every_s"),
      field<&T::balance>("balance"), field<&T::topology>("topology"), field<&T::codec>("codec"),
      field<&T::feedback>("feedback"), field<&T::aggregator>("aggregator"), field<&T::clip>("clip"),
      field<&T::fragments>("fragments"), field<&T::overlap_steps>("overlap_steps"),
      field<&T::blend>("blend"), field<&T::eager>("eager"), field<&T::quorum>("quorum"),
      field<&T::outer_state>("outer_state"), field<&T::audit>("audit"), field<&T::outer>("outer"));
}
static_assert(lists_every_field<SyncOptions>());

// How the pseudo-gradients of a round become one.

struct DenseReduce {                         // every value travels
  Topology topology = Topology::kButterfly;  // butterfly, ring, param_server or auto
  CodecKind codec = CodecKind::kInt8;        // any but sparse2
  Aggregator aggregator = Aggregator::kMean;
  bool operator==(const DenseReduce&) const = default;
};

struct SparseReduce {      // the largest values travel: sparse2, gathered from all
  double feedback = 0.95;  // what a replica keeps of the residual it did not send, 0: none
  bool operator==(const SparseReduce&) const = default;
};

struct Reduce {
  std::variant<DenseReduce, SparseReduce> values;
  bool clip = true;  // pseudo-gradients above the median norm are scaled down to it
  bool operator==(const Reduce&) const = default;
};

// When a round ends.

struct BySteps {
  Steps every{50};
  Balance balance = Balance::kEqual;
  bool operator==(const BySteps&) const = default;
};

struct ByTime {
  std::int64_t seconds = 0;
  Steps at_most;  // train.steps: a round has no other bound in steps
  bool operator==(const ByTime&) const = default;
};

using Period = std::variant<BySteps, ByTime>;

// The rounds of pseudo-gradients: everybody waits for the result, or it streams behind training.

struct PlainRounds {
  Period period;
  Reduce reduce;
  bool operator==(const PlainRounds&) const = default;
};

// What a replica does with the steps that it took between its boundary and the result.
struct Blend {
  double kept = 0;  // share of the local parameters
  bool operator==(const Blend&) const = default;
};
struct Eager {  // keeps them all, on its own estimate of the result
  bool operator==(const Eager&) const = default;
};

struct Overlap {
  Steps steps{1};  // from its boundary to adopting the result, below every / fragments
  std::variant<Blend, Eager> adoption;
  bool operator==(const Overlap&) const = default;
};

struct StreamedRounds {
  Steps every{50};
  std::int64_t fragments =
      1;  // a round averages one of them, every / fragments steps after another
  std::optional<Overlap> overlap;  // none: everybody waits for the fragment
  DenseReduce reduce;
  bool clip = true;
  bool operator==(const StreamedRounds&) const = default;
};

using Rounds = std::variant<PlainRounds, StreamedRounds>;

// The methods.

struct DilocoSync {
  Rounds rounds;
  OuterSpec outer;
  OuterState outer_state = OuterState::kReplicated;
  double audit = kAuditUsual;  // not where the outer state is sharded
  bool operator==(const DilocoSync&) const = default;
};

struct LocalSgdSync {
  Rounds rounds;
  double audit = kAuditUsual;
  bool operator==(const LocalSgdSync&) const = default;
};

struct DdpSync {
  Reduce reduce;  // of the gradients of every inner step
  bool operator==(const DdpSync&) const = default;
};

struct AsyncSync {
  Steps every{50};
  std::int64_t quorum = 0;  // reports that are enough for a round; 0: half of the replicas
  DenseReduce reduce;       // not by parameter servers
  bool clip = true;
  OuterSpec outer;
  bool operator==(const AsyncSync&) const = default;
};

struct GroupsSync {
  Topology topology = Topology::kMoshpit;  // moshpit or gossip
  Steps every{50};
  bool clip = true;
  std::optional<OuterSpec> outer;  // none: local_sgd, members only average
  bool operator==(const GroupsSync&) const = default;
};

struct NoSync {   // one agent alone
  Period period;  // from one checkpoint or evaluation to the next
  bool operator==(const NoSync&) const = default;
};

struct SyncSpec {
  std::variant<DilocoSync, LocalSgdSync, DdpSync, AsyncSync, GroupsSync, NoSync> method;

  SyncOptions options() const;

  SyncAlgorithm algorithm() const { return options().algorithm; }
  Steps every() const { return options().every; }             // by time: train.steps
  std::int64_t every_s() const { return options().every_s; }  // 0: by steps
  Balance balance() const { return options().balance; }
  Topology topology() const { return options().topology; }
  CodecKind codec() const { return options().codec; }
  double feedback() const { return options().feedback; }
  Aggregator aggregator() const { return options().aggregator; }
  bool clip() const { return options().clip; }
  std::int64_t fragments() const { return options().fragments; }
  Steps overlap_steps() const { return options().overlap_steps; }
  double blend() const { return options().blend; }
  bool eager() const { return options().eager; }
  std::int64_t quorum() const { return options().quorum; }
  OuterState outer_state() const { return options().outer_state; }
  // Share of the frames of an average that is made a second time; 0 where none can be.
  double audit() const;
  OuterSpec outer() const { return options().outer; }

  bool operator==(const SyncSpec&) const = default;
};

struct JobOptions;

// What the [sync] table of these options means. If keys contradict each other, one wins and the
// other is left out: validate() (job_options.h) refuses it.
SyncSpec parse_sync(const JobOptions& options);

}  // namespace shoal
