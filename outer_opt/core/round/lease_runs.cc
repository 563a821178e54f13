#include "outer_opt/core/round/lease_runs.h"

#include <algorithm>
#include <limits>

namespace shoal::outer_opt {
namespace {

std::int64_t end_of(const DataLease& run) { return run.first + run.count; }

}  // namespace

void append(LeaseRuns& runs, const DataLease& run) {
  if (run.count == 0) return;
  if (!runs.empty() && end_of(runs.back()) == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

LeaseRuns take_first(LeaseRuns& runs, std::int64_t count) {
  LeaseRuns taken, rest;
  for (const DataLease& run : runs) {
    const std::int64_t here = std::min(count, run.count);
    count -= here;
    append(taken, {run.first, here});
    append(rest, {run.first + here, run.count - here});
  }
  runs = std::move(rest);
  return taken;
}

LeaseRuns without(const LeaseRuns& runs, LeaseRuns taken) {
  std::sort(taken.begin(), taken.end());
  LeaseRuns left;
  for (const DataLease& run : runs) {
    std::int64_t at = run.first;
    auto it = std::partition_point(taken.begin(), taken.end(),
                                   [&](const DataLease& t) { return end_of(t) <= run.first; });
    for (; it != taken.end() && it->first < end_of(run); ++it) {
      if (it->first > at) append(left, {at, it->first - at});
      at = std::max(at, end_of(*it));
    }
    if (at < end_of(run)) append(left, {at, end_of(run) - at});
  }
  return left;
}

bool well_formed(const LeaseRuns& runs, std::int64_t unit) {
  if (runs.size() > kLeaseRunsMax) return false;
  LeaseRuns sorted = runs;
  std::sort(sorted.begin(), sorted.end());
  std::int64_t end = 0;
  for (const DataLease& run : sorted) {
    const bool counted = run.first >= end && run.count >= 0 && run.count % unit == 0;
    if (!counted || run.count > std::numeric_limits<std::int64_t>::max() - run.first) return false;
    end = end_of(run);
  }
  return true;
}

}  // namespace shoal::outer_opt
