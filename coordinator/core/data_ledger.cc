#include "coordinator/core/data_ledger.h"

#include <algorithm>

#include "base/check.h"

namespace shoal::coordinator {

DataLease lease(DataLedger ledger, std::int64_t count) {
  SHOAL_CHECK(count >= 0);
  for (auto it = ledger.returned.begin(); count > 0 && it != ledger.returned.end(); ++it) {
    if (it->count < count) continue;
    const DataLease given{it->first, count};
    it->first += count;
    it->count -= count;
    if (it->count == 0) ledger.returned.erase(it);
    return given;
  }
  const DataLease given{ledger.next_sequence, count};
  ledger.next_sequence += count;
  return given;
}

void give_back(DataLedger ledger, const DataLease& lease) {
  if (lease.count == 0) return;
  auto& runs = ledger.returned;
  const auto next = std::lower_bound(runs.begin(), runs.end(), lease);
  SHOAL_CHECK(next == runs.end() || lease.first + lease.count <= next->first, "returned twice");
  SHOAL_CHECK(next == runs.begin() || (next - 1)->first + (next - 1)->count <= lease.first,
              "returned twice");
  auto it = runs.insert(next, lease);
  if (it + 1 != runs.end() && it->first + it->count == (it + 1)->first) {
    it->count += (it + 1)->count;
    runs.erase(it + 1);
  }
  if (it != runs.begin() && (it - 1)->first + (it - 1)->count == it->first) {
    (it - 1)->count += it->count;
    runs.erase(it);
  }
}

}  // namespace shoal::coordinator
