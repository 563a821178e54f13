// What is shown of how a running job is placed.
#include "coordinator/core/decisions/placement_report.h"
#include "coordinator/service/http/server_test_util.h"

namespace shoal::coordinator {
namespace {

using Json = nlohmann::json;

class PlacementRouteTest : public testing::ServerFixture {
 protected:
  void SetUp() override { start(); }
  void show(const PlacementReport& report) {
    LiveView live = *cluster_.live();
    live.placements.put(report.job, std::make_shared<const PlacementReport>(report));
    cluster_.set_live(std::move(live));
  }
};

constexpr Instant kAt{1'700'000'000'000'000'000};

TEST_F(PlacementRouteTest, AJobThatTrains_ShowsItsForecastItsLooksAndTheMoveConsideredLast) {
  PlacementReport report{.job = JobId(7), .at = kAt};
  report.forecast = {.tokens_per_s = 900, .step_s = 1, .round_s = 30, .network = 0.5};
  report.forecast.behind_line = {AgentId(1)};
  report.forecast.line_bytes_per_s = 1.25e6;
  report.left_out = {{AgentId(2), 1, 700, 900, 1.25e6}};
  report.loaded = {{AgentId(2), 0, 0.75}};
  report.look = {kAt, swarm::BalanceVerdict::kDoesNotPay, 1, 1000, 1500, ""};
  report.move =
      MoveReport{.at = kAt, .replica = ReplicaId(11), .agent = AgentId(1), .from = 0, .to = 1};
  report.move->worth = {.gain = 200,
                        .download = Bytes(1'600'000'000),
                        .bytes_per_s = 625e3,
                        .away = seconds(2565),
                        .payback = seconds(5130),
                        .bound = seconds(1800)};
  report.move->verdict = swarm::BalanceVerdict::kDoesNotPay;
  report.move->reason = "it would take too long";
  report.plan = {kAt, 900, 1200};
  show(report);
  const Json placement = get("/api/v1/jobs/alpha/placement").json();
  EXPECT_EQ(placement["job"], "job_7");
  EXPECT_EQ(placement["at"], "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(placement["forecast"]["tokens_per_second"], 900);
  EXPECT_EQ(placement["forecast"]["line"],
            (Json{{"agents", Json::array({"agent-1"})}, {"bytes_per_second", 1.25e6}}));
  EXPECT_EQ(placement["left_out"][0]["agent"], "agt_2");
  EXPECT_EQ(placement["used_by_others"],
            Json::array({Json{
                {"agent", "agt_2"}, {"agent_name", "agent-2"}, {"device", 0}, {"share", 0.75}}}));
  EXPECT_EQ(placement["balance"], (Json{{"at", "2023-11-14T22:13:20.000Z"},
                                        {"verdict", "does_not_pay"},
                                        {"weakest_stage", 1},
                                        {"weakest_tokens_per_second", 1000.0},
                                        {"mean_tokens_per_second", 1500.0},
                                        {"reason", ""}}));
  EXPECT_EQ(placement["move"], (Json{{"at", "2023-11-14T22:13:20.000Z"},
                                     {"replica", "rep_11"},
                                     {"agent", "agt_1"},
                                     {"agent_name", "agent-1"},
                                     {"from_stage", 0},
                                     {"to_stage", 1},
                                     {"tokens_per_second_gained", 200.0},
                                     {"download_bytes", 1'600'000'000},
                                     {"bytes_per_second", 625e3},
                                     {"takes_s", 2565.0},
                                     {"payback_s", 5130.0},
                                     {"bound_s", 1800.0},
                                     {"verdict", "does_not_pay"},
                                     {"reason", "it would take too long"}}));
  EXPECT_EQ(placement["plan"]["tokens_per_second_now"], 900);
  EXPECT_EQ(placement["plan"]["tokens_per_second_anew"], 1200);
}

TEST_F(PlacementRouteTest, AJobThatWasNotLookedAt_ShowsNothing) {
  const Json placement = get("/api/v1/jobs/alpha/placement").json();
  EXPECT_TRUE(placement["at"].is_null());
  EXPECT_TRUE(placement["forecast"]["tokens_per_second"].is_null());
  EXPECT_TRUE(placement["left_out"].empty());
  for (const char* part : {"balance", "move", "plan"}) EXPECT_TRUE(placement[part].is_null());
  expect_problem(get("/api/v1/jobs/nobody/placement"), 404, "not-found");
}

}  // namespace
}  // namespace shoal::coordinator
