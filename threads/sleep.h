// A pause of a thread that can be asked to stop.
#pragma once

#include <stop_token>

#include "base/time.h"

namespace shoal {

// False when stop was requested, before or meanwhile: the pause ends at once then.
[[nodiscard]] bool sleep_unless_stopped(Duration duration, const std::stop_token& stop);

}  // namespace shoal
