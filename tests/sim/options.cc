// Drawing a run from its seed: see options.h.
#include "tests/sim/options.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "job/job_rules.h"
#include "outer_opt/core/codec/codec.h"

namespace shoal::sim {
namespace {

Duration between(Prng& prng, Duration lo, Duration hi) { return {prng.range(lo.ns, hi.ns)}; }

// Simulated trainers of one stage say nothing between their steps: that tells nothing here.
constexpr Duration kTrainersAreSilent = seconds(1'000'000);

void draw_coordinator(SimOptions& o, Prng& prng) {
  coordinator::Options& c = o.coordinator;
  c.heartbeat_every = between(prng, seconds(1), seconds(3));
  // Shorter leases than the tail of the delays are allowed: then healthy agents are sometimes lost.
  c.lease = c.heartbeat_every * 2 + between(prng, seconds(1), seconds(15));
  c.reconnect_grace = between(prng, seconds(1), seconds(10));
  c.boot_grace = c.reconnect_grace + between(prng, seconds(10), seconds(40));
  c.gather_window = between(prng, seconds(0), seconds(4));
  c.load_limit = between(prng, seconds(30), seconds(90));
  c.straggler_min = between(prng, seconds(3), seconds(20));
  c.straggler_factor = prng.unit();
  c.close_limit = between(prng, seconds(5), seconds(20));
  c.reduce_limit_min = between(prng, seconds(5), seconds(20));
  c.failure_grace = between(prng, milliseconds(200), milliseconds(2500));
  c.attempts_max = static_cast<std::int32_t>(prng.range(2, 6));
  c.apply_limit = between(prng, seconds(10), seconds(60));
  c.checkpoint_limit = between(prng, seconds(20), seconds(90));
  c.replica_backoff = between(prng, milliseconds(200), seconds(3));
  c.replica_backoff_max = c.replica_backoff * 8;  // longer ones outlast a run
  c.failures_in_row_max = static_cast<std::int32_t>(prng.range(12, 80));
  c.first_step_limit = kTrainersAreSilent;
  SHOAL_CHECK(coordinator::validate(c).empty(), "drawn options must be valid");
}

void draw_agent(SimOptions& o, Prng& prng) {
  agent::Options& a = o.agent;
  a.reconnect_first = between(prng, milliseconds(100), seconds(1));
  a.reconnect_cap = between(prng, seconds(2), seconds(10));
  a.link_limit = between(prng, seconds(8), seconds(20));
  a.restart_first = between(prng, milliseconds(100), seconds(1));
  a.restart_cap = between(prng, seconds(2), seconds(10));
  a.attach_limit = between(prng, seconds(20), seconds(60));
  a.assign_limit = between(prng, seconds(20), seconds(60));
  a.transfer_limit = between(prng, seconds(20), seconds(60));
  a.load_limit = between(prng, seconds(20), seconds(60));
  a.drain_limit = between(prng, seconds(2), seconds(10));
  a.upload_first = between(prng, milliseconds(200), seconds(1));
  a.upload_cap = between(prng, seconds(2), seconds(6));
}

void draw_faults(SimOptions& o, Prng& prng) {
  const double intensity = (0.4 + 1.6 * prng.unit()) * (prng.chance(0.2) ? 4 : 1);  // some storms
  const auto draw = [&](Fault fault, double exists, Duration mean) {
    // Drawn in any case, so that the runs of two versions stay alike when one kind is added at the
    // end.
    const double factor = (0.5 + prng.unit()) / intensity;
    if (prng.chance(exists)) o.set_mean(fault, seconds_f(mean.seconds() * factor));
  };
  draw(Fault::kStreamLoss, 0.7, seconds(30));
  draw(Fault::kAgentCrash, 0.5, seconds(60));
  draw(Fault::kAgentDiskLost, 0.4, seconds(120));
  draw(Fault::kTrainerCrash, 0.7, seconds(40));
  draw(Fault::kCoordinatorCrash, 0.4, seconds(80));
  draw(Fault::kCrashBetweenEffects, 0.4, seconds(80));
  draw(Fault::kAgentPause, 0.4, seconds(60));
  draw(Fault::kTrainerPause, 0.4, seconds(60));
  draw(Fault::kPartitionCoordinator, 0.4, seconds(60));
  draw(Fault::kPartitionOneWay, 0.4, seconds(60));
  draw(Fault::kPartitionPeers, 0.4, seconds(50));
  draw(Fault::kPeerStreamLoss, 0.5, seconds(30));
  draw(Fault::kSlowAgent, 0.4, seconds(60));
  draw(Fault::kSlowLink, 0.4, seconds(60));
  draw(Fault::kSlowDisk, 0.4, seconds(60));
  draw(Fault::kNonFinite, 0.4, seconds(50));
  draw(Fault::kUploadFailure, 0.5, seconds(20));
  draw(Fault::kUserCancel, 0.15, seconds(200));
  draw(Fault::kAgentDrain, 0.3, seconds(90));
  draw(Fault::kReplicaError, 0.4, seconds(60));
  draw(Fault::kOperatorCordon, 0.3, seconds(90));
  draw(Fault::kOperatorDrain, 0.3, seconds(60));
  draw(Fault::kMemoryLie, 0.3, seconds(100));
  draw(Fault::kOperatorPause, 0.4, seconds(50));
}

// How long absent replicas are waited for.
void draw_waits(SimOptions& o, Prng prng) {
  o.coordinator.return_grace = between(prng, seconds(1), seconds(6));
  o.coordinator.rollback_wait_min = between(prng, seconds(5), seconds(60));
  o.coordinator.rollback_wait_max =
      o.coordinator.rollback_wait_min + between(prng, seconds(5), seconds(120));
}

// A budget that is exceeded by what is needed, that takes older ones, or that is never reached; and
// a short life of what ended jobs keep.
void draw_retention(SimOptions& o, Prng prng) {
  const std::int64_t file = 4 * o.values;  // what a trainer announces of a stage, without momentum
  if (prng.chance(0.5)) o.coordinator.checkpoints_max = Bytes(file * prng.range(1, 12));
  if (prng.chance(0.3)) o.coordinator.keep_ended = between(prng, seconds(1), seconds(60));
}

// A backup that is put back may know neither the first job nor its checkpoint.
void draw_more(SimOptions& o, Prng prng) {
  const bool restores =
      o.mean_of(Fault::kRestoreUnderAgents).ns > 0 || o.mean_of(Fault::kRestoreAlone).ns > 0;
  const std::int64_t rounds = prng.range(2, 20);
  if (prng.chance(0.3) && !restores) o.more_rounds = rounds;
}

// From a generator of their own, so that the other draws stay alike.
void draw_later_faults(SimOptions& o, Prng prng, FaultSet set) {
  const auto draw = [&](Fault fault, double exists, Duration mean) {
    const double factor = 0.5 + prng.unit();
    const bool drawn = prng.chance(exists);
    if (!drawn || (set == FaultSet::kEndured && !is_endured(fault))) return;
    o.set_mean(fault, seconds_f(mean.seconds() * factor));
  };
  draw(Fault::kCoordinatorPause, 0.3, seconds(90));
  draw(Fault::kAllAgentsOut, 0.25, seconds(100));
  draw(Fault::kHostFrozen, 0.15, seconds(120));
  draw(Fault::kPeerOneWay, 0.3, seconds(50));
  draw(Fault::kClockJump, 0.2, seconds(100));
  draw(Fault::kTwinAgent, 0.15, seconds(100));
  draw(Fault::kTornWrite, 0.25, seconds(80));
  draw(Fault::kFailedFsync, 0.25, seconds(80));
  draw(Fault::kFullDisk, 0.2, seconds(100));
  draw(Fault::kFlippedFrame, 0.3, seconds(40));
  draw(Fault::kFlippedMemory, 0.25, seconds(50));
  draw(Fault::kFlippedTransfer, 0.3, seconds(30));
  draw(Fault::kFlippedCheckpoint, 0.3, seconds(30));
  draw(Fault::kSlowLoad, 0.3, seconds(60));
  if (o.jobs == 1) draw(Fault::kOtherData, 0.4, seconds(40));
  draw(Fault::kRestoreUnderAgents, 0.15, seconds(100));
  draw(Fault::kRestoreAlone, 0.1, seconds(120));
  draw(Fault::kAgentRestart, 0.4, seconds(40));
  draw(Fault::kFalseNorm, 0.6, seconds(15));
  draw(Fault::kFalseAverage, 0.6, seconds(15));
  draw(Fault::kSlowGroup, 0.8, seconds(15));
  draw(Fault::kStageLost, 0.6, seconds(50));
  draw(Fault::kFalseClaim, 0.3, seconds(40));
  draw(Fault::kShortPart, 0.3, seconds(30));
  draw(Fault::kBadCard, 0.3, seconds(40));
  draw(Fault::kSickCard, 0.3, seconds(40));
  draw(Fault::kThrottledDevice, 0.3, seconds(40));
}

// One run of seven has one pipeline whose replicas move: devices are unequal and become slow. In
// most of these all jobs rest once, until no measurement of a line counts any more.
void draw_unequal(SimOptions& o, Prng prng) {
  o.coordinator.rebalance_every = between(prng, seconds(5), seconds(60));
  const Duration often = between(prng, seconds(5), seconds(15));
  const Duration throttles = between(prng, seconds(15), seconds(40));
  const Duration rest = between(prng, seconds(2500), seconds(3000));
  const auto hosts = static_cast<int>(prng.range(5, 6));
  if (!prng.chance(0.15)) return;
  o.unequal = true;
  o.jobs = 1;
  o.hosts = hosts;
  o.coordinator.rebalance_every = often;
  o.set_mean(Fault::kThrottledDevice, throttles);
  if (!prng.chance(0.7)) return;
  o.rest = rest;
  o.coordinator.measure_limit = {};  // what it measures itself of lines counts for a day
}

// Half of the runs lie in wait for one to three moments.
void draw_ambushes(SimOptions& o, Prng prng) {
  constexpr std::array kFaultsAfter{
      Fault::kStreamLoss,      Fault::kAgentCrash,       Fault::kAgentDiskLost,
      Fault::kTrainerCrash,    Fault::kCoordinatorCrash, Fault::kCrashBetweenEffects,
      Fault::kAgentPause,      Fault::kTrainerPause,     Fault::kPartitionCoordinator,
      Fault::kPartitionOneWay, Fault::kPartitionPeers,   Fault::kPeerStreamLoss,
      Fault::kSlowLink,        Fault::kNonFinite,        Fault::kUserCancel,
      Fault::kReplicaError,    Fault::kOperatorDrain,    Fault::kAgentDrain,
      Fault::kOperatorPause};
  if (!prng.chance(0.5)) return;
  for (std::int64_t left = prng.range(1, 3); left > 0; --left) {
    Ambush ambush;
    ambush.moment = static_cast<Moment>(prng.below(kMoments));
    if (prng.chance(0.25)) ambush.moment = Moment::kSenderBegins;
    const bool sender = ambush.moment == Moment::kSenderBegins;
    const bool seldom =
        sender || ambush.moment == Moment::kJobMoved || ambush.moment == Moment::kCheckpointMoved;
    ambush.fault = kFaultsAfter[prng.below(kFaultsAfter.size())];
    // An exclusion counts only when the end of the member is noticed late, as that of a whole
    // machine is.
    if (sender && prng.chance(0.6)) ambush.fault = Fault::kAgentCrash;
    ambush.probability = seldom ? 0.1 + 0.4 * prng.unit() : 0.02 + 0.3 * prng.unit() * prng.unit();
    ambush.within = between(prng, Duration{}, prng.chance(0.8) ? o.peer_delay * 4 : seconds(3));
    o.ambushes.push_back(ambush);
  }
}

// Other algorithms and rounds than diloco's of equal length.
void draw_sync(JobSpec& job, Prng& prng) {
  const bool diloco = job.sync.algorithm == SyncAlgorithm::kDiloco;
  if (diloco && prng.chance(0.15)) {
    job.sync.algorithm = prng.chance(0.5) ? SyncAlgorithm::kLocalSgd : SyncAlgorithm::kDdp;
    job.sync.outer = {1, 0};
    if (job.sync.algorithm == SyncAlgorithm::kDdp) {  // a round per step: fewer of them
      job.sync.every = Steps(1);
      job.train.steps = Steps(std::min<std::int64_t>(job.train.steps.count(), 60));
    }
    return;
  }
  if (!diloco || job.swarm.stages != 1) return;
  if (prng.chance(0.3)) job.sync.balance = Balance::kSpeed;
  if (prng.chance(0.15)) job.sync.every_s = prng.range(1, 3);
}

// Fragments and overlap, of what can stream at all.
void draw_streaming(JobSpec& job, Prng& prng) {
  const bool can = job.swarm.stages == 1 && job.sync.balance == Balance::kEqual &&
                   job.sync.every_s == 0 && job.sync.codec != CodecKind::kSparse2 &&
                   (job.sync.algorithm == SyncAlgorithm::kDiloco ||
                    job.sync.algorithm == SyncAlgorithm::kLocalSgd);
  if (!can || !prng.chance(0.6)) return;
  SyncSpec& sync = job.sync;
  sync.fragments = prng.range(1, 3);
  job.model.layers = sync.fragments + prng.range(0, 2);
  sync.every = Steps(sync.every.count() * sync.fragments);
  const std::int64_t period = sync.every.count() / sync.fragments;
  if (period == 1 || !prng.chance(0.7)) return;
  sync.overlap_steps = Steps(prng.range(1, period - 1));
  if (prng.chance(0.5)) sync.blend = 0.5;
}

// Eager updates, of what overlaps.
void draw_eager(JobSpec& job, Prng prng) {
  SyncSpec& sync = job.sync;
  const bool can = sync.overlap_steps > Steps(0) && sync.aggregator == Aggregator::kMean &&
                   sync.outer_state == OuterState::kReplicated;
  if (!can || !prng.chance(0.6)) return;
  sync.eager = true;
  sync.blend = 0;
}

// Rounds that wait for some of the replicas, of what can have them. Drawn from a Prng of its own,
// so that the other draws stay alike.
void draw_async(JobSpec& job, Prng prng) {
  SyncSpec& sync = job.sync;
  const bool fits = sync.topology != Topology::kAllgather && sync.codec != CodecKind::kSparse2;
  const bool can = sync.algorithm == SyncAlgorithm::kDiloco && job.swarm.stages == 1 && fits &&
                   sync.balance == Balance::kEqual && sync.every_s == 0 && sync.fragments == 1 &&
                   sync.overlap_steps == Steps(0);
  if (!can || !prng.chance(0.7)) return;
  sync.algorithm = SyncAlgorithm::kAsync;
  sync.quorum = prng.range(0, job.swarm.min_replicas);
}

// Sharded outer momentum, of what can shard at all.
void draw_outer_state(JobSpec& job, Prng prng) {
  const SyncSpec& sync = job.sync;
  const bool butterfly = sync.topology == Topology::kButterfly || sync.topology == Topology::kAuto;
  const bool can = sync.algorithm == SyncAlgorithm::kDiloco && butterfly && sync.fragments == 1 &&
                   sync.codec != CodecKind::kSparse2 && sync.outer.momentum > 0;
  if (can && prng.chance(0.4)) job.sync.outer_state = OuterState::kSharded;
}

// Another outer optimizer than Nesterov, of what can have one. Drawn from a Prng of its own, so
// that the other draws stay alike.
void draw_outer_method(JobSpec& job, Prng prng) {
  SyncSpec& sync = job.sync;
  const bool groups = sync.topology == Topology::kMoshpit || sync.topology == Topology::kGossip;
  const bool feeds_back = sync.codec == CodecKind::kSparse2 && sync.feedback > 0;
  const bool can = sync.algorithm == SyncAlgorithm::kDiloco && !groups && !feeds_back &&
                   sync.outer_state == OuterState::kReplicated;
  if (!can || !prng.chance(0.4)) return;
  const auto others = static_cast<std::int64_t>(enumerator_count<OuterMethod>()) - 1;
  sync.outer.method = static_cast<OuterMethod>(prng.range(1, others));
  sync.outer.lr = traits_of(sync.outer.method).lr;
}

// Drawn from a Prng of its own, so that the other draws stay alike.
void draw_audit(JobSpec& job, Prng prng) {
  constexpr std::array kShares{0.0, kAuditUsual, 0.3, 1.0};
  const double share = kShares[prng.below(kShares.size())];
  if (audit_share(job) > 0) job.sync.audit = share;
}

// A pipeline that `devices` can serve.
void draw_stages(JobSpec& job, Prng& prng, int devices) {
  job.swarm.stages = prng.range(2, std::min(4, devices));
  const std::int64_t each = devices / job.swarm.stages;
  job.model.layers = job.swarm.stages;
  job.train.microbatch = 1;
  job.swarm.min_replicas = prng.range(1, std::min<std::int64_t>(2, each));
  if (job.swarm.max_replicas > 0) job.swarm.max_replicas = each;
}

// Copies of its stages, of what can have them. Drawn from a Prng of its own, so that the other
// draws stay alike.
void draw_buddies(JobSpec& job, Prng prng) {
  const bool can = job.swarm.stages > 1 && job.sync.algorithm != SyncAlgorithm::kDdp &&
                   job.sync.outer_state == OuterState::kReplicated;
  if (can && prng.chance(0.6)) job.checkpoint.buddies = prng.range(1, 2);
}

// In half of the pipelines a move for speed may leave one copy of a stage, so that small ones have
// such moves. Drawn from a Prng of its own, so that the other draws stay alike.
void draw_copies_min(JobSpec& job, Prng prng) {
  if (job.swarm.stages > 1 && prng.chance(0.5)) job.swarm.copies_min = 1;
}

// A pipeline that lasts until the faults are over, whose stages may give replicas away.
void draw_long_pipeline(const SimOptions& o, JobSpec& job) {
  if (!o.unequal || job.swarm.stages < 2) return;
  job.swarm.stages = job.model.layers = std::min<std::int64_t>(job.swarm.stages, 3);
  job.swarm.min_replicas = job.swarm.copies_min = 1;
  job.swarm.max_replicas = 0;
  job.train.batch = 1;
  const std::int64_t longer = job.sync.algorithm == SyncAlgorithm::kDdp ? 1 : 4;
  job.train.steps = Steps(job.train.steps.count() * longer);
}

// Other cuts where they are worth it, with more units to cut. Most pipelines on unequal devices
// have them, because these slow down and jobs rest. Drawn from a Prng of its own, so that the other
// draws stay alike.
void draw_recut(const SimOptions& o, JobSpec& job, Prng prng) {
  const std::int64_t layers = prng.range(2, 3);
  const bool recuts = prng.chance(o.unequal ? 0.8 : 0.3);
  if (job.swarm.stages < 2 || !recuts) return;
  job.swarm.recut = true;
  job.model.layers = job.swarm.stages * layers;
}

// Rounds in groups, of what can have them.
void draw_groups(JobSpec& job, Prng prng) {
  SyncSpec& sync = job.sync;
  const bool averages =
      sync.algorithm == SyncAlgorithm::kDiloco || sync.algorithm == SyncAlgorithm::kLocalSgd;
  const bool plain = job.swarm.stages == 1 && sync.fragments == 1 &&
                     sync.overlap_steps == Steps(0) && sync.balance == Balance::kEqual &&
                     sync.every_s == 0 && sync.aggregator == Aggregator::kMean &&
                     sync.topology == Topology::kButterfly;
  if (!averages || !plain || !prng.chance(0.6)) return;
  sync.topology = prng.chance(0.5) ? Topology::kMoshpit : Topology::kGossip;
  sync.codec = CodecKind::kFp32;
  if (sync.algorithm == SyncAlgorithm::kDiloco) sync.outer.momentum = 0.5;
}

// In half of the runs with several jobs each has a priority of its own, and wants so much at times
// that not all can run together. Drawn from Prngs of their own, so that the other draws stay alike.
void draw_priority(const SimOptions& o, JobSpec& job, int index) {
  Prng run(mix_seed(o.seed, 0x9210a1)), own(mix_seed(o.seed, 0x9210b000 + index));
  if (o.jobs < 2 || !run.chance(0.5)) return;
  const auto turn = run.range(0, o.jobs - 1);
  job.swarm.priority = 20 + 25 * ((index + turn) % o.jobs);
  const std::int64_t most = std::min(3, o.hosts * o.devices_per_host - 1);
  const bool can = job.swarm.stages == 1 && job.sync.algorithm != SyncAlgorithm::kNone &&
                   job.swarm.min_replicas < most;
  if (!can || !own.chance(0.6)) return;
  job.swarm.min_replicas = own.range(job.swarm.min_replicas + 1, most);
  job.swarm.max_replicas = std::max(job.swarm.max_replicas, job.swarm.min_replicas);
}

// More than half of the jobs keep the butterfly.
void draw_reduce(JobSpec& job, Prng& prng) {
  SyncSpec& sync = job.sync;
  sync.clip = !prng.chance(0.1);
  if (prng.chance(0.2)) {
    sync.aggregator = prng.chance(0.5) ? Aggregator::kTrimmedMean : Aggregator::kCenteredClip;
  }
  if (prng.chance(0.5) || sync.aggregator != Aggregator::kMean) return;
  constexpr std::array kTopologies{Topology::kRing, Topology::kAllgather, Topology::kAuto};
  sync.topology = kTopologies[prng.below(kTopologies.size())];
  if (sync.topology != Topology::kAllgather) return;
  sync.codec = CodecKind::kSparse2;
  sync.outer = {1, 0};
  sync.feedback = prng.chance(0.7) ? 0.95 : 0;
}

}  // namespace

bool is_endured(Fault fault) {
  constexpr std::array<Fault, 0> kNotYet{};
  return std::ranges::find(kNotYet, fault) == kNotYet.end();
}

SimOptions draw_options(std::uint64_t seed, FaultSet set) {
  Prng prng(mix_seed(seed, 0x0b710));
  SimOptions o;
  o.seed = seed;
  o.hosts = static_cast<int>(prng.range(2, 6));
  o.devices_per_host = prng.chance(0.3) ? 2 : 1;
  o.jobs = static_cast<int>(prng.range(1, 3));
  o.values = prng.range(16, 64);
  o.safety = between(prng, seconds(100), seconds(300));
  o.link_delay = between(prng, milliseconds(1), milliseconds(60));
  o.tail_probability = prng.chance(0.7) ? 0.05 * prng.unit() : 0;
  o.tail = between(prng, milliseconds(500), seconds(9));
  o.duplicate_probability = prng.chance(0.6) ? 0.05 * prng.unit() : 0;
  o.peer_delay = between(prng, milliseconds(1), milliseconds(40));
  o.write_delay = between(prng, microseconds(200), milliseconds(20));
  o.keepalive = between(prng, seconds(4), seconds(12));
  o.trainer_start = between(prng, milliseconds(300), seconds(4));
  o.inner_step = between(prng, milliseconds(60), milliseconds(300));
  o.load_time = between(prng, milliseconds(50), seconds(2));
  o.evaluate_time = between(prng, milliseconds(20), milliseconds(500));
  o.upload_time = between(prng, milliseconds(50), seconds(2));
  draw_coordinator(o, prng);
  o.coordinator.quarantine_first = seconds(20);
  o.coordinator.quarantine_cap = seconds(60);
  draw_agent(o, prng);
  draw_faults(o, prng);
  Prng reducers(mix_seed(seed, 0x5ed0ce));  // of its own, so that the other draws stay alike
  if (reducers.chance(0.4)) o.reducers = static_cast<int>(reducers.range(1, 2));
  draw_waits(o, Prng(mix_seed(seed, 0x3a175)));
  draw_retention(o, Prng(mix_seed(seed, 0x2e7e47)));
  draw_later_faults(o, Prng(mix_seed(seed, 0xfa2717)), set);
  draw_ambushes(o, Prng(mix_seed(seed, 0xa3b05)));
  draw_more(o, Prng(mix_seed(seed, 0x3023)));
  Prng claims(mix_seed(seed, 0xc1a135));
  o.coordinator.preempt_after = between(claims, seconds(0), seconds(12));
  Prng blocks(mix_seed(seed, 0xb10c5));
  o.coordinator.measure_limit = between(blocks, seconds(0), seconds(12));
  const Duration impatient = between(blocks, milliseconds(1), milliseconds(60));
  if (blocks.chance(0.25)) o.coordinator.measure_limit = impatient;  // most answers are late
  draw_unequal(o, Prng(mix_seed(seed, 0x04e90a1)));
  return o;
}

Device reducing_device() {
  Device device;
  device.kind = DeviceKind::kReducer;
  device.name = "simulated reducer";
  device.memory = mebibytes(1024);
  return device;
}

SimOptions calm_options(std::uint64_t seed) {
  SimOptions o;
  o.seed = seed;
  o.tail_probability = 0;
  o.duplicate_probability = 0;
  o.coordinator.boot_grace = seconds(20);
  o.coordinator.measure_limit = {};
  o.coordinator.straggler_min = seconds(5);
  o.coordinator.close_limit = seconds(5);
  o.coordinator.first_step_limit = kTrainersAreSilent;
  o.coordinator.reduce_limit_min = seconds(8);
  o.coordinator.quarantine_first = seconds(20);
  o.coordinator.quarantine_cap = seconds(60);
  o.agent.reconnect_cap = seconds(3);
  return o;
}

JobSpec draw_job(const SimOptions& o, Prng& prng, int index) {
  JobSpec job;
  job.name = "job-" + std::to_string(index);
  job.model.layers = 1;
  job.model.hidden = 8;
  job.model.heads = 1;
  job.model.context = 8;
  job.model.vocab = 16;
  job.data.tokenizer = Tokenizer::kUint16;
  job.data.train = "/data/corpus.bin";
  job.train.batch = prng.range(1, 4);
  job.train.seed = prng.below(1000);
  job.train.warmup = Steps(0);
  const std::int64_t every = prng.range(3, 10);
  job.sync.every = Steps(every);
  job.train.steps = Steps(every * prng.range(8, 50) + prng.range(0, every - 1));
  job.sync.codec = outer_opt::kDenseCodecs[prng.below(outer_opt::kDenseCodecs.size())];
  if (prng.chance(0.1)) job.sync.algorithm = SyncAlgorithm::kNone;
  const int devices = o.hosts * o.devices_per_host;
  const int share = std::max(1, devices / o.jobs);  // so that all jobs can run together
  job.swarm.min_replicas = prng.range(1, std::min(3, share));
  job.swarm.max_replicas =
      o.jobs > 1 || prng.chance(0.2) ? std::max<std::int64_t>(job.swarm.min_replicas, share) : 0;
  if (job.sync.algorithm == SyncAlgorithm::kNone) {
    job.swarm.min_replicas = 1;
    job.swarm.max_replicas = 1;
  }
  job.checkpoint.every_rounds = prng.range(0, 4);
  job.checkpoint.keep = prng.range(1, 3);
  job.eval.every_rounds = prng.range(0, 3);
  job.eval.batches = prng.range(1, 8);
  const bool can_cut = job.sync.algorithm == SyncAlgorithm::kDiloco && share > 1;
  if (can_cut && (prng.chance(0.5) || o.unequal)) {
    draw_stages(job, prng, share);
  }
  draw_sync(job, prng);
  draw_reduce(job, prng);
  draw_streaming(job, prng);
  draw_async(job, Prng(mix_seed(o.seed, 0xa51c00 + static_cast<std::uint64_t>(index))));
  Prng reducers(mix_seed(o.seed, 0x5ed000 + static_cast<std::uint64_t>(index)));
  const bool asks = reducers.chance(o.reducers > 0 ? 0.7 : 0.1);
  const bool takes_help = job.sync.algorithm != SyncAlgorithm::kAsync;
  if (asks && takes_help && job.sync.topology == Topology::kButterfly) {
    job.sync.topology = Topology::kParamServer;
  }
  draw_groups(job, Prng(mix_seed(o.seed, 0x960095 + static_cast<std::uint64_t>(index))));
  // A generator of its own, so that the other draws stay the same.
  draw_outer_state(job, Prng(mix_seed(o.seed, 0x5ad000 + static_cast<std::uint64_t>(index))));
  draw_eager(job, Prng(mix_seed(o.seed, 0xea6e00 + static_cast<std::uint64_t>(index))));
  draw_outer_method(job, Prng(mix_seed(o.seed, 0x0a7e600 + static_cast<std::uint64_t>(index))));
  draw_audit(job, Prng(mix_seed(o.seed, 0xa0d170 + static_cast<std::uint64_t>(index))));
  draw_buddies(job, Prng(mix_seed(o.seed, 0xb0dd1e + static_cast<std::uint64_t>(index))));
  draw_copies_min(job, Prng(mix_seed(o.seed, 0xc0b1e5 + static_cast<std::uint64_t>(index))));
  draw_priority(o, job, index);
  draw_long_pipeline(o, job);
  draw_recut(o, job, Prng(mix_seed(o.seed, 0x4ec070 + static_cast<std::uint64_t>(index))));
  SHOAL_CHECK(validate(job).empty(), "drawn jobs must be valid");
  job.sync = effective_sync(job);
  return job;
}

Duration SimOptions::coverage_limit() const {
  const auto& c = coordinator;
  return c.lease + c.boot_grace + c.straggler_min * 8 + c.close_limit + c.reduce_limit_min * 4 +
         c.apply_limit + c.load_limit + c.quarantine_cap + c.rollback_wait_max + seconds(60);
}

Duration SimOptions::progress_limit() const {
  const auto& c = coordinator;
  return coverage_limit() + c.load_limit * 2 + agent.attach_limit + agent.load_limit +
         c.reduce_limit_min * (2 * c.attempts_max) + c.checkpoint_limit + seconds(300);
}

Duration SimOptions::completion_limit() const { return progress_limit() * 2 + seconds(3600); }

}  // namespace shoal::sim
