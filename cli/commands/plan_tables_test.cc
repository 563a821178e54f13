#include "cli/commands/plan_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNow = 1'795'248'372;  // 2026-11-21T08:06:12Z

TEST(PlanTables, APlanShowsStagesAndForecast) {
  const Json plan = Json::parse(R"({
    "placeable": true, "reason": "placed", "detail": "",
    "stages": [{"stage": 0, "layers": 2, "parameters": 400000, "memory_bytes": 5000000},
               {"stage": 1, "layers": 2, "parameters": 410000, "memory_bytes": 6000000}],
    "placement": [{"agent_name": "fast", "stage": 0}, {"agent_name": "slow", "stage": 1},
                  {"agent_name": "other", "stage": 1}],
    "forecast": {"tokens_per_second": 12000, "step_s": 0.5, "round_s": 25, "bubble": 0.2}})");
  const std::string text = plan_text(plan, false, kNow);
  EXPECT_THAT(text, HasSubstr("400k"));
  EXPECT_THAT(text, HasSubstr("other, slow"));
  EXPECT_THAT(text, HasSubstr("20 %"));
  EXPECT_THAT(text, Not(HasSubstr("placed")));
}

TEST(PlanTables, APlanShowsWhereItsSpeedsComeFrom) {
  const auto forecast = [](const std::string& more) {
    return plan_text(Json::parse(R"({"placeable": true, "reason": "placed", "detail": "",
      "stages": [], "placement": [],
      "forecast": {"tokens_per_second": 12000, "step_s": 0.5, "round_s": 25, "bubble": 0.2)" +
                                 more + "}}"),
                     false, kNow);
  };
  EXPECT_THAT(forecast(R"(, "speeds_assumed": 0)"),
              HasSubstr("tokens/s, as the devices measured a block of this model\n"));
  EXPECT_THAT(forecast(R"(, "speeds_assumed": 2)"),
              HasSubstr("2 devices not measured for this model, so by a matrix product\n"));
  EXPECT_THAT(forecast(""), HasSubstr("at most: by the speed of a matrix product\n"));
}

TEST(PlanTables, APlanShowsWhatLinesDoToIt) {
  const Json plan = Json::parse(R"({
    "placeable": true, "reason": "placed", "detail": "", "stages": [], "placement": [],
    "forecast": {"tokens_per_second": 2224, "step_s": 2, "round_s": 60, "bubble": 0.2,
                 "average_s": 4, "network": 0.25, "lines_assumed": 2,
                 "lines_to_peers": 1, "lines_to_coordinator": 3,
                 "lines_measured_at": "2026-11-21T08:06:00.000Z",
                 "line": {"agents": ["far", "near"], "bytes_per_second": 1250000}},
    "left_out": [{"agent_name": "slow", "device": 1, "tokens_per_second_with": 900,
                  "tokens_per_second_without": 2224, "line_bytes_per_second": 20000},
                 {"agent_name": "old", "device": 0, "tokens_per_second_with": 950,
                  "tokens_per_second_without": 2224, "line_bytes_per_second": null}]})");
  const std::string text = plan_text(plan, false, kNow);
  EXPECT_THAT(text, HasSubstr("round       1m 00s, of which 4.0 s averaging\n"));
  EXPECT_THAT(text, HasSubstr("limit       the line of far, near: 1.25 MB/s lets 25 % of the "
                              "devices' speed through\n"));
  EXPECT_THAT(text, HasSubstr("assumed     100 Mbit/s for the lines of 2 agents"));
  EXPECT_THAT(text,
              HasSubstr("lines       of 1 agent measured to other agents, of 3 agents measured "
                        "to the coordinator, whose own line may be the slower one; the "
                        "oldest 12 s ago\n"));
  EXPECT_THAT(text, HasSubstr("left out    slow, device 1: 900 tokens/s with it; its line carries "
                              "20.0 kB/s\n"));
  EXPECT_THAT(text, HasSubstr("left out    old, device 0: 950 tokens/s with it\n"));
}

