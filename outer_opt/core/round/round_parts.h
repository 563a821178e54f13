// The parts of a round's messages that the coordinator keeps in its records: the key, leases,
// reports, and what a reduce cost. Each has its list of fields (base/fields.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"

namespace shoal {

// Names one round of one job. `epoch` counts how often the job was rolled back to a checkpoint,
// so a message from before a rollback can be told from one after it.
struct RoundKey {
  JobId job;
  std::int64_t epoch = 0;
  RoundNumber round = 0;
  auto operator<=>(const RoundKey&) const = default;
};
constexpr auto fields_of(Of<RoundKey>) {
  using T = RoundKey;
  return fields(field<&T::job>(or_none()), field<&T::epoch>(), field<&T::round>());
}

// Training sequences [first, first + count) of the job's seeded order; they belong to one replica
// for one round and count as done when the round commits.
struct DataLease {
  std::int64_t first = 0;
  std::int64_t count = 0;
  auto operator<=>(const DataLease&) const = default;
};
constexpr auto fields_of(Of<DataLease>) {
  using T = DataLease;
  return fields_as_array(field<&T::first>(), field<&T::count>());
}

// Runs that one order leases: gaps of earlier rounds are given out first.
inline constexpr std::size_t kLeaseRunsMax = 64;
inline constexpr std::size_t kReturnedRunsMax = 65'536;  // that a job's ledger keeps

// A range of the outer momentum of the newest committed round, and a replica that keeps it.
struct MomentumHolder {
  ReplicaId replica;
  std::string address;
  std::int64_t first = 0, count = 0;
  bool operator==(const MomentumHolder&) const = default;
};
constexpr auto fields_of(Of<MomentumHolder>) {
  using T = MomentumHolder;
  return fields<&T::replica, &T::address, &T::first, &T::count>();
}

// How a trainer reaches another one: it dials it, uses a connection that the other one dialed, or
// goes over a relay.
enum class PeerWay { kUnknown, kDirect, kReverse, kRelayed, kUnreachable };
constexpr auto enumerators_of(Of<PeerWay>) {
  using enum PeerWay;
  return enumerators<PeerWay>({{kUnknown, "unknown"},
                               {kDirect, "direct"},
                               {kReverse, "reverse"},
                               {kRelayed, "relayed"},
                               {kUnreachable, "unreachable"}});
}

// What one trainer knows of its line to another; zero: not measured.
struct LinkEstimate {
  ReplicaId peer;
  Duration round_trip;
  // Bytes, to the peer and from it; 0: not measured since the last report.
  double to_per_s = 0, from_per_s = 0;
  bool reached = true;              // false: there was no way to it; nothing else is known
  PeerWay way = PeerWay::kUnknown;  // to the peer
  bool at_least = false;            // from_per_s: traffic has shown it, no probe
  bool operator==(const LinkEstimate&) const = default;
};
constexpr auto fields_of(Of<LinkEstimate>) {
  using T = LinkEstimate;
  return fields(field<&T::peer>(), field<&T::round_trip>(), field<&T::to_per_s>(),
                field<&T::from_per_s>(), field<&T::reached>(), field<&T::way>(or_none()),
                field<&T::at_least>());
}

inline constexpr std::size_t kLinksMax = 64;  // peers of which a trainer keeps an estimate

// What a replica says at its boundary. Norm and maximum are those of the pseudo-gradient.
struct RoundReport {
  RoundKey key;
  Tokens tokens;  // behind the pseudo-gradient: added here since its fragment was last averaged
  Steps steps;
  // The loss and the two measures may be no number, which is what `nonfinite` tells.
  double train_loss = 0;  // nats per token: of a router the mean over `drawn`, else over `tokens`
  double norm = 0;        // Euclidean
  double max_abs = 0;
  std::int64_t nonfinite = 0;  // > 0: no usable pseudo-gradient, takes part with weight 0
  double compute_s = 0;        // seconds spent in inner steps
  Tokens drawn;                // of the microbatches that this router drew and got answered; 0: no
                               // router. With one stage and one fragment the same as `tokens`
  double stall_s = 0;          // seconds without anything to train since the round before
  std::vector<LinkEstimate> links;  // that changed since the last report, kLinksMax at most
  std::int32_t aborts = 0;          // of the order that it answers
  Steps skipped;  // of `steps`: loss or gradient was not finite, so they changed nothing
  std::vector<DataLease> unused;  // leased, and never to be trained by this replica
  // Euclidean norm of what it sends, where that is not the pseudo-gradient (sparse2); 0: it is.
  double sent_norm = 0;
  bool operator==(const RoundReport&) const = default;
};
constexpr auto fields_of(Of<RoundReport>) {
  using T = RoundReport;
  return fields(field<&T::key>(flat()), field<&T::tokens>(), field<&T::steps>(),
                field<&T::train_loss>(any_number()), field<&T::norm>(any_number()),
                field<&T::max_abs>(any_number()), field<&T::nonfinite>(), field<&T::compute_s>(),
                field<&T::drawn>(), field<&T::stall_s>(),
                field<&T::links>(not_kept("a LinkRecord per line has them") | at_most(kLinksMax)),
                field<&T::aborts>(not_kept("names the order that a report answers")),
                field<&T::skipped>(),
                field<&T::unused>(not_kept("goes back to the ledger of the job at once") |
                                  at_most(kReturnedRunsMax)),
                field<&T::sent_norm>());
}

// Bytes on the sockets of this attempt and where the time went.
struct ReduceStats {
  Bytes sent, received;
  double reduce_s = 0;  // first byte to average complete
  bool operator==(const ReduceStats&) const = default;
};
constexpr auto fields_of(Of<ReduceStats>) {
  using T = ReduceStats;
  return fields(field<&T::sent>("bytes_sent"), field<&T::received>("bytes_received"),
                field<&T::reduce_s>());
}

enum class AbortReason { kAttemptsSpent, kTimeSpent, kNoUsableContribution, kBelowMinReplicas };
constexpr auto enumerators_of(Of<AbortReason>) {
  using enum AbortReason;
  return enumerators<AbortReason>({{kAttemptsSpent, "attempts_spent"},
                                   {kTimeSpent, "time_spent"},
                                   {kNoUsableContribution, "no_usable_contribution"},
                                   {kBelowMinReplicas, "below_min_replicas"}});
}

}  // namespace shoal
