#include "outer_opt/core/round/topology.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/frame.h"
#include "outer_opt/core/round/groups.h"
#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt {
namespace {

// The median of the known lines; 1 when none is known.
double typical_line(const std::vector<LinkedMember>& members) {
  std::vector<double> known;
  for (const LinkedMember& m : members) {
    if (m.bytes_per_s > 0) known.push_back(m.bytes_per_s);
  }
  if (known.empty()) return 1;
  std::sort(known.begin(), known.end());
  return known[known.size() / 2];
}

// 0: not reachable.
std::vector<double> lines_of(const std::vector<LinkedMember>& members) {
  const double typical = typical_line(members);
  std::vector<double> lines;
  for (const LinkedMember& m : members) {
    const double known = m.bytes_per_s > 0 ? m.bytes_per_s : typical;
    lines.push_back(m.reachable ? known : 0);
  }
  return lines;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// x of the header, for n > 2 members that train: removes the slowest ones until each of the rest
// gets a share. `reducers` is the sum of the reducers' lines.
double water_level(std::vector<double> lines, double reducers) {
  const auto n = static_cast<double>(lines.size());
  std::sort(lines.begin(), lines.end());
  const double beside = reducers * (n - 2) / n;
  double sum = sum_of(lines);
  auto left = n;
  for (const double line : lines) {
    const double level = (n - 2 + left) / (sum + beside);
    if (level * line > 1) return level;
    sum -= line;
    --left;
  }
  SHOAL_CHECK(reducers > 0, "nobody can own a part");
  return n / reducers;
}

// The lines that the shares follow from.
struct Lines {
  std::vector<double> all, training;  // 0: cannot be dialed
  double reducers = 0;                // sum
  double slowest = 0;                 // of those that train and can be dialed; 0: none can
};

Lines sort_out(const std::vector<LinkedMember>& members) {
  Lines lines{.all = lines_of(members), .training = {}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    const double line = lines.all[i];
    if (members[i].reducer) {
      lines.reducers += line;
      continue;
    }
    lines.training.push_back(line);
    if (line > 0 && (lines.slowest == 0 || line < lines.slowest)) lines.slowest = line;
  }
  return lines;
}

// Equal shares for the members that train and can be dialed; if none can be, for all that train.
std::vector<double> equal_shares(const std::vector<LinkedMember>& members, const Lines& lines) {
  std::vector<double> shares;
  for (const LinkedMember& m : members) {
    shares.push_back(!m.reducer && (m.reachable || lines.slowest == 0) ? 1 : 0);
  }
  return shares;
}

// Two members send and receive one vector each, however the parts are cut: the reducers get as much
// as they carry while the slower of the two does that, the two share the rest.
std::vector<double> shares_of_two(const std::vector<LinkedMember>& members, const Lines& lines) {
  const bool own = lines.slowest > 0;
  const double carried = own ? std::min(1.0, lines.reducers / lines.slowest / 2) : 1.0;
  std::vector<double> shares = equal_shares(members, lines);
  const double owners = sum_of(shares);
  for (std::size_t i = 0; i < members.size(); ++i) {
    shares[i] = members[i].reducer ? carried * lines.all[i] / lines.reducers
                                   : shares[i] * (1 - carried) / owners;
  }
  return shares;
}

std::vector<double> shares_of_many(const std::vector<LinkedMember>& members, const Lines& lines) {
  const auto n = static_cast<double>(lines.training.size());
  const double level = water_level(lines.training, lines.reducers);
  std::vector<double> shares;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const double full = level * lines.all[i];
    shares.push_back(members[i].reducer ? full / n : std::max(0.0, (full - 1) / (n - 2)));
  }
  return shares;
}

// The number of values with which a message is about as large as the usual frame of fp32.
std::int64_t largest_frame(const Codec& codec) {
  constexpr std::size_t kBytes = kFrameValuesUsual * sizeof(float) * 5 / 4;  // block headers fit
  std::int64_t values = kFrameValuesUsual;
  while (values < kFrameValuesMax && codec.encoded_size(2 * values) <= kBytes) values *= 2;
  return values;
}

// In bytes per second; 0: none is known.
double slowest_line(const std::vector<LinkedMember>& members) {
  double slowest = 0;
  for (const LinkedMember& m : members) {
    if (m.bytes_per_s > 0) slowest = slowest > 0 ? std::min(slowest, m.bytes_per_s) : m.bytes_per_s;
  }
  return slowest;
}

}  // namespace

