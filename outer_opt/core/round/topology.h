// Decides what members send to each other, from what is known of them before a reduce: the topology
// for sync.topology = "auto", the parts of a butterfly, the order of a ring. Pure functions; the
// coordinator calls them at every attempt and keeps the verdict with its reason.
#pragma once

#include <vector>

#include "base/fields.h"
#include "base/time.h"
#include "job/job_spec.h"

namespace shoal::outer_opt {

using shoal::to_string;

// A member as far as its line matters.
struct LinkedMember {
  bool reachable = true;   // others can dial it
  double bytes_per_s = 0;  // the slower direction of its line; 0: not known
  bool reducer = false;    // it only averages for the others
};

enum class TopologyReason {
  kAsked,        // the job names it
  kSparse,       // sparse2 has no sum: every encoding goes to all members
  kRobust,       // a robust aggregator needs all contributions to a value at one place
  kSharded,      // outer momentum is kept by the owners of parts
  kUnreachable,  // a member that cannot be dialed breaks a ring, and only lacks a part otherwise
  kManyStreams,  // a butterfly would have more than kStreamsMax streams at every member
  kRequantized,  // so it would, but a ring rounds coarsely at every hop
  kNoReducers,   // the job file sets param_server, but no reducer is available: a butterfly without
                 // them
  kGroups,       // the job averages in groups (groups.h), each of them by a butterfly
  kFewestHops,   // the bytes are the same, a ring takes n-1 hops where a butterfly takes one
};
constexpr auto enumerators_of(Of<TopologyReason>) {
  using enum TopologyReason;
  return enumerators<TopologyReason>({{kAsked, "asked"},
                                      {kSparse, "sparse"},
                                      {kRobust, "robust"},
                                      {kSharded, "sharded"},
                                      {kUnreachable, "unreachable"},
                                      {kManyStreams, "many_streams"},
                                      {kRequantized, "requantised"},
                                      {kNoReducers, "no_reducers"},
                                      {kGroups, "groups"},
                                      {kFewestHops, "fewest_hops"}});
}

struct TopologyChoice {
  Topology topology = Topology::kButterfly;
  TopologyReason reason = TopologyReason::kAsked;
  bool operator==(const TopologyChoice&) const = default;
};
constexpr auto fields_of(Of<TopologyChoice>) {
  using T = TopologyChoice;
  return fields(field<&T::topology>(), field<&T::reason>("topology_reason"));
}

// Streams that one member keeps up to its peers before a ring is preferred.
inline constexpr std::size_t kStreamsMax = 64;

// Never kAuto.
TopologyChoice choose_topology(const SyncSpec& sync, const std::vector<LinkedMember>& members);

// For assign_parts(): the shares that take the least time, in a butterfly and with reducers. With n
// members that train, one with the share w sends and receives 1 + (n-2) w vectors, a reducer n w;
// so with lines b the longest of (1 + (n-2) w_i) / b_i and n w_j / b_j is to be least. Water
// filling gives
//
//   w_i = max(0, (x b_i - 1) / (n-2)),  w_j = x b_j / n
//   with  x = (n - 2 + m) / (sum of b over the m with a part + (n-2)/n * sum of b over reducers)
//
// With equal lines that is BytePS (Jiang et al. 2020, section 4.1): members that train keep a part
// while there are fewer reducers than them. Nobody is faster than his own vector takes, which two
// members need in any case: their reducers get what they carry meanwhile. One alone owns all.
//
// Members that cannot be dialed get nothing. An unknown line counts as the median of the known
// ones; none known, and two members without reducers, for whom every split costs the same, give
// equal shares. If nobody can be dialed, all that train get the same, and the attempt finds out.
std::vector<double> part_shares(const std::vector<LinkedMember>& members);

// The time of a butterfly with these shares, in units of one vector at one byte per second.
double butterfly_time(const std::vector<double>& shares, const std::vector<double>& bytes_per_s);

// Values per frame of a reduce among members with these lines, a power of two: on the slowest known
// line a frame takes about kFrameTime, so that its last one, which everybody waits for, costs
// little; on fast lines larger frames cost less processor time, up to about 1 MiB of message.
// kFrameValuesUsual when no line is known.
std::int64_t frame_values_for(CodecKind codec, const std::vector<LinkedMember>& members);
inline constexpr Duration kFrameTime = milliseconds(2);

// Whether the frames of such a reduce are worth entropy coding (codec/entropy.h): the slowest known
// line carries less than kEntropyBelow bytes per second, which a core codes five times over.
bool pays_entropy_coding(CodecKind codec, const std::vector<LinkedMember>& members);
inline constexpr double kEntropyBelow = 125e6;

// The order of a ring, as indices: by falling speed, so that slow members stand side by side and as
// few connections as possible have a slow end. The order given where speeds are equal or not known.
std::vector<std::size_t> ring_order(const std::vector<LinkedMember>& members);

// For people, e.g. "fewer hops than a ring for the same bytes".
const char* explain(TopologyReason reason);

}  // namespace shoal::outer_opt
