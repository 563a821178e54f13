#include "cli/commands/job_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/format.h"
#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const double kNow = *parse_rfc3339("2026-01-01T00:01:00Z");

Json job_in(const std::string& phase, int epoch = 0) {
  return Json{{"id", "job_1"}, {"name", "mine"}, {"status", {{"phase", phase}, {"epoch", epoch}}}};
}

Json replica(const std::string& id, int agent, int stage, const std::string& state) {
  return Json{
      {"id", id}, {"agent", "agt_" + std::to_string(agent)}, {"stage", stage}, {"state", state}};
}

Json agent(int id, const char* gone_reason = nullptr) {
  Json json{{"id", "agt_" + std::to_string(id)},
            {"name", "agent-" + std::to_string(id)},
            {"updated_at", "2026-01-01T00:00:48Z"}};
  json["gone_reason"] = gone_reason == nullptr ? Json(nullptr) : Json(gone_reason);
  return json;
}

TEST(JobText, LinesOfADescriptionAreAligned) {
  Json job = job_in("training");
  EXPECT_THAT(job_text(job, {}, 0, false), Not(HasSubstr("description")));
  job["description"] = "A first try.\nWith int8.";
  EXPECT_THAT(job_text(job, {}, 0, false),
              HasSubstr("description       A first try.\n                  With int8.\n"));
}

TEST(JobText, ALostAgentIsShown) {
  JobAround around;
  around.agents = Json::array({agent(1), agent(2), agent(3, "lost")});
  around.replicas =
      Json::array({replica("rep_1", 1, 0, "serving"), replica("rep_2", 2, 0, "averaging"),
                   replica("rep_3", 3, 0, "failed")});
  around.warnings = Json::array({Json{{"kind", "replica_failed"},
                                      {"at", "2026-01-01T00:00:48Z"},
                                      {"message", "rep_3 of agent-3 failed (agent_lost)"}}});
  const std::string text = job_text(job_in("training"), around, kNow, false);
  EXPECT_THAT(text, HasSubstr("replicas          2 serve\n"));
  EXPECT_THAT(text, HasSubstr("lost agents       agent-3, 12 s ago\n"));
  EXPECT_THAT(text, HasSubstr("last warning      12 s ago: rep_3 of agent-3 failed"));
  const std::string over = job_text(job_in("completed"), around, kNow, false);
  EXPECT_THAT(over, Not(HasSubstr("lost agents")));
  EXPECT_THAT(over, Not(HasSubstr("replicas")));
  EXPECT_THAT(over, Not(HasSubstr("last warning")));
}

TEST(JobText, AnAgentThatLeftIsNotLost) {
  JobAround around;
  around.agents = Json::array({agent(1, "left"), agent(2, "lost")});
  around.replicas =
      Json::array({replica("rep_1", 1, 0, "failed"), replica("rep_2", 2, 0, "released")});
  EXPECT_EQ(lost_text(around, kNow), "") << "agent-2 was released before it was lost";
}

TEST(JobText, AStageThatDependsOnOneAgentNamesIt) {
  JobAround around;
  around.agents = Json::array({agent(1), agent(2), agent(3)});
  around.replicas =
      Json::array({replica("rep_1", 1, 0, "serving"), replica("rep_2", 2, 0, "serving"),
                   replica("rep_3", 3, 1, "serving")});
  EXPECT_EQ(replicas_text(job_in("training"), around),
            "stage 0: 2, stage 1: 1; stage 1 depends on agent-3 alone");
  around.replicas.push_back(replica("rep_4", 2, 1, "absent"));
  EXPECT_THAT(replicas_text(job_in("training"), around), HasSubstr("1 out of reach (agent-2)"));
  around.replicas.push_back(replica("rep_5", 1, 1, "serving"));
  EXPECT_THAT(replicas_text(job_in("training"), around), Not(HasSubstr("alone")));
}

TEST(JobText, ASingleStageNamesNoAgentAndCountsLoaders) {
  JobAround around;
  around.agents = Json::array({agent(1)});
  around.replicas =
      Json::array({replica("rep_1", 1, 0, "serving"), replica("rep_2", 2, 0, "loading")});
  EXPECT_EQ(replicas_text(job_in("training"), around), "1 serves, 1 loading");
  EXPECT_EQ(replicas_text(job_in("paused"), around), "");
  EXPECT_EQ(replicas_text(job_in("gathering"), JobAround()), "none");
}

