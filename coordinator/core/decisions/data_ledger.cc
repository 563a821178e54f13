#include "coordinator/core/decisions/data_ledger.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "outer_opt/core/round/lease_runs.h"

namespace shoal::coordinator {

namespace {

using outer_opt::LeaseRuns;

// Which runs of `returned` are given out first.
std::vector<DataLease> next_of(const std::vector<DataLease>& returned, std::size_t most) {
  std::vector<DataLease> runs = returned;
  const auto end = runs.begin() + static_cast<std::ptrdiff_t>(std::min(most, runs.size()));
  if (runs.size() > kReturnedUsual) {
    std::partial_sort(runs.begin(), end, runs.end(), [](const DataLease& a, const DataLease& b) {
      return a.count != b.count ? a.count < b.count : a.first < b.first;
    });
  }
  runs.erase(end, runs.end());
  return runs;
}

void give_back_run(std::vector<DataLease>& runs, const DataLease& run) {
  if (run.count == 0) return;
  const auto next = std::lower_bound(runs.begin(), runs.end(), run);
  SHOAL_CHECK(next == runs.end() || run.first + run.count <= next->first, "returned twice");
  SHOAL_CHECK(next == runs.begin() || (next - 1)->first + (next - 1)->count <= run.first,
              "returned twice");
  auto it = runs.insert(next, run);
  if (it + 1 != runs.end() && it->first + it->count == (it + 1)->first) {
    it->count += (it + 1)->count;
    runs.erase(it + 1);
  }
  if (it != runs.begin() && (it - 1)->first + (it - 1)->count == it->first) {
    (it - 1)->count += it->count;
    runs.erase(it);
  }
}

}  // namespace

std::vector<DataLease> lease(DataLedger ledger, std::int64_t count, std::size_t runs_max) {
  SHOAL_CHECK(count >= 0 && runs_max > 0);
  if (count == 0) return {};
  LeaseRuns before = next_of(ledger.returned, runs_max - 1);
  LeaseRuns given = outer_opt::take_first(before, count);
  ledger.returned = outer_opt::without(ledger.returned, given);
  const std::int64_t missing = count - count_sequences(given);
  outer_opt::append(given, {ledger.next_sequence, missing});
  ledger.next_sequence += missing;
  return given;
}

namespace {

// The run of `returned` that this replica takes next: the one that continues its last lease, else
// the first that no other replica waits for. None: other replicas wait for all of them.
std::optional<DataLease> run_for(const std::vector<DataLease>& returned, const LeasePlace& place) {
  std::optional<DataLease> orphan;
  for (const DataLease& run : returned) {
    if (run.first == place.from) return run;
    const bool waits = std::ranges::find(place.others, run.first) != place.others.end();
    if (!waits && !orphan) orphan = run;
  }
  return orphan;
}

}  // namespace

std::vector<DataLease> lease_at(DataLedger ledger, std::int64_t count, std::size_t runs_max,
                                const LeasePlace& place) {
  if (place.unit == 0 || ledger.returned.size() > kReturnedUsual) {
    return lease(ledger, count, runs_max);
  }
  LeaseRuns given;
  LeasePlace here = place;
  while (count > 0 && given.size() + 1 < runs_max) {
    const auto run = run_for(ledger.returned, here);
    if (!run) break;
    const DataLease taken{run->first, std::min(run->count, count)};
    ledger.returned = outer_opt::without(ledger.returned, {taken});
    outer_opt::append(given, taken);
    count -= taken.count;
    here.from = taken.first + taken.count;
  }
  if (count == 0) return given;
  const std::int64_t end = ledger.next_sequence + count;
  outer_opt::append(given, {ledger.next_sequence, count});
  ledger.next_sequence = (end + place.unit - 1) / place.unit * place.unit;
  give_back(ledger, {{end, ledger.next_sequence - end}});
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

void give_back(DataLedger ledger, const std::vector<DataLease>& runs) {
  for (const DataLease& run : runs) {
    SHOAL_CHECK(run.first + run.count <= ledger.next_sequence, "returned, and never leased");
    give_back_run(ledger.returned, run);
  }
}

}  // namespace shoal::coordinator
