// Why a replica cannot continue, by name: what the trainer reports instead of a stack trace.
#pragma once

#include <optional>
#include <string>

#include "messages/messages.h"

namespace shoal::replica {

struct Failure {
  ReplicaFailure kind = ReplicaFailure::kInternal;
  std::string detail;
};
using MaybeFailure = std::optional<Failure>;  // none: it worked

}  // namespace shoal::replica
