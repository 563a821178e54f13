// The metrics page from outside, judged by promtool where it is installed.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "coordinator/service/http/server_test_util.h"
#include "threads/mutex.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MetricsTest : public testing::ServerFixture {
 protected:
  // Job 7 had one round committed and one aborted; two contributions count.
  void start_counted() {
    const std::shared_ptr<Meters> meters = cluster_.meters();
    const JobId job(7);
    meters->jobs.begin(job);
    meters->jobs.round_committed(job, seconds(40));
    meters->jobs.round_aborted(job);
    meters->jobs.contributed(job, ContributionState::kCommitted, RejectReason::kNone);
    meters->jobs.contributed(job, ContributionState::kCommitted, RejectReason::kNone);
    meters->jobs.contributed(job, ContributionState::kLate, RejectReason::kNone);
    meters->jobs.contributed(job, ContributionState::kRejected, RejectReason::kOutlier);
    meters->jobs.hop(job, 0, milliseconds(20));
    meters->events.happened(
        {.severity = Severity::kWarning, .kind = event_kind::kRoundAborted, .job = job});
    meters->runtime.heartbeats.Increment(42);
    meters->runtime.reduce_failures[ReduceFailure::kBadFrame].Increment(6);
    meters->refusals.at(Port::kPeers, RefusalReason::kForeign).Increment(4);
    meters->store.wrote(3, milliseconds(4), false);
    cluster_.set_checkpoint_space({.stored = Bytes(123), .pending = Bytes()});
    start();
  }
  // A pipeline, and a device whose driver reported a fault.
  void fill_devices() {
    testing::fill_pipeline(cluster_);
    const MutexLock lock(cluster_.tables.mutex);
    DeviceRefusal sick{.device = 0, .kind = DeviceRefusalKind::kUnhealthy, .uuid = "GPU-1"};
    sick.fault = DeviceFault::kXid;
    cluster_.tables.agents.at(1).refusals = {sick};
  }
  std::string metrics() { return get("/metrics").body; }
};

