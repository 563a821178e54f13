// Where a user's files lie by the XDG base directories. Without a home folder there is none: a
// path that others can guess, below /tmp, could be theirs.
#pragma once

#include <string>

#include "base/result.h"

namespace shoal::cli {

// "$VARIABLE/shoal", else "$HOME/BELOW_HOME/shoal". kNotFound, with `field` and the remedy to give
// that option, where both are missing or not absolute.
Result<std::string> user_folder(const char* variable, const char* below_home,
                                const std::string& field);

}  // namespace shoal::cli
