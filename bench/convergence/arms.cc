// See arms.h.
#include "bench/convergence/arms.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kEvery[] = {10, 25, 50};
constexpr std::int64_t kVariantsAt = 25;  // the H of all variants

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

Arm variant(const Arm& base, const std::string& group, const std::string& what) {
  Arm arm = base;
  arm.group = group;
  arm.name = base.name + ", " + what;
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

}  // namespace

std::vector<Arm> all_arms(std::int64_t workers) {
  std::vector<Arm> arms = {arm_of(SyncAlgorithm::kNone, 0, 1),
                           arm_of(SyncAlgorithm::kDdp, 0, workers)};
  arms[0].name = arms[0].tuned_as = "one worker";
  for (const auto algorithm : {SyncAlgorithm::kLocalSgd, SyncAlgorithm::kDiloco}) {
    for (const std::int64_t every : kEvery) arms.push_back(arm_of(algorithm, every, workers));
  }
  const Arm base = arm_of(SyncAlgorithm::kDiloco, kVariantsAt, workers);
  for (const CodecKind codec :
       {CodecKind::kInt8, CodecKind::kInt4, CodecKind::kE3m0, CodecKind::kSparse2}) {
    arms.push_back(with_codec(base, codec));
  }
  Arm gentle = variant(base, "outer", "outer lr 0.4");
  gentle.sync.outer.lr = 0.4;
  arms.push_back(gentle);
  Arm lossy = variant(base, "faults", "half of the rounds lost");
  lossy.dropped = 0.5;
  arms.push_back(lossy);
  Arm attacked = variant(base, "faults", "an attacker, clip");
  attacked.attacker = true;
  arms.push_back(attacked);
  Arm unclipped = variant(base, "faults", "an attacker, no clip");
  unclipped.attacker = true;
  unclipped.sync.clip = false;
  arms.push_back(unclipped);
  return arms;
}

}  // namespace shoal::bench
