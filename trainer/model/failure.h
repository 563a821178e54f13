// Why a replica cannot go on, by name: what the trainer reports instead of a stack trace.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "swarm/core/messages.h"

namespace shoal::trainer {

struct Failure {
  ReplicaFailure kind = ReplicaFailure::kInternal;
  std::string detail;
};

using MaybeFailure = std::optional<Failure>;  // none: it worked

// Errors of data.h: the file is missing or too short, or holds what the model has no word for.
inline Failure data_failure(const Error& error) {
  const bool invalid = error.code == Code::kValidation;
  return {invalid ? ReplicaFailure::kDataInvalid : ReplicaFailure::kDataMissing, to_string(error)};
}

}  // namespace shoal::trainer