TEST_F(MetricsTest, HaveTheNumbersOfTheCluster) {
  start_counted();
  get("/api/v1/jobs");
  get("/nothing");
  const testing::Received received = get("/metrics");
  EXPECT_EQ(received.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line :
       {"shoal_jobs{phase=\"training\"} 1\n",
        "shoal_jobs{phase=\"failed\"} 0\n",
        "shoal_agents{state=\"active\"} 2\n",
        "shoal_job_committed_tokens{job_id=\"job_7\"} 6400\n",
        "shoal_job_tokens_per_second{job_id=\"job_7\"} 1000\n",
        "shoal_job_loss{job_id=\"job_7\"} 2.5\n",
        "shoal_job_validation_loss{job_id=\"job_8\"} 1.75\n",
        "shoal_job_committed_round{job_id=\"job_7\"} 2\n",
        "shoal_job_members{job_id=\"job_7\",state=\"serving\"} 2\n",
        "shoal_sync_bytes_total{job_id=\"job_7\",direction=\"sent\"} 4000\n",
        "shoal_rounds_total{job_id=\"job_7\",result=\"committed\"} 1\n",
        "shoal_rounds_total{job_id=\"job_7\",result=\"aborted\"} 1\n",
        "shoal_contributions_total{job_id=\"job_7\",state=\"committed\"} 2\n",
        "shoal_contributions_total{job_id=\"job_7\",state=\"late\"} 1\n",
        "shoal_contributions_rejected_total{job_id=\"job_7\",reason=\"outlier\"} 1\n",
        "shoal_steps_skipped_total{job_id=\"job_7\"} 0\n",
        "shoal_incidents_total{kind=\"round_aborted\"} 1\n",
        "shoal_checkpoint_bytes{state=\"stored\"} 123\n",
        "shoal_checkpoint_bytes{state=\"pending\"} 0\n",
        "shoal_checkpoint_budget_bytes 0\n",
        "shoal_agents_port_accepts 1\n",
        "shoal_incidents_total{kind=\"momentum_lost\"} 0\n",
        "shoal_agents_quarantined 0\n",
        "shoal_agent_devices_failing{agent=\"agt_1\"} 0\n",
        "shoal_agent_devices_failing{agent=\"agt_2\"} 1\n",
        "shoal_events_total{severity=\"warning\"} 1\n",
        "shoal_heartbeats_total 42\n",
        "shoal_reduce_failures_total{reason=\"bad_frame\"} 6\n",
        "shoal_reduce_failures_total{reason=\"plan_mismatch\"} 0\n",
        "shoal_refused_total{port=\"http\",reason=\"malformed\"} 0\n",
        "shoal_refused_total{port=\"peers\",reason=\"foreign\"} 4\n",
        "shoal_coordinator_boot_epoch 3\n",
        "shoal_db_commits_total 1\n",
        "shoal_db_commit_duration_seconds_bucket{le=\"0.0025\"} 0\n",
        "shoal_db_commit_duration_seconds_bucket{le=\"0.005\"} 1\n",
        "shoal_core_step_duration_seconds_count 0\n",
        "shoal_round_duration_seconds_sum{job_id=\"job_7\"} 40\n",
        "shoal_reduce_duration_seconds_count{job_id=\"job_7\"} 0\n",
        "shoal_join_duration_seconds_count{job_id=\"job_7\"} 0\n",
        "shoal_checkpoint_duration_seconds_count{job_id=\"job_7\"} 0\n",
        "shoal_pipeline_hop_round_trip_seconds_count{job_id=\"job_7\",stage=\"0\"} 1\n",
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

TEST_F(MetricsTest, GradientsThatMayCountInTwoReplicasAreCounted) {
  start();
  testing::fill_pipeline(cluster_);
  EXPECT_THAT(get("/metrics").body,
              HasSubstr("shoal_pipeline_gradients_added_again_total{replica=\"rep_11\"} 3\n"));
}

TEST_F(MetricsTest, Devices_ShowWhatTheirDriversSaid) {
  start();
  fill_devices();
  const std::string text = metrics();
  for (const char* line :
       {"shoal_device_answers{agent=\"agt_1\",uuid=\"GPU-1\"} 1\n",
        "shoal_device_lost{agent=\"agt_1\",uuid=\"GPU-1\"} 0\n",
        "shoal_device_busy_ratio{agent=\"agt_1\",uuid=\"GPU-1\"} 0.75\n",
        "shoal_device_xid_errors_total{agent=\"agt_1\",uuid=\"GPU-1\",xid=\"79\"} 1\n",
        "shoal_device_xid_last_timestamp_seconds{agent=\"agt_1\",uuid=\"GPU-1\",xid=\"79\"} "
        "1799999996.123\n",
        "shoal_device_unhealthy{agent=\"agt_1\",uuid=\"GPU-1\",fault=\"xid\"} 1\n",
        "shoal_agent_devices_cordoned{agent=\"agt_2\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(MetricsTest, DevicesOfAnAgentWithoutAConnection_HaveNoValues) {
  start();
  fill_devices();
  LiveView live = *cluster_.live();
  live.agents.at(AgentId(1)).health = Health::kRed;
  cluster_.set_live(live);
  const std::string text = metrics();
  EXPECT_THAT(text, Not(HasSubstr("shoal_device_busy_ratio")));
  EXPECT_THAT(text, HasSubstr("shoal_device_unhealthy")) << "it is out of service all the same";
}

TEST_F(MetricsTest, APausedJobHasNoRoundThatCouldBeLate) {
  start();
  const std::string started = "shoal_round_started_timestamp_seconds{job_id=\"job_7\"}";
  EXPECT_THAT(metrics(), HasSubstr(started));
  {
    const MutexLock lock(cluster_.tables.mutex);
    cluster_.tables.jobs.at(7).phase = JobPhase::kPaused;
  }
  EXPECT_THAT(metrics(), Not(HasSubstr(started)));
  EXPECT_THAT(metrics(), HasSubstr("shoal_jobs{phase=\"paused\"} 1\n"));
}

TEST_F(MetricsTest, SeriesOfAJobEndAnHourAfterIt) {
  start();
  const Instant now = cluster_.live()->now;
  for (const std::uint64_t id : {1, 2}) cluster_.meters()->jobs.begin(JobId(id));
  cluster_.meters()->jobs.end(JobId(1), now - seconds(3601));
  cluster_.meters()->jobs.end(JobId(2), now - seconds(3599));
  const std::string text = metrics();
  EXPECT_THAT(text, Not(HasSubstr("job_id=\"job_1\"")));
  EXPECT_THAT(text, HasSubstr("shoal_rounds_total{job_id=\"job_2\",result=\"committed\"} 0\n"));
}

TEST_F(MetricsTest, LongOverJobsAreCountedButNotShown) {
  start();
  {
    const MutexLock lock(cluster_.tables.mutex);
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
    const MutexLock lock(cluster_.tables.mutex);
    for (RoundNumber n = 4; n <= 10'000; ++n)
      cluster_.tables.rounds[{JobId(7), 0, n}].key = {JobId(7), 0, n};
  }
  EXPECT_EQ(get("/metrics").status, 200);
  const MutexLock lock(cluster_.tables.mutex);
  EXPECT_LE(cluster_.tables.round_rows_read, 4);
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.insert((*it)[1]);
  return found;
}

std::string source_file(const char* path) {
  std::ifstream in(std::string(SHOAL_SOURCE_FOLDER "/") + path);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// docs/metrics.md lists in its tables what the coordinator shows, no more and no less. Its last
// section lists metrics of agents.
TEST_F(MetricsTest, AreThoseOfTheirPage) {
  start_counted();
  fill_devices();
  get("/api/v1/jobs");
  std::string tables;
  std::istringstream page(source_file("docs/metrics.md"));
  for (std::string line; std::getline(page, line) && line != "## An agent";) {
    if (line.starts_with("| `")) tables += line.substr(0, line.find('|', 1)) + "\n";
  }
  EXPECT_EQ(matches(tables, "`([a-z_]+)`"), matches(metrics(), "# TYPE ([a-z_]+) "));
}

// Nothing that alerts or the dashboard ask for is missing, nor a value of a label.
TEST_F(MetricsTest, HaveWhatAlertsAndTheDashboardAskFor) {
  start_counted();
  fill_devices();
  get("/api/v1/jobs");
  const std::string text = metrics();
  for (const char* path : {"monitoring/alerts.yml", "monitoring/dashboard.json"}) {
    const std::string file = source_file(path);
    const auto names = matches(file, "(shoal_[a-z_]+)");
    EXPECT_GE(names.size(), 10u) << path;
    for (std::string name : names) {
      if (name.ends_with("_bucket")) name.resize(name.rfind('_'));  // of a histogram
      EXPECT_THAT(text, HasSubstr("# TYPE " + name + " "));
    }
    for (const std::string& label : matches(file, "[{,]((?:phase|result|state|kind)=\"[a-z_]+\")"))
      EXPECT_THAT(text, HasSubstr(label)) << path;
  }
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
  EXPECT_EQ(std::system("promtool check rules " SHOAL_SOURCE_FOLDER "/monitoring/alerts.yml"), 0);
}

}  // namespace
}  // namespace shoal::coordinator