TEST(JobText, AFailedJobNamesWhatCameBeforeItsFailure) {
  JobAround around;
  around.warnings = Json::array(
      {Json{{"kind", "job_phase"}, {"at", "2026-01-01T00:00:50Z"}, {"message", "job -> failed"}},
       Json{{"kind", "replica_failed"},
            {"at", "2026-01-01T00:00:48Z"},
            {"message", "rep_3 of agent-3 failed (internal): ValueError: no"}}});
  EXPECT_THAT(job_text(job_in("failed"), around, kNow, false),
              HasSubstr("last warning      12 s ago: rep_3 of agent-3 failed (internal)"));
  EXPECT_THAT(job_text(job_in("stalled"), around, kNow, false),
              HasSubstr("last warning      10 s ago: job -> failed"));
}

TEST(JobText, ARollbackIsShownWithItsRound) {
  JobAround around;
  around.warnings = Json::array(
      {Json{{"kind", "replica_failed"}, {"at", "2026-01-01T00:00:59Z"}, {"message", "x"}},
       Json{{"kind", "job_rolled_back"},
            {"at", "2026-01-01T00:00:40Z"},
            {"message", "round 6 is lost with the last replica of a stage"}}});
  EXPECT_THAT(job_text(job_in("training", 2), around, kNow, false),
              HasSubstr("rolled back       to a checkpoint, 2 times; 20 s ago: round 6 is lost"));
  EXPECT_THAT(job_text(job_in("training", 0), around, kNow, false), Not(HasSubstr("rolled back")));
  around.warnings.erase(0);
  EXPECT_THAT(job_text(job_in("training", 2), around, kNow, false), Not(HasSubstr("last warning")))
      << "it would be told twice";
}

TEST(JobText, ARestoreFromABackupDoesNotCountAsRollbacks) {
  Json job = job_in("training", 0);
  job["status"]["epoch"] = 1'795'716'067'464;
  JobAround around;
  around.warnings = Json::array({Json{{"kind", "job_restored"},
                                      {"at", "2026-01-01T00:00:40Z"},
                                      {"message", "continuing from round 12"}}});
  EXPECT_THAT(
      job_text(job, around, kNow, false),
      HasSubstr("rolled back       after a restore from a backup; 20 s ago: continuing from"));
}

TEST(JobText, TheNewestValuesOfItsProgramAreShown) {
  JobAround around;
  const auto series = [](const std::string& name, Json newest) {
    return Json{{"name", name}, {"newest", std::move(newest)}};
  };
  around.series = {series("log.aux", {{"step", 4}, {"value", 0.0003125}}),
                   series("log.lost", nullptr), series("train_loss", {{"step", 4}, {"value", 2}})};
  EXPECT_THAT(job_text(job_in("training"), around, kNow, false),
              HasSubstr("logged            aux 0.0003125\n"));
  for (int i = 0; i < 20; ++i) {
    around.series.push_back(series("log.n" + std::to_string(i), {{"step", 1}, {"value", i}}));
  }
  EXPECT_THAT(job_text(job_in("training"), around, kNow, false), HasSubstr("n10 10 and 9 more\n"));
}

TEST(JobText, AgentsThatDoNotRunItsProgramAreNamed) {
  Json job = job_in("training");
  EXPECT_THAT(job_text(job, {}, kNow, false), Not(HasSubstr("not run by")));
  job["status"]["not_run_by"] = {"agent-2", "agent-3"};
  EXPECT_THAT(job_text(job, {}, kNow, false), HasSubstr("not run by        agent-2, agent-3\n"));
}

TEST(JobText, AsksForWhatTheJobObjectLacks) {
  std::vector<std::string> asked;
  ScriptedServer server([&](const std::string& request) {
    asked.push_back(request.substr(4, request.find(" HTTP") - 4));
    return http_answer(200, R"({"items": [{"id": "x"}], "next_cursor": null})");
  });
  const auto around = ask_around(Api(server.address()), job_in("training"));
  ASSERT_TRUE(around.ok());
  EXPECT_EQ(around->warnings.size(), 1u);
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_THAT(asked[1], HasSubstr("/agents?gone=true"));
  EXPECT_THAT(asked[2], HasSubstr("job=job_1&severity=warning&order=desc"));
  EXPECT_THAT(asked[3], EndsWith("/jobs/job_1/series")) << "the route refuses a `limit`";
  EXPECT_EQ(around->series.size(), 1u);
}

}  // namespace
}  // namespace shoal::cli
