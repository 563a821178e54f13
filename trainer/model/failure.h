// The failures of a replica, as libtorch's trainer names them.
#pragma once

#include "base/result.h"
#include "replica/runtime/failure.h"

namespace shoal::trainer {

using replica::Failure;
using replica::MaybeFailure;

// Errors of data.h: the file is missing or too short, or holds what the model has no word for.
inline Failure data_failure(const Error& error) {
  const bool invalid = error.code == Code::kValidation;
  return {invalid ? ReplicaFailure::kDataInvalid : ReplicaFailure::kDataMissing, to_string(error)};
}

}  // namespace shoal::trainer
