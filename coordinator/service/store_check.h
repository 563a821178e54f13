// shoal-coordinator --check-store: looks through a data folder that no coordinator uses, as a copy
// or a backup of one, and says in JSON whether SQLite finds it sound and which digest the state has
// that a coordinator would start with. As at a start, what an older version made is migrated.
#pragma once

#include <string>

#include "base/result.h"
#include "coordinator/core/decisions/options.h"

namespace shoal::coordinator {

// kNotFound: there is no state.db; kDataLoss: it is damaged; else what opening or loading it says.
Result<std::string> check_store(const std::string& folder, const Options& options);

}  // namespace shoal::coordinator
