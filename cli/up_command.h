// `shoal up` and `shoal down`: a coordinator and N agents on this host, for trying out and for
// tests. `up` succeeds only when every agent is idle (or already at work again); otherwise it stops
// what it started and shows the end of the log of what failed. Without --detach the cluster lives
// as long as the command does.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/up_layout.h"

namespace shoal::cli {

Result<int> run_up(const UpOptions& options, bool json);
Result<int> run_down(const std::string& data_dir, bool json);

}  // namespace shoal::cli
