// Agents that pretend to have slow lines: their trainers have them, the coordinator learns of them,
// and what is averaged over them is entropy coded, which loses nothing.
#include <gtest/gtest.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

// Both ways between the two agents, once they are measured.
std::vector<Json> measured_lines(const Cluster& cluster) {
  std::vector<Json> lines;
  const auto network = cluster.api().get("/network");
  if (!network.ok()) return lines;
  for (const Json& line : network->at("items")) {
    if (number_at(line, "bytes_per_second", 0) > 0) lines.push_back(line);
  }
  return lines;
}

TEST(EmulatedLine, IsWhatTrainersHaveAndWhatTheirFramesAreCodedFor) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  const Cluster cluster(2, {"--emulate-link", "up=40mbit,down=40mbit,rtt=30ms"});
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job;
  job.steps = 40000;
  job.every = 5000;  // long enough to measure a line meanwhile
  const Finished submitted =
      cluster.shoal({"job", "submit", cluster.write_job(job), "--set", "sync.codec=\"fp32\""});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(eventually(60, [&] { return measured_lines(cluster).size() == 2; }));
  for (const Json& line : measured_lines(cluster)) {
    EXPECT_GE(number_at(line, "round_trip_s", 0), 0.030);
    EXPECT_LT(number_at(line, "bytes_per_second", 0), 5.5e6);
  }
  const auto coded = [&]() -> Json {
    for (const Json& round : cluster.items("/jobs/tiny/rounds")) {
      const bool done = text_at(round, "state") == "committed";
      if (done && round.at("reduces")[0].at("entropy_coding") == true) return round;
    }
    return {};
  };
  ASSERT_TRUE(eventually(60, [&] { return !coded().is_null(); }));
  const double parameters = number_at(cluster.job("tiny"), "status/parameters", 0);
  ASSERT_GT(parameters, 10'000);
  EXPECT_LT(number_at(coded(), "bytes_sent", 0), 0.9 * 2 * 4 * parameters);
}

}  // namespace
}  // namespace shoal::integration