TEST(PlanTables, APlacementShowsWhatLimitsItAndTheMoveThatWasConsidered) {
  const Json placement = Json::parse(R"({
    "job": "job_1", "at": "2026-11-21T08:06:00.000Z",
    "forecast": {"tokens_per_second": 900, "step_s": 1, "round_s": 30, "bubble": 0.1, "line": null,
                 "lines_assumed": 1},
    "left_out": [{"agent_name": "slow", "device": 1, "tokens_per_second_with": 700,
                  "tokens_per_second_without": 900, "line_bytes_per_second": null}],
    "used_by_others": [{"agent": "agt_3", "agent_name": "shared", "device": 0, "share": 0.75}],
    "balance": {"at": "2026-11-21T08:06:00.000Z", "verdict": "does_not_pay", "weakest_stage": 1,
                "weakest_tokens_per_second": 1000, "mean_tokens_per_second": 1500, "reason": ""},
    "move": {"at": "2026-11-21T08:06:00.000Z", "reason": "rep_1 stays in stage 0: it is slow"},
    "plan": {"at": "2026-11-21T08:05:00.000Z", "tokens_per_second_now": 900,
             "tokens_per_second_anew": 1200}})");
  EXPECT_EQ(
      placement_text(placement, kNow),
      "forecast    900 tokens/s, from what replicas and lines were seen to do\n"
      "step        1.0 s\nround       30 s\nbubble      10 %\n"
      "assumed     100 Mbit/s for the lines of 1 agent, which nobody has measured\n"
      "limit       what the devices compute\n"
      "left out    slow, device 1: 700 tokens/s with it\n"
      "in use      shared, device 0: others take 75 % of its time, so plans count it with the "
      "rest\n"
      "balance     stage 1 makes 1.00k tokens/s, the mean is 1.50k (does not pay), 12 s ago\n"
      "move        rep_1 stays in stage 0: it is slow, 12 s ago\n"
      "anew        1.20k tokens/s if it were paused and resumed, by what devices promise; 900 "
      "as it is placed, 1m 12s ago\n");
}

TEST(PlanTables, ThePlacementOfAJobThatDoesNotTrainIsEmpty) {
  const Json placement = Json::parse(R"({
    "job": "job_1", "at": null, "forecast": {"tokens_per_second": null, "line": null},
    "left_out": [], "balance": null, "move": null, "plan": null})");
  EXPECT_EQ(placement_text(placement, 0), "");
}

TEST(PlanTables, ARefusalShowsWhy) {
  const Json plan = Json::parse(R"({
    "placeable": false, "reason": "too_few_devices", "detail": "1 more", "stages": [],
    "placement": [], "forecast": {"tokens_per_second": null}})");
  EXPECT_EQ(plan_text(plan, false, kNow), "too few devices: 1 more\n");
}

TEST(PlanTables, ATopologyShowsReplicasAndLinksByAgent) {
  const Json topology = Json::parse(R"({
    "stages": [],
    "replicas": [{"id": "rep_1", "agent_name": "one", "stage": 0, "state": "serving", "gflops": 10,
                  "queued": 3, "in_flight": 4, "service_s": 0.04, "microbatches_per_second": 7.5,
                  "busy": 0.5},
                 {"id": "rep_2", "agent_name": "two", "stage": 1, "state": "loading",
                  "busy": null}],
    "links": [{"from": "rep_1", "to": "rep_2", "sent_per_second": 2000000,
               "received_per_second": null, "round_trip_s": 0.01}]})");
  const std::string text = topology_text(topology, false);
  EXPECT_THAT(text, HasSubstr("7.50"));
  EXPECT_THAT(text, HasSubstr("one   two  16.0 Mbit/s"));
  EXPECT_THAT(text, HasSubstr("loading"));
}

TEST(PlanTables, AnAgentOfSeveralStagesIsNamedWithItsReplicas) {
  const Json topology = Json::parse(R"({
    "replicas": [{"id": "rep_1", "agent_name": "one", "stage": 0},
                 {"id": "rep_2", "agent_name": "one", "stage": 1},
                 {"id": "rep_3", "agent_name": "two", "stage": 1}],
    "links": [{"from": "rep_1", "to": "rep_2", "round_trip_s": 0.01},
              {"from": "rep_1", "to": "rep_3", "round_trip_s": 0.01}]})");
  const std::string text = topology_text(topology, false);
  EXPECT_THAT(text, HasSubstr("one rep_1  one rep_2"));
  EXPECT_THAT(text, HasSubstr("one rep_1  two"));
}

}  // namespace
}  // namespace shoal::cli
