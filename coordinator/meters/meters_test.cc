// The metrics of a process as a scrape sees them.
#include "coordinator/meters/meters.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

std::string text_of(const Meters& meters) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, meters.registry.Collect());
  return text.str();
}

TEST(Meters, SeriesOfClosedListsExistFromTheStart) {
  const std::string text = text_of(Meters());
  for (const char* line :
       {"shoal_db_commits_total 0\n", "shoal_db_commit_duration_seconds_count 0\n",
        "shoal_core_step_duration_seconds_count 0\n",
        "shoal_reduce_failures_total{reason=\"peer_lost\"} 0\n",
        "shoal_moves_considered_total{verdict=\"does_not_pay\"} 0\n",
        "shoal_events_total{severity=\"error\"} 0\n",
        "shoal_incidents_total{kind=\"round_aborted\"} 0\n",
        "shoal_refused_total{port=\"peers\",reason=\"foreign\"} 0\n",
        "shoal_webhook_events_total{result=\"dropped\"} 0\n",
        "shoal_otlp_exports_total{result=\"sent\",signal=\"spans\"} 0\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(Meters, ACommitIsCountedWithItsRowsAndItsTime) {
  Meters meters;
  meters.store.wrote(3, milliseconds(4), false);
  meters.store.wrote(2, milliseconds(30), false);
  meters.store.wrote(1, milliseconds(8), true);
  EXPECT_EQ(meters.store.commits.Value(), 2);
  EXPECT_EQ(meters.store.errors.Value(), 1);
  EXPECT_EQ(meters.store.records.Value(), 6);
  EXPECT_DOUBLE_EQ(meters.store.commit_max_seconds.Value(), 0.03);
  const std::string text = text_of(meters);
  EXPECT_THAT(text, HasSubstr("shoal_db_commit_duration_seconds_bucket{le=\"0.005\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("shoal_db_commit_duration_seconds_bucket{le=\"0.01\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("shoal_db_commit_duration_seconds_bucket{le=\"+Inf\"} 3\n"));
}

TEST(Meters, AStepOfTheRulesIsCountedWithItsTime) {
  Meters meters;
  meters.runtime.stepped(microseconds(20));
  meters.runtime.stepped(microseconds(400));
  EXPECT_EQ(meters.runtime.inputs.Value(), 2);
  EXPECT_DOUBLE_EQ(meters.runtime.step_seconds_total.Value(), 0.00042);
  EXPECT_DOUBLE_EQ(meters.runtime.step_max_seconds.Value(), 0.0004);
  EXPECT_EQ(meters.runtime.step_seconds.Collect().histogram.sample_count, 2u);
}

TEST(Meters, OnlyIncidentsAreCountedByTheirKind) {
  Meters meters;
  meters.events.happened({.severity = Severity::kWarning, .kind = event_kind::kRoundAborted});
  meters.events.happened({.severity = Severity::kInfo, .kind = event_kind::kAgentJoined});
  EXPECT_EQ(meters.events.incidents.at(event_kind::kRoundAborted)->Value(), 1);
  EXPECT_FALSE(meters.events.incidents.contains(event_kind::kAgentJoined));
  EXPECT_EQ(meters.events.by_severity[Severity::kInfo].Value(), 1);
}

TEST(Meters, RefusalsAreCountedByPortAndReason) {
  Meters meters;
  meters.refusals.at(Port::kPeers, RefusalReason::kForeign).Increment(4);
  EXPECT_EQ(meters.refusals.counts(Port::kPeers)[RefusalReason::kForeign], 4);
  EXPECT_EQ(meters.refusals.counts(Port::kHttp).total(), 0);
}

}  // namespace
}  // namespace shoal::coordinator
