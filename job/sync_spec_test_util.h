// For tests that want a spec with other keys of [sync], as a job file would give them.
#pragma once

#include "base/check.h"
#include "job/job_rules.h"
#include "job/sync_rules.h"

namespace shoal {

// Changes the [sync] table of a spec. Its keys must not contradict each other afterwards.
template <typename Change>
void change_sync(JobSpec& spec, const Change& change) {
  change(spec.sync);
  FieldChecker checker;
  check_contradictions(spec, checker);
  const auto refused = checker.take();
  SHOAL_CHECK(refused.empty(), (refused.front().pointer + " " + refused.front().detail).c_str());
  spec.sync = effective_sync(spec);
}

// The SyncSpec of a job file that says no more than what `change` writes.
template <typename Change>
SyncSpec sync_with(const Change& change) {
  JobSpec spec;
  change_sync(spec, change);
  return spec.sync;
}

// The [sync] table of a job file that names only the algorithm.
inline SyncSpec sync_of(SyncAlgorithm algorithm) { return default_spec(algorithm).sync; }

}  // namespace shoal
