// What an agent tells the processes that it starts: variables of their environment. A wrong value
// is refused by the name of its variable.
#pragma once

#include <string>

#include "agent_channel/control.h"
#include "base/result.h"
#include "outer_opt/transport/peer_node.h"

namespace shoal::agent_channel {

std::string environment(const char* name, const std::string& otherwise);
Result<int> environment_number(const char* name, int otherwise, int least, int most);

// SHOAL_TRAINER_SOCKET, _NONCE and _ORPHAN_LIMIT: where the agent is, and how long it may be away.
Result<ControlOptions> control_options(const std::string& program);

// SHOAL_TRAINER_BIND, _HOST, _LINK and _CERTIFICATES: where peers find this process, over what
// line, and whether they need certificates.
Result<outer_opt::PeerNodeOptions> peer_options();

}  // namespace shoal::agent_channel
