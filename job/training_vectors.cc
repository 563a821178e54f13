// See training_vectors.h.
#include "job/training_vectors.h"

#include <algorithm>

namespace shoal {
namespace {

constexpr double kPieceOfAStep = 0.5;  // trainer/model/inner_optimizer.cc

// What outlives a round beside the anchor.
double outer_vectors(const JobSpec& spec, const SyncOptions& sync) {
  if (sync.algorithm == SyncAlgorithm::kDdp) return 2;
  if (sync.outer_state == OuterState::kReplicated) return 1;
  return 2 / static_cast<double>(std::max<std::int64_t>(2, spec.swarm.min_replicas));
}

// Whether anchor and local parameters stay as they are until the round ends, so that nobody has to
// keep their difference (replica/core/outer_vectors.h).
bool reads_pseudo_gradient(const JobSpec& spec, const SyncOptions& sync) {
  const bool difference = std::holds_alternative<DilocoSync>(spec.sync.method) ||
                          std::holds_alternative<LocalSgdSync>(spec.sync.method) ||
                          std::holds_alternative<NoSync>(spec.sync.method);
  return difference && sync.overlap_steps == Steps(0) && !sync.eager && sync.fragments == 1 &&
         sync.codec != CodecKind::kSparse2 && spec.trainer.kind == TrainerKind::kBuiltin;
}

}  // namespace

ReplicaVectors replica_vectors(const JobSpec& spec) {
  const SyncOptions sync = spec.sync.options();
  const bool ddp = sync.algorithm == SyncAlgorithm::kDdp;
  const double state = 1 + outer_vectors(spec, sync);
  const double eager = sync.eager ? 1 + 1 / static_cast<double>(sync.fragments) : 0;
  ReplicaVectors out;
  out.device = ddp ? 3 : 4;
  out.device_peak = out.device + (ddp ? 1 : kPieceOfAStep);
  out.host = state + eager + (sync.codec == CodecKind::kSparse2 ? 1 : 0);
  out.host_round = out.host + (reads_pseudo_gradient(spec, sync) ? 1 : 2) +
                   (sync.aggregator != Aggregator::kMean ? 1 : 0) + (sync.eager ? 1 : 0);
  if (spec.checkpoint.every_rounds > 0) {
    const double moments = ddp ? 0 : sync.overlap_steps > Steps(0) ? 4 : 2;
    out.host_checkpoint = out.host_round + moments + state;
  }
  const bool moments_travel = spec.train.join == JoinMoments::kMoments && !ddp;
  out.host_source = out.host_round + (moments_travel ? 2 : 0) + state;
  return out;
}

double training_vectors(const JobSpec& spec) {
  const ReplicaVectors vectors = replica_vectors(spec);
  const double pseudo_gradient = reads_pseudo_gradient(spec, spec.sync.options()) ? 1 : 0;
  return vectors.device_peak + vectors.host_round + pseudo_gradient;
}

}  // namespace shoal
