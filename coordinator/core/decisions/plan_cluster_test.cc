#include "coordinator/core/decisions/plan_cluster.h"

#include <gmock/gmock.h>

#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

PlannedDevice device(std::uint64_t agent, const char* host, double line = 0,
                     const char* site = "") {
  PlannedDevice device{.agent = AgentId(agent), .flops_per_s = 1e12};
  device.at = {host, site, {.up = line, .down = line}};
  return device;
}

std::vector<std::pair<std::vector<std::int32_t>, double>> lines_of(
    const std::vector<PlannedDevice>& devices, const SiteLines& sites = {}) {
  std::vector<std::pair<std::vector<std::int32_t>, double>> lines;
  for (const auto& line : cluster_of(default_spec(SyncAlgorithm::kDiloco), devices, sites).lines) {
    lines.emplace_back(line.agents, line.bytes_per_s);
  }
  return lines;
}

using Line = std::pair<std::vector<std::int32_t>, double>;

TEST(PlanCluster, DevicesOfAnAgentShareItsMeasuredLine) {
  EXPECT_THAT(lines_of({device(1, "a", 5e6), device(2, "b", 7e6), device(1, "a", 5e6)}),
              UnorderedElementsAre(Line{{0, 2}, 5e6}, Line{{1}, 7e6}));
}

TEST(PlanCluster, WithoutAMeasurementTheAgentsOfAHostShareAnAssumedLine) {
  const std::vector<PlannedDevice> devices = {device(1, "a"), device(2, "a"), device(3, "b")};
  EXPECT_THAT(lines_of(devices),
              UnorderedElementsAre(Line{{0, 1}, kAssumedLine}, Line{{2}, kAssumedLine}));
  EXPECT_EQ(sources_of_lines(devices).assumed, 3);
}

TEST(PlanCluster, TheAgentsOfAHostShareTheLineThatTheCoordinatorMeasured) {
  PlannedDevice one = device(1, "a", 1e6), other = device(2, "a", 9e5), peers = device(3, "b", 7e6);
  one.at.line.to_coordinator = other.at.line.to_coordinator = true;
  one.at.line.measured_at = Instant{50}, other.at.line.measured_at = Instant{40};
  peers.at.line.measured_at = Instant{60};
  const std::vector<PlannedDevice> devices = {device(5, "a"), one,           other, peers,
                                              device(4, "c"), device(6, "a")};
  EXPECT_THAT(lines_of(devices), UnorderedElementsAre(Line{{0, 1, 2, 5}, 1e6}, Line{{3}, 7e6},
                                                      Line{{4}, kAssumedLine}));
  const LineSources sources = sources_of_lines(devices);
  EXPECT_EQ(sources.to_coordinator, 2);
  EXPECT_EQ(sources.to_peers, 1);
  EXPECT_EQ(sources.assumed, 3);
  EXPECT_EQ(sources.oldest, Instant{40});
}

TEST(PlanCluster, RoundTripToTheCoordinatorIsNoneInsideAHost) {
  const auto round_trips = [](const std::vector<PlannedDevice>& devices) {
    return cluster_of(default_spec(SyncAlgorithm::kDiloco), devices, {}).round_trip_s;
  };
  PlannedDevice one = device(1, "a", 1e6);
  one.at.line.round_trip = milliseconds(40);
  one.at.line.to_coordinator = true;
  EXPECT_THAT(round_trips({one, device(2, "a")}), ElementsAre(0, 0));
  EXPECT_THAT(round_trips({one, device(2, "b")}), ElementsAre(0.04, 0));
  one.at.line.to_coordinator = false;
  EXPECT_THAT(round_trips({one, device(2, "a")}), ElementsAre(0.04, 0));
}

TEST(PlanCluster, TrafficShowsALowerBoundOfALine) {
  PlannedDevice slow = device(1, "a", 1e6), fast = device(2, "b", 9e7);
  slow.at.line.at_least = fast.at.line.at_least = true;
  EXPECT_THAT(lines_of({slow, fast}),
              UnorderedElementsAre(Line{{0}, kAssumedLine}, Line{{1}, 9e7}));
}

TEST(PlanCluster, TheHostsOfASiteShareItsUplink) {
  SiteLines sites;
  sites.put("home", {.up = 3e6, .down = 9e6});
  EXPECT_THAT(
      lines_of(
          {device(1, "a", 1e8, "home"), device(2, "b", 1e8, "home"), device(3, "c", 1e8, "office")},
          sites),
      UnorderedElementsAre(Line{{0}, 1e8}, Line{{1}, 1e8}, Line{{2}, 1e8}, Line{{0, 1}, 3e6}));
}

TEST(PlanCluster, AveragingIsThatOfTheJob) {
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  change_sync(spec, [](SyncSpec& sync) {
    sync.every = Steps(60), sync.fragments = 3, sync.overlap_steps = Steps(5);
    sync.codec = CodecKind::kFp32;
  });
  const swarm::Averaging averaging = cluster_of(spec, {}, {}).averaging;
  EXPECT_EQ(averaging.bytes_per_value, 4);
  EXPECT_EQ(averaging.steps, 20);
  EXPECT_EQ(averaging.steps_behind, 5);
  EXPECT_DOUBLE_EQ(averaging.share, 1. / 3);
  EXPECT_EQ(cluster_of(default_spec(SyncAlgorithm::kNone), {}, {}).averaging.bytes_per_value, 0);
}

}  // namespace
}  // namespace shoal::coordinator
