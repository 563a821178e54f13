// See arms.h.
#include "bench/convergence/arms.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kEvery[] = {25, 50, 100};
constexpr std::int64_t kVariantsAt = 25;  // the H of all variants
constexpr std::int64_t kVariantSeeds = 2;

Arm arm_of(SyncAlgorithm algorithm, std::int64_t every, std::int64_t workers) {
  Arm arm;
  arm.sync = default_spec(algorithm).sync;
  arm.sync.codec = CodecKind::kFp32;
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
  arm.seeds_max = kVariantSeeds;
  return arm;
}

Arm with_codec(const Arm& base, CodecKind codec) {
  Arm arm = variant(base, "codec", to_string(codec));
  arm.sync.codec = codec;
  if (codec != CodecKind::kSparse2) return arm;
  arm.sync.topology = Topology::kAllgather;
  arm.sync.outer = {1, 0};
  return arm;
}

std::vector<Arm> codec_arms(const Arm& base) {
  std::vector<Arm> arms;
  for (const CodecKind codec : {CodecKind::kFp16, CodecKind::kBf16, CodecKind::kInt8,
                                CodecKind::kInt4, CodecKind::kE3m0, CodecKind::kSparse2}) {
    arms.push_back(with_codec(base, codec));
  }
  Arm ring = variant(base, "codec", "int8, ring");
  ring.sync.codec = CodecKind::kInt8;
  ring.sync.topology = Topology::kRing;
  arms.push_back(ring);
  return arms;
}

std::vector<Arm> fault_arms(const Arm& base) {
  Arm kept = variant(base, "faults", "half dropped, progress kept");
  kept.dropped = 0.5;
  kept.keeps_progress = true;
  Arm lost = variant(base, "faults", "half dropped, progress lost");
  lost.dropped = 0.5;
  Arm clipped = variant(base, "faults", "an attacker, clip");
  clipped.attacker = true;
  Arm plain = variant(base, "faults", "an attacker, no clip");
  plain.attacker = true;
  plain.sync.clip = false;
  return {kept, lost, clipped, plain};
}

std::vector<Arm> muon_arms(std::int64_t workers) {
  Arm alone = with_muon(arm_of(SyncAlgorithm::kNone, 0, 1));
  alone.name = alone.tuned_as = "one worker, muon";
  const Arm base = with_muon(arm_of(SyncAlgorithm::kDiloco, kVariantsAt, workers));
  return {alone, muon_ddp(workers), base, with_codec(base, CodecKind::kInt4)};
}

Arm with_outer_lr(const Arm& base, double lr, const std::string& text) {
  Arm arm = variant(base, "outer", "outer lr " + text);
  arm.sync.outer.lr = lr;
  return arm;
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
  }
  const Arm base = arm_of(SyncAlgorithm::kDiloco, kVariantsAt, workers);
  append(arms, codec_arms(base));
  append(arms, fault_arms(base));
  arms.push_back(with_outer_lr(base, 0.4, "0.4"));
  arms.push_back(arm_of(SyncAlgorithm::kLocalSgd, kVariantsAt, workers));
  append(arms, muon_arms(workers));
  return arms;
}

}  // namespace shoal::bench
