// The command line and the SHOAL_* variables of a program, which must be UTF-8: they are put into
// messages, JSON, logs and tables, and none of those can hold other bytes.
#pragma once

#include "base/result.h"

namespace shoal {

// kInvalidArgument, with the option, the place or the variable as `field`. `environment` ends with
// a null pointer, as environ does.
Status check_arguments(int argc, const char* const* argv, const char* const* environment);

}  // namespace shoal
