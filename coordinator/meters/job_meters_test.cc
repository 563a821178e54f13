// The series of jobs: their beginning, their end, and bounds.
#include "coordinator/meters/job_meters.h"

#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr JobId kJob{7};
constexpr Instant kStart{1'000'000'000'000};

class JobMetersTest : public ::testing::Test {
 protected:
  std::string text() const {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, registry_.Collect());
    return text.str();
  }

  prometheus::Registry registry_;
  JobMeters jobs_{registry_};
};

TEST_F(JobMetersTest, ANewJobHasItsSeriesAtZero) {
  jobs_.begin(kJob);
  const std::string shown = text();
  for (const char* line :
       {"shoal_rounds_total{job_id=\"job_7\",result=\"committed\"} 0\n",
        "shoal_rounds_total{job_id=\"job_7\",result=\"aborted\"} 0\n",
        "shoal_contributions_total{job_id=\"job_7\",state=\"late\"} 0\n",
        "shoal_contributions_rejected_total{job_id=\"job_7\",reason=\"outlier\"} 0\n",
        "shoal_steps_skipped_total{job_id=\"job_7\"} 0\n",
        "shoal_round_duration_seconds_count{job_id=\"job_7\"} 0\n",
        "shoal_reduce_duration_seconds_count{job_id=\"job_7\"} 0\n",
        "shoal_join_duration_seconds_count{job_id=\"job_7\"} 0\n",
        "shoal_checkpoint_duration_seconds_count{job_id=\"job_7\"} 0\n"})
    EXPECT_THAT(shown, HasSubstr(line));
  EXPECT_THAT(shown, Not(HasSubstr("state=\"training\""))) << "it is not an outcome";
  EXPECT_THAT(shown, Not(HasSubstr("reason=\"none\"")));
}

TEST_F(JobMetersTest, DurationsFallIntoTheirBuckets) {
  jobs_.begin(kJob);
  jobs_.round_committed(kJob, seconds(90));
  jobs_.reduced(kJob, seconds(4));
  jobs_.joined(kJob, seconds(20));
  jobs_.stored_checkpoint(kJob, seconds(9'000));
  jobs_.hop(kJob, 2, milliseconds(30));
  const std::string shown = text();
  for (const char* line :
       {"shoal_rounds_total{job_id=\"job_7\",result=\"committed\"} 1\n",
        "shoal_round_duration_seconds_bucket{job_id=\"job_7\",le=\"60\"} 0\n",
        "shoal_round_duration_seconds_bucket{job_id=\"job_7\",le=\"120\"} 1\n",
        "shoal_reduce_duration_seconds_bucket{job_id=\"job_7\",le=\"5\"} 1\n",
        "shoal_join_duration_seconds_bucket{job_id=\"job_7\",le=\"25\"} 1\n",
        "shoal_checkpoint_duration_seconds_bucket{job_id=\"job_7\",le=\"7200\"} 0\n",
        "shoal_checkpoint_duration_seconds_bucket{job_id=\"job_7\",le=\"+Inf\"} 1\n",
        "shoal_pipeline_hop_round_trip_seconds_bucket{job_id=\"job_7\",stage=\"2\",le=\"0.05\"} "
        "1\n"})
    EXPECT_THAT(shown, HasSubstr(line));
}

TEST_F(JobMetersTest, BeginningAgainKeepsTheCounts) {
  jobs_.begin(kJob);
  jobs_.round_aborted(kJob);
  jobs_.begin(kJob);
  EXPECT_THAT(text(), HasSubstr("shoal_rounds_total{job_id=\"job_7\",result=\"aborted\"} 1\n"));
}

TEST_F(JobMetersTest, EventsOfAnUnknownJobAreIgnored) {
  jobs_.round_committed(kJob, seconds(1));
  jobs_.round_aborted(kJob);
  jobs_.contributed(kJob, ContributionState::kRejected, RejectReason::kOutlier);
  jobs_.hop(kJob, 0, milliseconds(1));
  EXPECT_EQ(text(), "");
}

TEST_F(JobMetersTest, SeriesOfAnEndedJobAreRemovedLater) {
  jobs_.begin(kJob);
  jobs_.begin(JobId(8));
  jobs_.hop(kJob, 0, milliseconds(1));
  jobs_.end(kJob, kStart);
  jobs_.remove_ended(kStart);
  EXPECT_THAT(text(), HasSubstr("job_7"));
  jobs_.remove_ended(kStart + seconds(1));
  EXPECT_THAT(text(), Not(HasSubstr("job_7")));
  EXPECT_THAT(text(), HasSubstr("job_8"));
  jobs_.remove(JobId(8));
  EXPECT_EQ(text(), "");
}

TEST_F(JobMetersTest, OfVeryManyEndedJobsTheOldestAreRemoved) {
  for (std::uint64_t id = 1; id <= JobMeters::kEndedMax + 2; ++id) {
    jobs_.begin(JobId(id));
    jobs_.end(JobId(id), kStart);
    jobs_.end(JobId(id), kStart + seconds(1));
  }
  std::set<std::string> kept;
  for (const prometheus::MetricFamily& family : registry_.Collect()) {
    if (family.name != "shoal_steps_skipped_total") continue;
    for (const prometheus::ClientMetric& metric : family.metric)
      kept.insert(metric.label.at(0).value);
  }
  EXPECT_EQ(kept.size(), JobMeters::kEndedMax);
  EXPECT_FALSE(kept.contains("job_2"));
  EXPECT_TRUE(kept.contains("job_3"));
}

}  // namespace
}  // namespace shoal::coordinator
