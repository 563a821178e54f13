#include "outer_opt/core/round/round.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace shoal {

std::int64_t count_sequences(const std::vector<DataLease>& leases) {
  std::int64_t count = 0;
  for (const DataLease& lease : leases) count += lease.count;
  return count;
}

std::int64_t sequence_at(const std::vector<DataLease>& leases, std::int64_t index) {
  for (const DataLease& lease : leases) {
    if (index < lease.count) return lease.first + index;
    index -= lease.count;
  }
  return leases.empty() ? index : leases.back().first + leases.back().count + index;
}

void assign_parts(ReducePlan& plan, const std::vector<double>& shares) {
  const std::size_t n = plan.members.size();
  SHOAL_CHECK(shares.size() == n && n > 0);
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  SHOAL_CHECK(total > 0, "nobody can own a part");

  std::vector<std::int64_t> counts(n);
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double exact = static_cast<double>(plan.value_count) * shares[i] / total;
    counts[i] = static_cast<std::int64_t>(std::floor(exact));
    given += counts[i];
    if (shares[i] > 0) remainders.emplace_back(static_cast<double>(counts[i]) - exact, i);
  }
  std::sort(remainders.begin(), remainders.end());  // largest remainder first, then the lower index
  for (std::size_t k = 0; given < plan.value_count; ++k, ++given) {
    ++counts[remainders[k % remainders.size()].second];
  }
  // Rounding in double may have given one too many near 2^50 values.
  for (std::size_t i = n; given > plan.value_count; i = i == 1 ? n : i - 1) {
    if (counts[i - 1] > 0) --counts[i - 1], --given;
  }
  std::int64_t first = 0;
  for (std::size_t i = 0; i < n; ++i) {
    plan.members[i].part_first = first;
    plan.members[i].part_count = counts[i];
    first += counts[i];
  }
  SHOAL_CHECK(first == plan.value_count);
}

}  // namespace shoal
