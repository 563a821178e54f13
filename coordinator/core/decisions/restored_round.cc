#include "coordinator/core/decisions/restored_round.h"

#include <algorithm>
#include <functional>
#include <set>

namespace shoal::coordinator {
namespace {

// Ids were given out since, so replicas that joined later know more of them. A replica that loaded
// a checkpoint knows its own momentum only; one that joined before the data was read knows none.
bool same_commit(CommitRecord a, const CommitRecord& b) {
  a.next_replica = b.next_replica;
  a.next_checkpoint = b.next_checkpoint;
  a.momentum_holders = b.momentum_holders;
  a.data = b.data;
  a.proof = b.proof;  // each member has its own
  return a == b;
}

bool contradicts(const HeldReplica& claim, const KnownCommit& known) {
  const auto stage = static_cast<std::size_t>(claim.stage);
  if (claim.key != known.key || claim.stage < 0 || stage >= known.anchors.size()) return false;
  return known.anchors[stage] && claim.anchor != known.anchors[stage];
}

// The number of stages when this round was committed: the cut may have changed since (swarm.recut).
std::int32_t stages_at(const std::vector<HeldReplica>& claims, const RoundKey& key,
                       std::int32_t now) {
  for (const HeldReplica& claim : claims) {
    if (claim.key == key && !claim.cut.empty()) return static_cast<std::int32_t>(claim.cut.size());
  }
  return now;
}

// The round that its holders agree on; none if they disagree or a stage has no holder.
std::optional<RestoredRound> agree_on(const std::vector<HeldReplica>& claims, const RoundKey& key,
                                      const std::vector<KnownCommit>& known_commits,
                                      std::int32_t stages_now, bool shared) {
  RestoredRound round{key, {}};
  const std::int32_t stages = stages_at(claims, key, stages_now);
  std::vector<const HeldReplica*> first(static_cast<std::size_t>(stages), nullptr);
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const HeldReplica& claim = claims[i];
    const bool false_state = shared && std::ranges::any_of(known_commits, [&](const auto& known) {
                               return contradicts(claim, known);
                             });
    if (claim.key != key || false_state) continue;
    if (claim.stage < 0 || claim.stage >= stages) return std::nullopt;
    if (!round.holders.empty()) {
      const HeldReplica& holder = claims[round.holders.front()];
      const bool agree = same_commit(claim.record, holder.record) && claim.cut == holder.cut;
      if (!agree) return std::nullopt;
    }
    const HeldReplica*& known = first[static_cast<std::size_t>(claim.stage)];
    if (known == nullptr) known = &claim;
    const bool equal = claim.anchor == known->anchor && claim.momentum == known->momentum;
    if (claim.value_count != known->value_count || (shared && !equal)) return std::nullopt;
    round.holders.push_back(i);
  }
  const bool everywhere =
      std::ranges::all_of(first, [](const auto* held) { return held != nullptr; });
  return everywhere ? std::optional(std::move(round)) : std::nullopt;
}

}  // namespace

std::optional<RestoredRound> decide_restored_round(const std::vector<HeldReplica>& claims,
                                                   const std::vector<KnownCommit>& known,
                                                   std::int32_t stages, bool shared) {
  std::set<RoundKey, std::greater<>> keys;
  for (const HeldReplica& claim : claims) {
    if (claim.key.round > 0) keys.insert(claim.key);
  }
  for (const RoundKey& key : keys) {
    if (auto round = agree_on(claims, key, known, stages, shared)) return round;
  }
  return std::nullopt;
}

}  // namespace shoal::coordinator
