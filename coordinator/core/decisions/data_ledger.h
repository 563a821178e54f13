// Which training sequences of a job are given out, done or returned. Sequences are numbers of the
// job's seeded order; each is given out to one replica at a time, and done when the round that
// trained it commits. What comes back is given out again before anything new. The ledger is two
// fields of JobRecord; these functions are their only users, and none of them forgets a sequence:
//
//   [0, next_sequence) = done + returned + the leases of the open round
//
// How many runs there are. A lease takes several runs at once, and what comes back of it is a part
// of them, so a lease adds one run at most, where it ends within one; and it ends as many as its
// replica trains. While there are more than kReturnedUsual the shortest are given out first, which
// ends the most of them. Members that return the larger part of every lease cause no more than
// kReturnedUsual runs plus four each, in thousands of rounds (data_ledger_test.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "outer_opt/core/round/round.h"

namespace shoal::coordinator {

struct DataLedger {
  std::int64_t& next_sequence;
  std::vector<DataLease>& returned;  // disjoint, sorted, not adjacent
};

// Exactly `count` sequences in `runs_max` runs at most, at least 1: returned ones in their order
// (or the shortest, see above), and what is missing is new. None for 0.
inline constexpr std::size_t kReturnedUsual = 256;
std::vector<DataLease> lease(DataLedger ledger, std::int64_t count, std::size_t runs_max);

// Where a replica reads: datasets are fetched in chunks, and who continues where it was needs few
// that others need, too. New sequences are then given out in whole runs of `unit`, from one
// multiple of it to the next. What a replica does not take of its run is returned at once, and
// waits for it in the ledger; others take what nobody waits for before they begin a run of their
// own.
struct LeasePlace {
  std::int64_t unit = 0;             // 0: new sequences are given out as they come
  std::int64_t from = -1;            // where this replica ended; -1: nowhere yet
  std::vector<std::int64_t> others;  // where the other replicas did
};
std::vector<DataLease> lease_at(DataLedger ledger, std::int64_t count, std::size_t runs_max,
                                const LeasePlace& place);

// How many of the `sequences` of one inner step each router draws, in whole microbatches, at least
// one each. Every further microbatch goes to the router that would be through with it first, so
// that the slowest ends as early as it can. Speeds of 0 are not known and count as the mean of the
// others. `sequences` is a multiple of microbatch, and there is one microbatch for everybody.
std::vector<std::int64_t> share_batch(std::int64_t sequences, std::int64_t microbatch,
                                      std::vector<double> speeds);

// Gives runs back, which merge with their neighbors. Empty ones are ignored.
void give_back(DataLedger ledger, const std::vector<DataLease>& runs);

}  // namespace shoal::coordinator
