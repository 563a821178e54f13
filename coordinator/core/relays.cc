#include "coordinator/core/relays.h"

namespace shoal::coordinator {

std::vector<std::string> living_relays(const State& state) {
  std::vector<std::string> relays;
  for (const auto& [id, agent] : state.agents) {
    const bool lives = agent.state != AgentState::kGone && !agent.relay.empty();
    if (lives && relays.size() < kRelaysMax) relays.push_back(agent.relay);
  }
  return relays;
}

void tell_relays(Transaction& tx) {
  std::vector<std::string> relays = living_relays(tx.state());
  if (relays == tx.state().relays) return;
  tx.volatile_state().relays = relays;
  for (const auto& [id, presence] : tx.state().presence) {
    if (presence.connected && presence.hears_relays) tx.send(id, Relays{relays});
  }
}

}  // namespace shoal::coordinator
