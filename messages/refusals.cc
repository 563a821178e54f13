#include "messages/refusals.h"

namespace shoal {

std::vector<RefusalCount> to_list(const RefusalCounts& counts) {
  std::vector<RefusalCount> list;
  for (const auto& [reason, word] : kEnumerators<RefusalReason>) {
    if (counts[reason] != 0) list.push_back({reason, counts[reason]});
  }
  return list;
}

RefusalCounts to_counts(const std::vector<RefusalCount>& list) {
  RefusalCounts counts;
  for (const RefusalCount& each : list) counts[each.reason] = each.count;
  return counts;
}

}  // namespace shoal