TopologyChoice choose_topology(const SyncSpec& sync, const std::vector<LinkedMember>& members) {
  const bool reducers =
      std::any_of(members.begin(), members.end(), [](const auto& m) { return m.reducer; });
  if (sync.topology == Topology::kParamServer && !reducers) {
    return {Topology::kButterfly, TopologyReason::kNoReducers};
  }
  if (averages_in_groups(sync)) return {Topology::kButterfly, TopologyReason::kGroups};
  if (sync.codec == CodecKind::kSparse2) return {Topology::kAllgather, TopologyReason::kSparse};
  if (sync.topology != Topology::kAuto) return {sync.topology, TopologyReason::kAsked};
  if (sync.outer_state == OuterState::kSharded) {
    return {Topology::kButterfly, TopologyReason::kSharded};
  }
  if (sync.aggregator != Aggregator::kMean) return {Topology::kButterfly, TopologyReason::kRobust};
  const bool all_reachable =
      std::all_of(members.begin(), members.end(), [](const auto& m) { return m.reachable; });
  if (!all_reachable) return {Topology::kButterfly, TopologyReason::kUnreachable};
  if (members.size() <= kStreamsMax + 1) {
    return {Topology::kButterfly, TopologyReason::kFewestHops};
  }
  if (traits_of(sync.codec).is_coarse()) {
    return {Topology::kButterfly, TopologyReason::kRequantized};
  }
  return {Topology::kRing, TopologyReason::kManyStreams};
}

std::vector<double> part_shares(const std::vector<LinkedMember>& members) {
  const Lines lines = sort_out(members);
  const bool owned = lines.reducers > 0 || lines.slowest > 0;
  if (owned && lines.training.size() > 2) return shares_of_many(members, lines);
  if (lines.reducers > 0 && lines.training.size() == 2) return shares_of_two(members, lines);
  return equal_shares(members, lines);
}

double butterfly_time(const std::vector<double>& shares, const std::vector<double>& bytes_per_s) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double others = static_cast<double>(shares.size()) - 2;
  double longest = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    longest = std::max(longest, (1 + others * shares[i] / total) / bytes_per_s[i]);
  }
  return longest;
}

std::int64_t frame_values_for(CodecKind codec, const std::vector<LinkedMember>& members) {
  if (codec == CodecKind::kSparse2) return kFrameValuesUsual;  // never more than some KiB
  const double slowest = slowest_line(members);
  if (slowest <= 0) return kFrameValuesUsual;
  const Codec& c = outer_opt::codec(codec);
  const std::int64_t largest = largest_frame(c);
  const auto bytes = static_cast<double>(c.encoded_size(static_cast<std::size_t>(largest)));
  const double fitting = slowest * kFrameTime.seconds() * static_cast<double>(largest) / bytes;
  std::int64_t values = kFrameValuesMin;
  while (values < largest && static_cast<double>(values * 2) <= fitting) values *= 2;
  return values;
}

bool pays_entropy_coding(CodecKind codec, const std::vector<LinkedMember>& members) {
  const double slowest = slowest_line(members);
  return traits_of(codec).planes > 0 && slowest > 0 && slowest < kEntropyBelow;
}

std::vector<std::size_t> ring_order(const std::vector<LinkedMember>& members) {
  const std::vector<double> lines = lines_of(members);
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lines[a] > lines[b]; });
  return order;
}

const char* explain(TopologyReason reason) {
  switch (reason) {
    case TopologyReason::kAsked:
      return "sync.topology asks for it";
    case TopologyReason::kSparse:
      return "sparse2 has no sum: every encoding goes to all members";
    case TopologyReason::kRobust:
      return "a robust aggregator needs all contributions to a value at one place";
    case TopologyReason::kSharded:
      return "outer momentum is kept by the owners of parts";
    case TopologyReason::kUnreachable:
      return "a member that cannot be dialed would break a ring";
    case TopologyReason::kManyStreams:
      return "a butterfly would have too many streams at every member";
    case TopologyReason::kRequantized:
      return "a ring would round coarsely at every hop";
    case TopologyReason::kNoReducers:
      return "the job file sets param_server, but no reducer is available";
    case TopologyReason::kGroups:
      return "the job averages in groups, each of them by a butterfly";
    case TopologyReason::kFewestHops:
      return "fewer hops than a ring for the same bytes";
  }
  return "unknown";
}

}  // namespace shoal::outer_opt
