#include "coordinator/core/decisions/buddies.h"

#include <algorithm>
#include <tuple>

#include "base/flat_map.h"

namespace shoal::coordinator {
namespace {

class Assigner {
 public:
  explicit Assigner(const BuddiesInput& input) : input_(input) {
    for (const Keeper& keeper : input.agents) room_.put(keeper.agent, keeper.room);
  }

  // Keeps the keepers that stay, before new ones take room.
  void keep(std::size_t stage, std::vector<AgentId>& keepers) {
    for (const AgentId agent : input_.stages[stage].keeping) {
      const Keeper* keeper = find(agent);
      const bool more = std::ssize(keepers) < input_.wanted;
      if (keeper != nullptr && more && may_keep(stage, *keeper)) take(stage, agent, keepers);
    }
  }

  void add_missing(std::size_t stage, std::vector<AgentId>& keepers) {
    while (std::ssize(keepers) < input_.wanted) {
      const Keeper* best = nullptr;
      for (const Keeper& keeper : input_.agents) {
        const bool known = std::ranges::count(keepers, keeper.agent) > 0;
        if (known || !may_keep(stage, keeper)) continue;
        if (best == nullptr || rank(stage, keepers, keeper) < rank(stage, keepers, *best)) {
          best = &keeper;
        }
      }
      if (best == nullptr) return;
      take(stage, best->agent, keepers);
    }
  }

 private:
  const Keeper* find(AgentId agent) const {
    const auto found = std::ranges::find(input_.agents, agent, &Keeper::agent);
    return found == input_.agents.end() ? nullptr : &*found;
  }

  bool may_keep(std::size_t stage, const Keeper& keeper) const {
    const CopiedStage& copied = input_.stages[stage];
    return keeper.can_keep && std::ranges::count(copied.serving, keeper.agent) == 0 &&
           copied.size <= room_.at(keeper.agent);
  }

  bool shares_domain(const std::vector<AgentId>& agents, const Keeper& keeper) const {
    return std::ranges::any_of(agents, [&](AgentId agent) {
      const Keeper* other = find(agent);
      return other != nullptr && other->domain == keeper.domain;
    });
  }

  // Smaller is better.
  std::tuple<int, Bytes, double, AgentId> rank(std::size_t stage,
                                               const std::vector<AgentId>& keepers,
                                               const Keeper& keeper) const {
    const int near = shares_domain(input_.stages[stage].serving, keeper) ? 2
                     : shares_domain(keepers, keeper)                    ? 1
                                                                         : 0;
    const Bytes kept = keeper.room - room_.at(keeper.agent);
    return {near, kept, -keeper.availability, keeper.agent};
  }

  void take(std::size_t stage, AgentId agent, std::vector<AgentId>& keepers) {
    room_.at(agent) -= input_.stages[stage].size;
    keepers.push_back(agent);
  }

  const BuddiesInput& input_;
  FlatMap<AgentId, Bytes> room_;
};

}  // namespace

BuddiesDecision decide_buddies(const BuddiesInput& input) {
  Assigner assigner(input);
  BuddiesDecision decision;
  decision.keepers.resize(input.stages.size());
  for (std::size_t i = 0; i < input.stages.size(); ++i) assigner.keep(i, decision.keepers[i]);
  for (std::size_t i = 0; i < input.stages.size(); ++i) {
    assigner.add_missing(i, decision.keepers[i]);
  }
  for (auto& keepers : decision.keepers) {
    decision.missing.push_back(input.wanted - std::ssize(keepers));
    std::ranges::sort(keepers);
  }
  return decision;
}

}  // namespace shoal::coordinator
