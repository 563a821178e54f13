// Which relays live, and who is told of them: an agent with its welcome, and all agents at once
// when that changes. A relay lives as long as its agent is not gone, so one that lost its
// connection for a moment is kept.
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// In the order of their agents, kRelaysMax at most.
std::vector<std::string> living_relays(const State& state);

// After whatever may have changed that.
void tell_relays(Transaction& tx);

}  // namespace shoal::coordinator
