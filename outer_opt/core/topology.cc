#include "outer_opt/core/topology.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "outer_opt/core/codec.h"
#include "outer_opt/core/round.h"

namespace shoal::outer_opt {
namespace {

// Of the known ones; 1 when none is.
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

// x of the header: the slowest members go until everybody left gets something.
double water_level(std::vector<double> lines, double n) {
  std::sort(lines.begin(), lines.end());
  double sum = std::accumulate(lines.begin(), lines.end(), 0.0);
  auto left = static_cast<double>(lines.size());
  for (const double line : lines) {
    const double level = (n - 2 + left) / sum;
    if (line > 0 && level * line > 1) return level;
    sum -= line;
    --left;
  }
  SHOAL_CHECK(false, "nobody can own a part");
}

bool is_four_bits(CodecKind codec) {
  return codec == CodecKind::kInt4 || codec == CodecKind::kE3m0;
}

}  // namespace

TopologyChoice choose_topology(const SyncSpec& sync, const std::vector<LinkedMember>& members) {
  if (sync.topology != Topology::kAuto) return {sync.topology, TopologyReason::kAsked};
  if (sync.codec == CodecKind::kSparse2) return {Topology::kAllgather, TopologyReason::kSparse};
  if (sync.aggregator != Aggregator::kMean) return {Topology::kButterfly, TopologyReason::kRobust};
  const bool all_reachable =
      std::all_of(members.begin(), members.end(), [](const auto& m) { return m.reachable; });
  if (!all_reachable) return {Topology::kButterfly, TopologyReason::kUnreachable};
  if (members.size() <= kStreamsMax + 1) {
    return {Topology::kButterfly, TopologyReason::kFewestHops};
  }
  if (is_four_bits(sync.codec)) return {Topology::kButterfly, TopologyReason::kRequantised};
  return {Topology::kRing, TopologyReason::kManyStreams};
}

std::vector<double> part_shares(const std::vector<LinkedMember>& members) {
  const std::vector<double> lines = lines_of(members);
  const auto n = static_cast<double>(members.size());
  std::vector<double> shares;
  for (const double line : lines) shares.push_back(line > 0 ? 1 : 0);
  const bool nobody = std::accumulate(shares.begin(), shares.end(), 0.0) <= 0;
  if (nobody) return std::vector<double>(members.size(), 1.0);
  if (members.size() <= 2) return shares;
  const double level = water_level(lines, n);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    shares[i] = std::max(0.0, (level * lines[i] - 1) / (n - 2));
  }
  return shares;
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
  double slowest = 0;
  for (const LinkedMember& m : members) {
    if (m.bytes_per_s > 0) slowest = slowest > 0 ? std::min(slowest, m.bytes_per_s) : m.bytes_per_s;
  }
  if (slowest <= 0) return kFrameValuesUsual;
  const auto usual = static_cast<double>(outer_opt::codec(codec).encoded_size(kFrameValuesUsual));
  const double fitting = slowest * kFrameTime.seconds() * kFrameValuesUsual / usual;
  std::int64_t values = kFrameValuesMin;
  while (values < kFrameValuesUsual && static_cast<double>(values * 2) <= fitting) values *= 2;
  return values;
}

std::vector<std::size_t> ring_order(const std::vector<LinkedMember>& members) {
  const std::vector<double> lines = lines_of(members);
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lines[a] > lines[b]; });
  return order;
}

const char* to_string(TopologyReason reason) {
  switch (reason) {
    case TopologyReason::kAsked:
      return "asked";
    case TopologyReason::kSparse:
      return "sparse";
    case TopologyReason::kRobust:
      return "robust";
    case TopologyReason::kUnreachable:
      return "unreachable";
    case TopologyReason::kManyStreams:
      return "many_streams";
    case TopologyReason::kRequantised:
      return "requantised";
    case TopologyReason::kFewestHops:
      return "fewest_hops";
  }
  return "unknown";
}

const char* explain(TopologyReason reason) {
  switch (reason) {
    case TopologyReason::kAsked:
      return "the job names it";
    case TopologyReason::kSparse:
      return "sparse2 has no sum: every encoding goes to everybody";
    case TopologyReason::kRobust:
      return "a robust aggregator needs all contributions to a value at one place";
    case TopologyReason::kUnreachable:
      return "a member that cannot be dialled would break a ring";
    case TopologyReason::kManyStreams:
      return "a butterfly would have too many streams at every member";
    case TopologyReason::kRequantised:
      return "a ring would round to four bits at every hop";
    case TopologyReason::kFewestHops:
      return "fewer hops than a ring for the same bytes";
  }
  return "unknown";
}

}  // namespace shoal::outer_opt
