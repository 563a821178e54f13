// New jobs from the text of old ones.
#include "cli/commands/job_again.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kToml =
    "# why: a first try\nname = 'old'\n[data]\ntrain = \"text.txt\"\n[train]\nlr = 0.1\n";

// Answers for one job that read /data/text.txt, and keeps what was posted.
class Jobs {
 public:
  explicit Jobs(std::string text = kToml) : text_(std::move(text)) {}
  Context context() const { return {Api(server_.address()), true}; }
  const std::string& posted() const { return posted_; }

 private:
  std::string answer(const std::string& request) {
    if (request.starts_with("POST /api/v1/jobs?")) posted_ = request;
    if (request.starts_with("GET /api/v1/jobs/old/spec ") ||
        request.starts_with("GET /api/v1/jobs/job_3/spec ")) {
      return http_answer(200, text_, "application/toml");
    }
    if (request.starts_with("GET /api/v1/jobs?") || request.starts_with("GET /api/v1/jobs ")) {
      return http_answer(200, R"({"items": [{"name": "old"}, {"name": "old-2"}],
        "next_cursor": null})");
    }
    if (request.starts_with("GET /api/v1/jobs/job_3/checkpoints")) {
      return http_answer(200, R"({"items": [{"id": "ckpt_9", "state": "failed"},
        {"id": "ckpt_7", "state": "stored"}], "next_cursor": null})");
    }
    if (request.starts_with("GET /api/v1/checkpoints/ckpt_7 ")) {
      return http_answer(200, R"({"id": "ckpt_7", "job": "job_3"})");
    }
    return http_answer(200, R"({"id": "job_3", "name": "old", "data": {"found": false},
      "spec": {"data": {"train": "texts:text.txt"}, "model": {"layers": 5}}})");
  }

  const std::string text_;
  std::string posted_;
  ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
};

TEST(JobAgain, TheFirstFreeNameIsTaken) {
  EXPECT_EQ(free_name("a", {}), "a-2");
  EXPECT_EQ(free_name("a", {"a", "a-2", "a-3", "b-4"}), "a-4");
}

TEST(JobAgain, ACloneHasTheTextAndReadsTheSameData) {
  Jobs jobs;
  const auto done = job_clone(jobs.context(), {.job = "old", .changes = {"", {"train.lr=0.5"}}});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_THAT(jobs.posted(), HasSubstr("# why: a first try"));
  EXPECT_THAT(jobs.posted(), HasSubstr("\"old-3\""));
  EXPECT_THAT(jobs.posted(), HasSubstr("\"texts:text.txt\""));
  EXPECT_THAT(jobs.posted(), HasSubstr("0.5"));
}

TEST(JobAgain, ARestartHasTheNameAndTheNewestStoredCheckpoint) {
  Jobs jobs;
  const auto done = job_restart(jobs.context(), {.job = "old"});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_THAT(jobs.posted(), HasSubstr("\"old\""));
  EXPECT_THAT(jobs.posted(), HasSubstr("continue_from = \"ckpt_7\""));
  EXPECT_THAT(jobs.posted(), Not(HasSubstr("init = ")));
}

TEST(JobAgain, ARestartWithTheWeightsAloneContinuesNothing) {
  Jobs jobs("name = 'old'\n[data]\ntrain = 'text.txt'\n[train]\ncontinue_from = 'ckpt_3'\n");
  const auto done = job_restart(jobs.context(), {.job = "old", .weights_only = true});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_THAT(jobs.posted(), HasSubstr("init = \"ckpt_7\""));
  EXPECT_THAT(jobs.posted(), HasSubstr("continue_from = \"\""));
}

TEST(JobAgain, ATextInJsonStaysJson) {
  Jobs jobs(R"( {"name": "old", "data": {"train": "text.txt"}})");
  const auto done = job_clone(jobs.context(), {.job = "old", .changes = {"new", {}}});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_THAT(jobs.posted(), HasSubstr("application/json"));
  EXPECT_THAT(jobs.posted(), HasSubstr("\"new\""));
}

}  // namespace
}  // namespace shoal::cli
