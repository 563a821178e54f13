// Which training sequences of a job are given out, done or returned. Sequences are numbers of the
// job's seeded order; a lease is done only when its round commits, otherwise it comes back and is
// given out again before any new one. The ledger is two fields of JobRecord; these functions are
// their only users.
#pragma once

#include <cstdint>
#include <vector>

#include "outer_opt/core/round/round.h"

namespace shoal::coordinator {

struct DataLedger {
  std::int64_t& next_sequence;
  std::vector<DataLease>& returned;  // disjoint, sorted, not adjacent
};

// A run of exactly `count` sequences: from `returned` when one run there is long enough, else new
// ones. (A lease is one run, so short leftovers wait for a short round; the final round often is
// one.)
DataLease lease(DataLedger ledger, std::int64_t count);

// How many of the `sequences` of one inner step each router draws, in whole microbatches, at least
// one each. Every further microbatch goes to the router that would be through with it first, so
// that the slowest ends as early as it can. Speeds of 0 are not known and count as the mean of the
// others. `sequences` is a multiple of microbatch, and there is one microbatch for everybody.
std::vector<std::int64_t> share_batch(std::int64_t sequences, std::int64_t microbatch,
                                      std::vector<double> speeds);

// Gives a lease back; merges it with its neighbours. Empty leases are ignored. Of more than
// kReturnedMax runs the shortest is forgotten: its sequences are not trained in this pass.
inline constexpr std::size_t kReturnedMax = 256;
void give_back(DataLedger ledger, const DataLease& lease);

}  // namespace shoal::coordinator
