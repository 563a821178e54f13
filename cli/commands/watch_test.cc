#include "cli/commands/watch.h"

#include <array>
#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Json event(int seq, const std::string& message) {
  return Json{{"seq", seq}, {"at", "2026-01-01T00:00:00Z"}, {"message", message}};
}

TEST(Watch, WarningsAreNewsOnceAndOnlyFromTheFirstLookOn) {
  std::optional<double> seen;
  EXPECT_THAT(fresh_warnings(Json::array({event(5, "old")}), seen), IsEmpty());
  const Json later = Json::array({event(9, "rolled back"), event(8, "lost"), event(5, "old")});
  EXPECT_THAT(fresh_warnings(later, seen),
              ElementsAre(HasSubstr("lost"), HasSubstr("rolled back")));
  EXPECT_THAT(fresh_warnings(later, seen), IsEmpty());
}

TEST(Watch, TheFirstWarningOfAJobThatHadNoneIsNews) {
  std::optional<double> seen;
  EXPECT_THAT(fresh_warnings(Json::array(), seen), IsEmpty());
  EXPECT_THAT(fresh_warnings(Json::array({event(2, "lost")}), seen),
              ElementsAre(HasSubstr("lost")));
}

// The job ends in the second answer; the warning came in between.
TEST(Watch, AsksForWarningsBesideTheJob) {
  int jobs = 0;
  ScriptedServer server([&](const std::string& request) {
    if (request.find("/events?job=job_1") != std::string::npos) {
      const std::string items = jobs > 1 ? R"({"seq": 3, "message": "lost"})" : "";
      return http_answer(200, R"({"items": [)" + items + R"(], "next_cursor": null})");
    }
    const char* phase = ++jobs > 1 ? "completed" : "training";
    return http_answer(200, Json{{"id", "job_1"}, {"status", {{"phase", phase}}}}.dump());
  });
  testing::internal::CaptureStderr();
  WatchOptions options;
  options.output = WatchOutput::kMessages;
  const auto end = watch_job(Api(server.address()), "mine", options);
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(end.ok());
  EXPECT_THAT(said, HasSubstr("warning: -  lost"));
  EXPECT_EQ(outcome_of(*end), kExitOk);
}

// An agent without the data fails right after `submit`, before `watch` looks.
TEST(Watch, OfAJobThatWasJustSubmittedAllWarningsAreNews) {
  const auto said_of = [](std::int64_t created) {
    std::array<char, 32> text{};
    const std::time_t at = created;
    std::tm utc{};
    (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &utc));
    const Json job{
        {"id", "job_1"}, {"created_at", text.data()}, {"status", {{"phase", "completed"}}}};
    ScriptedServer server([&](const std::string& request) {
      const bool events = request.find("/events?job=job_1") != std::string::npos;
      return http_answer(200,
                         events ? R"({"items": [{"seq": 3, "message": "no data"}]})" : job.dump());
    });
    WatchOptions options;
    options.output = WatchOutput::kMessages;
    testing::internal::CaptureStderr();
    EXPECT_TRUE(watch_job(Api(server.address()), "mine", options).ok());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said_of(std::time(nullptr)), HasSubstr("no data"));
  EXPECT_THAT(said_of(std::time(nullptr) - 3600), Not(HasSubstr("no data")));
}

TEST(Watch, AStageThatDependsOnOneAgentIsNamedOnce) {
  int jobs = 0;
  ScriptedServer server([&](const std::string& request) {
    if (request.find("/topology") != std::string::npos) {
      return http_answer(
          200,
          Json{{"replicas",
                Json::array({{{"stage", 0}, {"state", "serving"}, {"agent_name", "agent-1"}},
                             {{"stage", 1}, {"state", "serving"}, {"agent_name", "agent-2"}},
                             {{"stage", 1}, {"state", "serving"}, {"agent_name", "agent-3"}}})}}
              .dump());
    }
    if (request.find("/events") != std::string::npos) return http_answer(200, R"({"items": []})");
    Json job{{"id", "job_1"}, {"spec", {{"swarm", {{"stages", 2}}}}}};
    job["status"]["phase"] = ++jobs > 2 ? "completed" : "training";
    return http_answer(200, job.dump());
  });
  testing::internal::CaptureStderr();
  WatchOptions options;
  options.output = WatchOutput::kMessages;
  ASSERT_TRUE(watch_job(Api(server.address()), "mine", options).ok());
  const std::string said = testing::internal::GetCapturedStderr();
  const auto at = said.find("stage 0 depends on agent-1 alone");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("depends on", at + 9), std::string::npos) << said;
}

}  // namespace
}  // namespace shoal::cli
