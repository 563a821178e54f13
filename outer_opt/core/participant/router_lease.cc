#include "outer_opt/core/participant/router_lease.h"

#include "base/check.h"

namespace shoal::outer_opt {

RouterLease::RouterLease(std::int64_t microbatch) : microbatch_(microbatch) {
  SHOAL_CHECK(microbatch > 0);
}

void RouterLease::open(const OpenRound& round) {
  LeaseRuns taken = trained_;
  for (const auto& [of, first] : drawn_) taken.push_back({first, microbatch_});
  left_ = without(round.leases, std::move(taken));
}

std::optional<std::int64_t> RouterLease::draw(std::int64_t step, std::int64_t index) {
  if (const std::int64_t* known = drawn_.find({step, index})) return *known;
  if (count_sequences(left_) < microbatch_) return std::nullopt;
  const std::int64_t first = take_first(left_, microbatch_).front().first;
  drawn_.put({step, index}, first);
  return first;
}

void RouterLease::answered(std::int64_t step, std::int64_t index) {
  const std::int64_t* first = drawn_.find({step, index});
  if (first == nullptr) return;
  append(trained_, {*first, microbatch_});
  drawn_.erase({step, index});
}

LeaseRuns RouterLease::reported() {
  LeaseRuns unused;
  for (const auto& [of, first] : drawn_) append(unused, {first, microbatch_});
  for (const DataLease& run : left_) append(unused, run);
  drawn_ = {};
  left_.clear();
  return unused;
}

}  // namespace shoal::outer_opt
