// What the coordinator's program does beside serving: `backup` and `restore-check`, on the files of
// a folder, whether or not a coordinator uses it. `shoal admin` runs these.
#pragma once

#include <optional>

namespace shoal::coordinator {

// The exit status, when the command line asks for one of these: 0 done, 1 failed or found problems,
// 2 refused flags. None: it does not.
std::optional<int> run_maintenance(int argc, const char* const* argv);

}  // namespace shoal::coordinator
