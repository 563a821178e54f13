// Counts of refusals (base/refusals.h) as they travel: from a trainer to its agent, and with
// heartbeats to the coordinator. They are totals since the process began, so a lost message
// loses no count.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fields.h"
#include "base/refusals.h"

namespace shoal {

// How many a port has turned away for one reason since its process began.
struct RefusalCount {
  RefusalReason reason = RefusalReason::kMalformed;
  std::int64_t count = 0;
  bool operator==(const RefusalCount&) const = default;
};
constexpr auto fields_of(Of<RefusalCount>) {
  using T = RefusalCount;
  return fields<&T::reason, &T::count>();
}

// One entry for each reason that has occurred; of several entries the last counts.
inline constexpr std::size_t kRefusalReasonsMax = enumerator_count<RefusalReason>();
std::vector<RefusalCount> to_list(const RefusalCounts& counts);
RefusalCounts to_counts(const std::vector<RefusalCount>& list);

}  // namespace shoal
