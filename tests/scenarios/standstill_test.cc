// The coordinator stands still, or nobody reaches it: what lives continues where it was. No round
// is lost, none is trained again, and soon after the end of it the job commits rounds as before.
#include <tuple>

#include <gtest/gtest.h>

#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

using coordinator::JobPhase;

// How long, and how far behind the commit of round 2 it begins.
class Standstill : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  Duration length() const { return seconds(std::get<0>(GetParam())); }
  Duration moment() const { return milliseconds(std::get<1>(GetParam())); }

  void begin(Cluster& cluster) {
    cluster.submit(Cluster::small_job(400));
    ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
    cluster.pass(moment());
  }

  // Nothing is lost, and the job continues within 10 s.
  void expect_to_go_on(Cluster& cluster, const coordinator::JobRecord& before) {
    ASSERT_TRUE(cluster.until_round(before.committed_round + 2, seconds(10)))
        << cluster.objection() << " " << to_string(cluster.job()->phase) << " in epoch "
        << cluster.job()->epoch;
    EXPECT_EQ(cluster.job()->epoch, before.epoch);
    cluster.coordinator().cancel(cluster.job()->id);
    EXPECT_TRUE(cluster.until_phase(JobPhase::kCancelled)) << cluster.objection();
  }
};

TEST_P(Standstill, OfTheCoordinatorLosesNothing) {
  Cluster cluster(4);
  ASSERT_NO_FATAL_FAILURE(begin(cluster));
  const coordinator::JobRecord before = *cluster.job();
  cluster.coordinator().pause();
  cluster.pass(length());
  cluster.coordinator().resume();
  expect_to_go_on(cluster, before);
}

TEST_P(Standstill, OfAllLinesLosesNothing) {
  Cluster cluster(4);
  ASSERT_NO_FATAL_FAILURE(begin(cluster));
  const coordinator::JobRecord before = *cluster.job();
  for (int host = 0; host < 4; ++host)
    cluster.world().network().partition(host, true, true, length());
  cluster.pass(length());
  expect_to_go_on(cluster, before);
}

INSTANTIATE_TEST_SUITE_P(Lengths, Standstill,
                         testing::Combine(testing::Values(5, 15, 60, 300),
                                          testing::Values(0, 130, 290, 410, 570, 730)));

}  // namespace
}  // namespace shoal::sim
