// scripts/otlp_check.sh reads the same with the official protos.
#include "coordinator/service/otlp/json.h"

#include <limits>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace shoal::coordinator::otlp {
namespace {

using Json = nlohmann::json;

const Resource kResource{"1.2", "host:/data", "host"};

TEST(OtlpJson, ASpanHasItsIdsInHexAndItsTimesAsText) {
  const Span span{
      .trace = {1, 2},
      .id = 3,
      .parent = 4,
      .name = "vote",
      .begin = {5},
      .end = {6},
      .attributes = {{"a", std::string("b\xff")}, {"n", std::int64_t{7}}, {"x", 0.5}, {"is", true}},
      .error = "late"};
  const Json json = Json::parse(traces_json(kResource, {span}));
  const Json& got = json["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(got["traceId"], "00000000000000010000000000000002");
  EXPECT_EQ(got["spanId"], "0000000000000003");
  EXPECT_EQ(got["parentSpanId"], "0000000000000004");
  EXPECT_EQ(got["startTimeUnixNano"], "5");
  EXPECT_EQ(got["kind"], 1);
  EXPECT_EQ(got["status"], (Json{{"code", 2}, {"message", "late"}}));
  EXPECT_EQ(got["attributes"][1], (Json{{"key", "n"}, {"value", {{"intValue", "7"}}}}));
  EXPECT_EQ(json["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"],
            "shoal-coordinator");
}

TEST(OtlpJson, MetricsAreGaugesSumsAndHistograms) {
  using prometheus::MetricFamily;
  using prometheus::MetricType;
  MetricFamily gauge{"g", "help", MetricType::Gauge, {}}, sum{"s", "", MetricType::Counter, {}},
      histogram{"h", "", MetricType::Histogram, {}};
  gauge.metric.resize(2);
  gauge.metric[0].label = {{"job_id", "job_1"}};
  gauge.metric[0].gauge.value = 1.5;
  gauge.metric[1].gauge.value = std::numeric_limits<double>::quiet_NaN();
  sum.metric.resize(1);
  sum.metric[0].counter.value = 3;
  histogram.metric.resize(1);
  auto& counts = histogram.metric[0].histogram;
  counts.sample_count = 5;
  counts.sample_sum = 2.5;
  counts.bucket = {{2, 0.1}, {4, 1}, {5, std::numeric_limits<double>::infinity()}};
  const Json json = Json::parse(metrics_json(kResource, {gauge, sum, histogram}, {10}, {20}));
  const Json& got = json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0]["gauge"]["dataPoints"],
            Json::parse(R"([{"attributes":[{"key":"job_id","value":{"stringValue":"job_1"}}],
                             "timeUnixNano":"20","asDouble":1.5}])"));
  EXPECT_EQ(got[1]["sum"]["isMonotonic"], true);
  EXPECT_EQ(got[1]["sum"]["aggregationTemporality"], 2);
  EXPECT_EQ(got[1]["sum"]["dataPoints"][0]["startTimeUnixNano"], "10");
  EXPECT_EQ(got[2]["histogram"]["dataPoints"][0]["bucketCounts"], Json({"2", "2", "1"}));
  EXPECT_EQ(got[2]["histogram"]["dataPoints"][0]["explicitBounds"], Json({0.1, 1.0}));
}

}  // namespace
}  // namespace shoal::coordinator::otlp
