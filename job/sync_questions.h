// Predicates over the keys of [sync], one question each: for the keys that apply (sync_spec.cc),
// for the reasons of a refusal (sync_rules.cc), and for code that differs by method.
#pragma once

#include <algorithm>
#include <string_view>

#include "job/job_spec.h"

namespace shoal::sync_questions {

inline bool is_none(const JobSpec& o) { return o.sync.algorithm == SyncAlgorithm::kNone; }
inline bool is_ddp(const JobSpec& o) { return o.sync.algorithm == SyncAlgorithm::kDdp; }
inline bool is_async(const JobSpec& o) { return o.sync.algorithm == SyncAlgorithm::kAsync; }
inline bool is_diloco(const JobSpec& o) { return o.sync.algorithm == SyncAlgorithm::kDiloco; }
inline bool in_groups(const JobSpec& o) {
  return o.sync.topology == Topology::kMoshpit || o.sync.topology == Topology::kGossip;
}
inline bool in_pipeline(const JobSpec& o) { return o.swarm.stages != 1; }
inline bool is_sparse(const JobSpec& o) { return o.sync.codec == CodecKind::kSparse2; }
inline bool is_ring(const JobSpec& o) { return o.sync.topology == Topology::kRing; }
inline bool is_gathered(const JobSpec& o) { return o.sync.topology == Topology::kAllgather; }
inline bool is_sharded(const JobSpec& o) { return o.sync.outer_state == OuterState::kSharded; }
inline bool is_robust(const JobSpec& o) { return o.sync.aggregator != Aggregator::kMean; }
inline bool waits(const JobSpec& o) { return o.sync.overlap_steps == Steps(0); }
inline bool is_eager(const JobSpec& o) { return o.sync.eager; }
inline bool has_fragments(const JobSpec& o) { return o.sync.fragments > 1; }
inline bool is_nesterov(const JobSpec& o) { return o.sync.outer.method == OuterMethod::kNesterov; }
inline bool is_not_nesterov(const JobSpec& o) { return !is_nesterov(o); }
// Whether the method reads this key of [sync.outer].
inline bool reads_outer(const OuterSpec& outer, std::string_view key) {
  return std::ranges::count(traits_of(outer.method).options, key) > 0;
}
inline bool has_no_momentum(const JobSpec& o) { return o.sync.outer.momentum == 0; }
inline bool is_uneven(const JobSpec& o) {
  return o.sync.balance == Balance::kSpeed || o.sync.every_s != 0;
}
inline bool has_part_owners(const JobSpec& o) {
  return o.sync.topology == Topology::kButterfly || o.sync.topology == Topology::kAuto;
}
inline bool has_no_part_owners(const JobSpec& o) { return !has_part_owners(o); }
// Nobody else can make the average of a part: everybody makes all of it, a sum goes round, the
// state that it needs is elsewhere, or each group has its own.
inline bool makes_no_audits(const JobSpec& o) {
  const bool in_rounds = is_diloco(o) || o.sync.algorithm == SyncAlgorithm::kLocalSgd;
  return !in_rounds || in_groups(o) || is_sparse(o) || is_ring(o) || is_sharded(o);
}
inline bool is_only_averaged(const JobSpec& o) {
  return o.sync.algorithm == SyncAlgorithm::kLocalSgd;
}
inline bool is_not_diloco(const JobSpec& o) { return !is_diloco(o); }
inline bool is_not_async(const JobSpec& o) { return !is_async(o); }
inline bool averages_no_pseudo_gradients(const JobSpec& o) { return is_none(o) || is_ddp(o); }

}  // namespace shoal::sync_questions
