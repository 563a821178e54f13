// Fragments of a stage's vector (Streaming DiLoCo, Douillard et al. 2025, sections 2.2 and 2.3):
// with sync.fragments = P a round is sync.every / P inner steps and averages one fragment, so that
// each is averaged every sync.every steps, and a line carries a P-th at a time.
//
// Which one follows from the round's number alone: round r averages fragment (r - 1) mod P + 1. The
// round that reaches train.steps averages everything (fragment 0), so that a job ends with one
// model. Without fragments every round does.
//
// Blocks are dealt in strides, because neighbors change together: the i-th block of a stage
// belongs to fragment i mod P + 1. The embedding goes with the first fragment, the last norm and
// the head with the last. A stage of fewer blocks than P deals its values in P equal runs.
//
// Pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "job/job_spec.h"

namespace shoal::outer_opt {

struct ValueRange {  // [first, first + count)
  std::int64_t first = 0, count = 0;
  bool operator==(const ValueRange&) const = default;
};
using Fragment = std::vector<ValueRange>;  // in order, disjoint, none empty

struct StageSizes {  // in values, in the order of the stage's vector; 0 or none: not of this stage
  std::int64_t embedding = 0;
  std::vector<std::int64_t> blocks;
  std::int64_t head = 0;
};

Steps round_length(const SyncSpec& sync);  // inner steps from one round to the next
std::int32_t fragment_of(const JobSpec& spec, RoundNumber round, Steps to_step);
// Inner steps that a replica continues after the boundary at `to_step` before it adopts the result:
// sync.overlap_steps, and never beyond train.steps.
Steps overlap_at(const JobSpec& spec, Steps to_step);

// Fragment 1, 2, …, P of a stage; together they are its vector. One fragment: [the whole].
std::vector<Fragment> cut_fragments(const StageSizes& sizes, std::int64_t fragments);
std::int64_t value_count(const Fragment& fragment);
// What of the fragment lies in the run, counted from the run's first value.
Fragment part_in(const ValueRange& run, const Fragment& fragment);

// What is in the fragment, packed: to.size() == value_count(fragment).
void gather(const Fragment& fragment, std::span<const float> from, std::span<float> to);
// local <- blend * local + (1 - blend) * anchor on the fragment; a blend of 0 copies the anchor.
// Both are whole vectors.
void adopt(const Fragment& fragment, double blend, std::span<const float> anchor,
           std::span<float> local);

}  // namespace shoal::outer_opt
