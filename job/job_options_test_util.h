// For tests that want a spec with other options, as a job file would give them.
#pragma once

#include "base/check.h"
#include "job/sync_rules.h"

namespace shoal {

// Changes the [sync] table of a spec: `change` gets its SyncOptions. They must not contradict each
// other when it is done.
template <typename Change>
void change_sync(JobSpec& spec, const Change& change) {
  JobOptions options = options_of(spec);
  change(options.sync);
  FieldChecker checker;
  check_contradictions(options, checker);
  const auto refused = checker.take();
  SHOAL_CHECK(refused.empty(), (refused.front().pointer + " " + refused.front().detail).c_str());
  spec.sync = parse_sync(options);
}

// The SyncSpec of a job file that says no more than what `change` writes.
template <typename Change>
SyncSpec sync_with(const Change& change) {
  JobSpec spec;
  change_sync(spec, change);
  return spec.sync;
}

}  // namespace shoal
