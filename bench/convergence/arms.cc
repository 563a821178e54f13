// See arms.h.
#include "bench/convergence/arms.h"

#include <cstdio>

#include "job/job_rules.h"
#include "outer_opt/core/codec/codec_traits.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kEvery[] = {25, 50, 100};
constexpr std::int64_t kVariantsAt = 25;   // the H of all variants but streaming
constexpr std::int64_t kLongOverlap = 24;  // inner steps of 50: what eager updates are for
constexpr std::int64_t kAttackedWorkers = 8;
// Beside the product's default: that of the DiLoCo paper, one between them, and no outer optimizer.
constexpr OuterSpec kOuterTried[] = {{0.7, 0.9}, {0.7, 0.7}, {1, 0}};
// Random pairs drift apart with more momentum (outer_opt/core/round/groups.h).
constexpr OuterSpec kGroupsTried[] = {{0.7, 0.5}, {1, 0.5}};
// Two runs that differ in one rounding end up to a per cent apart: small differences need seeds.
constexpr std::int64_t kManySeeds = 8;

Arm arm_of(SyncAlgorithm algorithm, std::int64_t every, std::int64_t workers) {
  Arm arm;
  arm.sync = default_spec(algorithm).sync;
  arm.group = to_string(algorithm);
  arm.name = arm.group;
  arm.workers = workers;
  if (algorithm == SyncAlgorithm::kDiloco || algorithm == SyncAlgorithm::kLocalSgd) {
    arm.sync.every = Steps(every);
    arm.name += " H=" + std::to_string(every);
  }
  arm.tuned_as = arm.name;
  return arm;
}

Arm with_muon(Arm arm) {
  arm.name += ", muon";
  arm.tuned_as = arm.name;
  arm.optimizer = Optimizer::kMuon;
  return arm;
}

// ddp takes AdamW steps on shared moments only. One worker with the batch of all is the same
// training, to rounding.
Arm muon_ddp(std::int64_t workers) {
  Arm arm = with_muon(arm_of(SyncAlgorithm::kNone, 0, 1));
  arm.name = arm.tuned_as = "ddp, muon";
  arm.group = "ddp";
  arm.batch_factor = workers;
  return arm;
}

Arm variant(const Arm& base, const std::string& group, const std::string& what) {
  Arm arm = base;
  arm.group = group;
  arm.name = base.name + ", " + what;
  arm.base = base.name;
  arm.seeds = 0;
  return arm;
}

Arm with_outer(const Arm& base, double lr, double momentum) {
  char what[48];
  std::snprintf(what, sizeof what, "outer %g/%g", lr, momentum);
  Arm arm = variant(base, "outer", what);
  arm.sync.outer = {lr, momentum};
  return arm;
}

// Another outer optimizer with its usual options.
Arm with_outer_method(const Arm& base, OuterMethod method) {
  const OuterSpec outer = default_spec(SyncAlgorithm::kDiloco, method).sync.outer;
  char what[48];
  std::snprintf(what, sizeof what, "outer %s %g", to_string(method), outer.lr);
  Arm arm = variant(base, "outer", what);
  arm.sync.outer = outer;
  return arm;
}

Arm with_codec(const Arm& base, CodecKind codec) {
  Arm arm = variant(base, "codec", to_string(codec));
  arm.seeds = base.seeds;
  arm.sync.codec = codec;
  if (codec != CodecKind::kSparse2) return arm;
  arm.sync.topology = Topology::kAllgather;
  arm.sync.outer = {1, 0};
  return arm;
}

std::vector<Arm> codec_arms(const Arm& base) {
  std::vector<Arm> arms;
  for (const auto& codec : outer_opt::kCodecs) {
    if (codec.kind != base.sync.codec) arms.push_back(with_codec(base, codec.kind));
  }
  return arms;
}

Arm with_topology(const Arm& base, Topology topology, CodecKind codec) {
  Arm arm = variant(base, "topology",
                    std::string(to_string(topology)) +
                        (codec == CodecKind::kFp32 ? "" : std::string(", ") + to_string(codec)));
  arm.sync.topology = topology;
  arm.sync.codec = codec;
  return arm;
}

// A butterfly and parameter servers send the same values the same way: one row for both. A ring
// rounds once per hop.
std::vector<Arm> topology_arms(const Arm& base) {
  const Arm grid = with_topology(base, Topology::kMoshpit, CodecKind::kFp32);
  const Arm pairs = with_topology(base, Topology::kGossip, CodecKind::kFp32);
  std::vector<Arm> arms = {with_topology(base, Topology::kRing, CodecKind::kInt8)};
  for (const OuterSpec& outer : kGroupsTried) {
    arms.push_back(with_outer(grid, outer.lr, outer.momentum));
    arms.push_back(with_outer(pairs, outer.lr, outer.momentum));
  }
  return arms;
}

Arm in_stored_order(const Arm& base) {
  Arm arm = variant(base, "data", "order of datasets");
  arm.seeds = base.seeds;
  arm.stored_order = true;
  return arm;
}

