#include "coordinator/core/decisions/data_ledger.h"

#include <algorithm>
#include <numeric>

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

std::vector<std::int64_t> share_batch(std::int64_t sequences, std::int64_t microbatch,
                                      std::vector<double> speeds) {
  const std::size_t routers = speeds.size();
  SHOAL_CHECK(microbatch > 0 && sequences % microbatch == 0);
  SHOAL_CHECK(sequences / microbatch >= static_cast<std::int64_t>(routers));
  const auto known = std::count_if(speeds.begin(), speeds.end(), [](double s) { return s > 0; });
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const double mean = known == 0 ? 1.0 : sum / static_cast<double>(known);
  for (double& speed : speeds) speed = speed > 0 ? speed : mean;
  std::vector<std::int64_t> counts(routers, 1);
  const std::int64_t all = routers == 0 ? 0 : sequences / microbatch;
  for (std::int64_t given = static_cast<std::int64_t>(routers); given < all; ++given) {
    std::size_t first = 0;
    for (std::size_t i = 1; i < routers; ++i) {
      const double ends = static_cast<double>(counts[i] + 1) / speeds[i];
      if (ends < static_cast<double>(counts[first] + 1) / speeds[first]) first = i;
    }
    ++counts[first];
  }
  for (std::int64_t& count : counts) count *= microbatch;
  return counts;
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
  if (runs.size() <= kReturnedMax) return;
  runs.erase(std::min_element(runs.begin(), runs.end(), [](const DataLease& a, const DataLease& b) {
    return a.count < b.count;
  }));
}

}  // namespace shoal::coordinator
