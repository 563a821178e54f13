#include "coordinator/core/decisions/plan_cluster.h"

#include <algorithm>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::coordinator {
namespace {

constexpr std::size_t kManyValues = 1 << 20;
constexpr double kSparseBytes = 0.25;  // of a value with sparse2: indices and two bits (sparse2.h)
constexpr double kNeverAveraged = 1e12;  // steps

// Devices with the same key share a line.
std::string line_key(const PlannedDevice& device) {
  const bool own = is_measured_by_peers(device.at.line) || device.at.host.empty();
  return own ? to_string(device.agent) : "host " + device.at.host;
}

bool are_on_one_host(const std::vector<PlannedDevice>& devices) {
  return !devices.empty() && std::ranges::all_of(devices, [&](const PlannedDevice& device) {
    return !device.at.host.empty() && device.at.host == devices.front().at.host;
  });
}

// To the others. The way to the coordinator says nothing of that inside a host.
double round_trip_of(const AgentLine& line, bool inside_a_host) {
  return line.to_coordinator && inside_a_host ? 0 : line.round_trip.seconds();
}

double rate_of(const AgentLine& line) {
  return is_measured(line) ? line.bytes_per_s() : std::max(kAssumedLine, line.bytes_per_s());
}

// The line of a host carries what the best of its agents has; a measurement of one of them replaces
// what is assumed of the others.
void widen(swarm::SharedLine& shared, bool& measured, const AgentLine& line) {
  if (measured && !is_measured(line)) return;
  if (!measured && is_measured(line)) shared.bytes_per_s = 0, measured = true;
  shared.bytes_per_s = std::max(shared.bytes_per_s, rate_of(line));
}

double bytes_of_value(CodecKind kind) {
  if (kind == CodecKind::kSparse2) return kSparseBytes;
  return static_cast<double>(outer_opt::codec(kind).encoded_size(kManyValues)) / kManyValues;
}

// Rounds by time have as many steps as fit, so that their average costs next to nothing.
swarm::Averaging averaging_of(const SyncSpec& sync) {
  if (sync.algorithm == SyncAlgorithm::kNone) return {};
  swarm::Averaging averaging;
  averaging.bytes_per_value = bytes_of_value(sync.codec);
  averaging.steps = sync.every_s > 0 ? kNeverAveraged
                                     : static_cast<double>(outer_opt::round_length(sync).count());
  averaging.steps_behind = static_cast<double>(sync.overlap_steps.count());
  averaging.share = 1.0 / static_cast<double>(std::max<std::int64_t>(1, sync.fragments));
  return averaging;
}

}  // namespace

bool has_equal_steps(const JobSpec& spec) {
  return spec.sync.balance == Balance::kEqual && spec.sync.every_s == 0 &&
         spec.sync.algorithm != SyncAlgorithm::kAsync;
}

swarm::Cluster cluster_of(const JobSpec& spec, const std::vector<PlannedDevice>& devices,
                          const SiteLines& sites) {
  swarm::Cluster cluster;
  FlatMap<std::string, swarm::SharedLine> lines;
  FlatMap<std::string, bool> measured;
  const bool inside_a_host = are_on_one_host(devices);
  for (const PlannedDevice& device : devices) {
    const auto index = static_cast<std::int32_t>(cluster.agents.size());
    cluster.agents.push_back(
        {device.agent, device.flops_per_s, device.memory, device.domain, device.group});
    cluster.round_trip_s.push_back(round_trip_of(device.at.line, inside_a_host));
    const std::string key = line_key(device);
    swarm::SharedLine& own = lines[key];
    own.agents.push_back(index);
    widen(own, measured[key], device.at.line);
    const AgentLine* uplink = device.at.site.empty() ? nullptr : sites.find(device.at.site);
    if (uplink == nullptr || !is_measured(*uplink)) continue;
    swarm::SharedLine& shared = lines["site " + device.at.site];
    shared.agents.push_back(index);
    shared.bytes_per_s = uplink->bytes_per_s();
  }
  for (const auto& [key, line] : lines) cluster.lines.push_back(line);
  cluster.microbatches_per_router =
      spec.train.batch / std::max<std::int64_t>(1, spec.train.microbatch);  // 0: not derived
  cluster.equal_steps = has_equal_steps(spec);
  cluster.averaging = averaging_of(spec.sync);
  return cluster;
}

LineSources sources_of_lines(const std::vector<PlannedDevice>& devices) {
  FlatMap<AgentId, AgentLine> lines;
  for (const PlannedDevice& device : devices) lines.put(device.agent, device.at.line);
  LineSources sources;
  for (const auto& [agent, line] : lines) {
    if (!is_measured(line)) {
      ++sources.assumed;
      continue;
    }
    ++(line.to_coordinator ? sources.to_coordinator : sources.to_peers);
    const bool is_first = sources.oldest == Instant();
    sources.oldest = is_first ? line.measured_at : std::min(sources.oldest, line.measured_at);
  }
  return sources;
}

}  // namespace shoal::coordinator
