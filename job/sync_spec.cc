// Which keys of [sync] apply. A key that does not apply is not copied, so it has its default; if
// that contradicts the job file, sync_rules.cc refuses the job.
#include "job/sync_spec.h"

#include "job/sync_questions.h"

namespace shoal {
namespace {

using namespace sync_questions;

constexpr OuterSpec kOnlyAverages{1, 0};

// Where another optimizer is not possible.
OuterSpec nesterov_of(const OuterSpec& outer) {
  return {.lr = outer.lr, .momentum = outer.momentum};
}

// Each keep_*() copies the keys that apply from o.sync to `kept`.

void keep_dense(const JobSpec& o, SyncSpec& kept) {
  const bool served = o.sync.topology == Topology::kParamServer && !is_async(o);
  if (has_part_owners(o) || is_ring(o) || served) kept.topology = o.sync.topology;
  if (!is_sparse(o)) kept.codec = o.sync.codec;
  if (!is_ring(o)) kept.aggregator = o.sync.aggregator;
}

void keep_reduce(const JobSpec& o, SyncSpec& kept) {
  if (!is_sparse(o)) return keep_dense(o, kept);
  kept.topology = Topology::kAllgather;
  kept.codec = CodecKind::kSparse2;
  kept.feedback = o.sync.feedback;
}

void keep_period(const JobSpec& o, SyncSpec& kept) {
  const bool by_time = o.sync.every_s != 0 && !in_pipeline(o);
  kept.every = by_time ? o.train.steps : o.sync.every;
  if (by_time) kept.every_s = o.sync.every_s;
  if (!by_time && !in_pipeline(o)) kept.balance = o.sync.balance;
}

void keep_overlap(const JobSpec& o, SyncSpec& kept) {
  if (waits(o)) return;
  kept.overlap_steps = o.sync.overlap_steps;
  kept.eager = is_eager(o) && !is_robust(o) && !is_sharded(o);
  if (!kept.eager) kept.blend = o.sync.blend;
}

void keep_rounds(const JobSpec& o, SyncSpec& kept) {
  const bool streams = o.sync.fragments != 1 || !waits(o);
  if (!streams || in_pipeline(o) || is_uneven(o) || is_sparse(o)) {
    keep_period(o, kept);
    return keep_reduce(o, kept);
  }
  kept.every = o.sync.every;
  kept.fragments = o.sync.fragments;
  keep_overlap(o, kept);
  keep_dense(o, kept);
}

void keep_diloco(const JobSpec& o, SyncSpec& kept) {
  keep_rounds(o, kept);
  kept.outer = o.sync.outer;
  const bool shards = is_nesterov(o) && !has_no_momentum(o) && has_part_owners(o) &&
                      !is_sparse(o) && !has_fragments(o);
  if (shards) kept.outer_state = o.sync.outer_state;
}

void keep_groups(const JobSpec& o, SyncSpec& kept) {
  kept.algorithm = is_only_averaged(o) ? SyncAlgorithm::kLocalSgd : SyncAlgorithm::kDiloco;
  kept.topology = o.sync.topology;
  kept.codec = CodecKind::kFp32;
  kept.every = o.sync.every;
  kept.outer = is_only_averaged(o) ? kOnlyAverages : nesterov_of(o.sync.outer);
}

void keep_by_algorithm(const JobSpec& o, SyncSpec& kept) {
  switch (o.sync.algorithm) {
    case SyncAlgorithm::kNone:
      return keep_period(o, kept);
    case SyncAlgorithm::kDiloco:
      return keep_diloco(o, kept);
    case SyncAlgorithm::kLocalSgd:
      kept.outer = kOnlyAverages;
      return keep_rounds(o, kept);
    case SyncAlgorithm::kDdp:
      kept.every = Steps(1);
      kept.outer = kOnlyAverages;
      return keep_reduce(o, kept);
    case SyncAlgorithm::kAsync:
      kept.every = o.sync.every;
      kept.quorum = o.sync.quorum;
      kept.outer = nesterov_of(o.sync.outer);
      return keep_dense(o, kept);
  }
}

}  // namespace

SyncSpec effective_sync(const JobSpec& spec) {
  SyncSpec kept;
  kept.algorithm = spec.sync.algorithm;
  if (in_groups(spec)) {
    keep_groups(spec, kept);
  } else {
    keep_by_algorithm(spec, kept);
  }
  if (!is_none(spec) || in_groups(spec)) kept.clip = spec.sync.clip;
  if (!makes_no_audits(spec)) kept.audit = spec.sync.audit;
  return kept;
}

std::span<const std::string_view> outer_vectors(const SyncSpec& sync) {
  if (sync.algorithm == SyncAlgorithm::kDdp) return {};
  return traits_of(sync.outer.method).vectors;
}

double audit_share(const JobSpec& spec) { return makes_no_audits(spec) ? 0 : spec.sync.audit; }

}  // namespace shoal
