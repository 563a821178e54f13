// See training_vectors.h.
#include "job/training_vectors.h"

#include <algorithm>

#include "job/sync_questions.h"

namespace shoal {
namespace {

constexpr double kPieceOfAStep = 0.5;  // trainer/model/inner_optimizer.cc

// How many vectors outlive a round beside the anchor: what the outer optimizer keeps, with ddp the
// shared moments.
double kept_vectors(const JobSpec& spec) {
  const SyncSpec& sync = spec.sync;
  if (sync.algorithm == SyncAlgorithm::kDdp) return 2;
  const auto kept = static_cast<double>(outer_vectors(spec.sync).size());
  if (sync.outer_state == OuterState::kReplicated) return kept;
  return kept * 2 / static_cast<double>(std::max<std::int64_t>(2, spec.swarm.min_replicas));
}

// Whether anchor and local parameters stay as they are until the round ends, so that nobody has to
// keep their difference (replica/core/outer_vectors.h).
bool reads_pseudo_gradient(const JobSpec& spec) {
  const SyncSpec& sync = spec.sync;
  const bool difference = !sync_questions::is_ddp(spec) && !sync_questions::is_async(spec) &&
                          !sync_questions::in_groups(spec);
  return difference && sync.overlap_steps == Steps(0) && !sync.eager && sync.fragments == 1 &&
         sync.codec != CodecKind::kSparse2 && spec.trainer.kind == TrainerKind::kBuiltin;
}

}  // namespace

ReplicaVectors replica_vectors(const JobSpec& spec) {
  const SyncSpec& sync = spec.sync;
  const bool ddp = sync.algorithm == SyncAlgorithm::kDdp;
  const double state = 1 + kept_vectors(spec);
  const double eager = sync.eager ? 1 + 1 / static_cast<double>(sync.fragments) : 0;
  ReplicaVectors out;
  out.device = ddp ? 3 : 4;
  out.device_peak = out.device + (ddp ? 1 : kPieceOfAStep);
  out.host = state + eager + (sync.codec == CodecKind::kSparse2 ? 1 : 0);
  out.host_round = out.host + (reads_pseudo_gradient(spec) ? 1 : 2) +
                   (sync.aggregator != Aggregator::kMean ? 1 : 0) + (sync.eager ? 1 : 0);
  if (spec.checkpoint.every_rounds > 0) {
    const double moments = ddp ? 0 : sync.overlap_steps > Steps(0) ? 4 : 2;
    out.host_checkpoint = out.host_round + moments + state;
  }
  const bool moments_travel = spec.train.join == JoinMoments::kMoments && !ddp;
  out.host_source = out.host_round + (moments_travel ? 2 : 0) + state;
  return out;
}

std::int64_t shared_vectors(const JobSpec& spec) {
  if (spec.sync.algorithm == SyncAlgorithm::kDdp) return 3;
  return 1 + std::ssize(outer_vectors(spec.sync));
}

std::int64_t state_vectors(const JobSpec& spec) {
  const bool ddp = spec.sync.algorithm == SyncAlgorithm::kDdp;
  return shared_vectors(spec) + (ddp ? 0 : 2);
}

double training_vectors(const JobSpec& spec) {
  const ReplicaVectors vectors = replica_vectors(spec);
  const double pseudo_gradient = reads_pseudo_gradient(spec) ? 1 : 0;
  return vectors.device_peak + vectors.host_round + pseudo_gradient;
}

}  // namespace shoal
