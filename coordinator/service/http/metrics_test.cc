// The metrics page from outside, judged by promtool where it is installed.
#include <cstdio>
#include <cstdlib>
#include <regex>

#include "coordinator/service/http/testing/fixture.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MetricsTest : public testing::ServerFixture {};

TEST_F(MetricsTest, HaveTheNumbersOfTheCluster) {
  start();
  get("/api/v1/jobs");
  get("/nothing");
  cluster_.add_event("round_committed", JobId(7), "round 3");
  cluster_.add_event("round_aborted", JobId(7), "round 4", Severity::kWarning);
  const testing::Received received = get("/metrics");
  EXPECT_EQ(received.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line : {"shoal_jobs{phase=\"training\"} 1\n",
                           "shoal_jobs{phase=\"failed\"} 0\n",
                           "shoal_agents{state=\"active\"} 2\n",
                           "shoal_job_tokens_total{job_id=\"job_7\"} 6400\n",
                           "shoal_job_tokens_per_second{job_id=\"job_7\"} 1000\n",
                           "shoal_job_loss{job_id=\"job_7\"} 2.5\n",
                           "shoal_job_validation_loss{job_id=\"job_8\"} 1.75\n",
                           "shoal_round_current{job_id=\"job_7\"} 3\n",
                           "shoal_job_members{job_id=\"job_7\",state=\"serving\"} 2\n",
                           "shoal_sync_bytes_total{job_id=\"job_7\",direction=\"sent\"} 4000\n",
                           "shoal_rounds_total{job_id=\"job_7\",result=\"committed\"} 1\n",
                           "shoal_rounds_total{job_id=\"job_7\",result=\"aborted\"} 1\n",
                           "shoal_events_total{severity=\"warning\"} 1\n",
                           "shoal_heartbeats_total 42\n",
                           "shoal_reduce_failures_total{reason=\"bad_frame\"} 6\n",
                           "shoal_reduce_failures_total{reason=\"plan_mismatch\"} 0\n",
                           "shoal_coordinator_boot_epoch 3\n",
                           "shoal_db_commits_total 12\n",
                           "route=\"/api/v1/jobs\"",
                           "route=\"unmatched\"",
                           "shoal_http_request_duration_seconds_bucket",
                           "shoal_checkpoint_last_success_timestamp_seconds{job_id=\"job_7\"}",
                           "process_open_fds "})
    EXPECT_THAT(received.body, HasSubstr(line));
  EXPECT_THAT(received.body, Not(HasSubstr("job=\"")));
  EXPECT_THAT(received.body, Not(HasSubstr("instance=\"")));
  EXPECT_THAT(received.body, Not(HasSubstr("nan")));
}

TEST_F(MetricsTest, FramesThatAPipelineDroppedAreCounted) {
  start();
  testing::fill_pipeline(cluster_);
  EXPECT_THAT(get("/metrics").body,
              HasSubstr("shoal_pipeline_frames_dropped_total{replica=\"rep_11\"} 4\n"));
}

TEST_F(MetricsTest, LongOverJobsAreCountedButNotShown) {
  start();
  {
    std::lock_guard lock(cluster_.tables.mutex);
    JobRecord old = cluster_.tables.jobs[8];
    old.id = JobId(1);
    old.updated_at = old.updated_at - seconds(100'000);
    cluster_.tables.jobs[1] = old;
  }
  for (int scrape = 0; scrape < 2; ++scrape) {
    const std::string text = get("/metrics").body;
    EXPECT_THAT(text, HasSubstr("shoal_jobs{phase=\"completed\"} 2\n"));
    EXPECT_THAT(text, Not(HasSubstr("job_id=\"job_1\"")));
    EXPECT_THAT(text, HasSubstr("job_id=\"job_8\""));
  }
}

TEST_F(MetricsTest, AScrapeDoesNotReadTheHistoryOfRounds) {
  start();
  {
    std::lock_guard lock(cluster_.tables.mutex);
    for (RoundNumber n = 4; n <= 10'000; ++n)
      cluster_.tables.rounds[{JobId(7), 0, n}].key = {JobId(7), 0, n};
  }
  EXPECT_EQ(get("/metrics").status, 200);
  EXPECT_LE(cluster_.tables.round_rows_read, 4);
}

TEST_F(MetricsTest, PassPromtool) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is not installed";
  start();
  get("/api/v1/jobs");
  const std::string text = get("/metrics").body;
  std::FILE* promtool = ::popen("promtool check metrics 2>&1", "w");
  ASSERT_NE(promtool, nullptr);
  EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), promtool), text.size());
  EXPECT_EQ(::pclose(promtool), 0);
}

}  // namespace
}  // namespace shoal::coordinator
