// What a user's program measured and no message has carried yet: of each name the newest value, of
// at most kLoggedValuesMax names.
#pragma once

#include <vector>

#include "messages/agent_messages.h"

namespace shoal::replica {

// Names beyond the bound are dropped; the values of names that are there already are replaced.
void keep_newest(std::vector<LoggedValue>& kept, std::vector<LoggedValue> values);

}  // namespace shoal::replica