Arm streaming(const Arm& base, std::int64_t fragments, std::int64_t overlap, double blend) {
  char what[80];
  std::snprintf(what, sizeof what, "%d fragment%s, overlap %d, blend %g",
                static_cast<int>(fragments), fragments == 1 ? "" : "s", static_cast<int>(overlap),
                blend);
  Arm arm = variant(base, "streaming", what);
  arm.sync.fragments = fragments;
  arm.sync.overlap_steps = Steps(overlap);
  arm.sync.blend = blend;
  return arm;
}

Arm eager(Arm arm) {
  arm.name += ", eager";
  arm.sync.eager = true;
  return arm;
}

std::vector<Arm> streaming_arms(const Arm& base) {
  return {streaming(base, 2, 0, 0),
          streaming(base, 2, 5, 0),
          streaming(base, 2, 5, 0.5),
          streaming(base, 1, 5, 0),
          streaming(base, 1, 5, 0.5),
          eager(streaming(base, 1, 5, 0)),
          streaming(base, 1, kLongOverlap, 0),
          eager(streaming(base, 1, kLongOverlap, 0))};
}

Arm dropping(const Arm& base, AfterDrop after_drop, const std::string& what) {
  Arm arm = variant(base, "drops", "half dropped, " + what);
  arm.dropped = 0.5;
  arm.after_drop = after_drop;
  if (after_drop == AfterDrop::kMovesWithAnchor) arm.sync.algorithm = SyncAlgorithm::kAsync;
  return arm;
}

std::vector<Arm> drop_arms(const Arm& base) {
  return {dropping(base, AfterDrop::kMovesWithAnchor, "moved with the anchor"),
          dropping(base, AfterDrop::kKeepsOwn, "progress kept"),
          dropping(base, AfterDrop::kStartsOver, "progress lost")};
}

Arm many_workers(std::int64_t workers) {
  Arm arm = arm_of(SyncAlgorithm::kDiloco, kVariantsAt, workers);
  arm.name += ", " + std::to_string(workers) + " workers";
  arm.group = "attack";
  return arm;
}

// What an attacker costs is what is lost beside the honest ones alone.
Arm attacked(bool clip, Aggregator aggregator, const std::string& what) {
  Arm arm = variant(many_workers(kAttackedWorkers), "attack", "an attacker, " + what);
  arm.base = many_workers(kAttackedWorkers - 1).name;
  arm.attacker = true;
  arm.sync.clip = clip;
  arm.sync.aggregator = aggregator;
  return arm;
}

std::vector<Arm> attack_arms() {
  return {many_workers(kAttackedWorkers),
          many_workers(kAttackedWorkers - 1),
          attacked(true, Aggregator::kMean, "clip"),
          attacked(true, Aggregator::kTrimmedMean, "trimmed mean"),
          attacked(true, Aggregator::kCenteredClip, "centered clip"),
          attacked(false, Aggregator::kMean, "nothing")};
}

std::vector<Arm> muon_arms(std::int64_t workers) {
  Arm alone = with_muon(arm_of(SyncAlgorithm::kNone, 0, 1));
  alone.name = alone.tuned_as = "one worker, muon";
  const Arm base = with_muon(arm_of(SyncAlgorithm::kDiloco, kVariantsAt, workers));
  return {alone, muon_ddp(workers), base, with_codec(base, CodecKind::kInt4)};
}

std::vector<Arm> outer_arms(std::int64_t every, std::int64_t workers) {
  const Arm base = arm_of(SyncAlgorithm::kDiloco, every, workers);
  std::vector<Arm> arms;
  for (const OuterSpec& outer : kOuterTried) {
    arms.push_back(with_outer(base, outer.lr, outer.momentum));
  }
  for (const OuterTraits& traits : kOuterTraits) {
    if (traits.method == base.sync.outer.method) continue;
    arms.push_back(with_outer_method(base, traits.method));
  }
  return arms;
}

void append(std::vector<Arm>& arms, const std::vector<Arm>& more) {
  arms.insert(arms.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Arm> all_arms(std::int64_t workers) {
  std::vector<Arm> arms = {arm_of(SyncAlgorithm::kNone, 0, 1),
                           arm_of(SyncAlgorithm::kDdp, 0, workers)};
  arms[0].name = arms[0].tuned_as = "one worker";
  for (const std::int64_t every : kEvery) {
    arms.push_back(arm_of(SyncAlgorithm::kDiloco, every, workers));
    if (every == kVariantsAt) arms.back().seeds = kManySeeds;
  }
  const Arm base = arms[2];
  for (const std::int64_t every : kEvery) append(arms, outer_arms(every, workers));
  append(arms, codec_arms(base));
  append(arms, topology_arms(base));
  arms.push_back(in_stored_order(base));
  append(arms, streaming_arms(arms[3]));
  append(arms, drop_arms(base));
  append(arms, attack_arms());
  arms.push_back(arm_of(SyncAlgorithm::kLocalSgd, kVariantsAt, workers));
  append(arms, muon_arms(workers));
  return arms;
}

}  // namespace shoal::bench
