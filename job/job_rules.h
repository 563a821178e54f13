// The rules that the values of a job specification have to keep, and the defaults that depend on
// its algorithm. Specs are checked where they enter: REST, CLI and dry run (proto/job_spec_text.h).
#pragma once

#include <cstdint>
#include <vector>

#include "base/field_error.h"
#include "job/job_spec.h"

namespace shoal {

constexpr std::int64_t kMaxReplicas = 10'000;  // per stage

// The spec of a job file that names only the algorithm and the outer optimizer, which has a
// learning rate of its own: local_sgd has an outer step that only averages; ddp has rounds of one
// step, exact averages, and evaluations and checkpoints as many inner steps apart as diloco's.
JobSpec default_spec(SyncAlgorithm algorithm, OuterMethod outer = OuterMethod::kNesterov);

// The author of a spec: a submitter; or Shoal, for its store, messages and checkpoints, where the
// spec of an agent has no name.
enum class Author { kSubmitter, kShoal };

// Every broken rule, in the order of the fields; empty when the spec is good.
std::vector<FieldError> validate(const JobSpec& spec, Author author = Author::kSubmitter);

}  // namespace shoal
