#include "coordinator/service/otlp/json.h"

#include <array>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/overloaded.h"

namespace shoal::coordinator::otlp {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCumulative = 2;      // AggregationTemporality
constexpr int kInternalSpan = 1;    // SpanKind
constexpr int kOk = 1, kError = 2;  // Status.StatusCode

std::string text_of(std::int64_t number) { return std::to_string(number); }
std::string text_of(std::uint64_t number) { return std::to_string(number); }
std::string text_of(Instant at) { return std::to_string(at.ns); }

std::string hex_of(std::uint64_t id) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(id));
  return text.data();
}

Json value_json(const Value& value) {
  return std::visit(Overloaded{[](const std::string& text) {
                                 return Json{{"stringValue", text}};
                               },
                               [](std::int64_t n) {
                                 return Json{{"intValue", text_of(n)}};
                               },
                               [](double x) {
                                 return std::isfinite(x) ? Json{{"doubleValue", x}}
                                                         : Json{{"stringValue", "not finite"}};
                               },
                               [](bool is) {
                                 return Json{{"boolValue", is}};
                               }},
                    value);
}

Json attributes_json(const Attributes& attributes) {
  Json all = Json::array();
  for (const auto& [key, value] : attributes)
    all.push_back({{"key", key}, {"value", value_json(value)}});
  return all;
}

Json resource_json(const Resource& resource) {
  return {{"attributes", attributes_json({{"service.name", std::string("shoal-coordinator")},
                                          {"service.version", resource.version},
                                          {"service.instance.id", resource.instance},
                                          {"host.name", resource.host}})}};
}

Json scope_json(const Resource& resource) {
  return {{"name", "shoal"}, {"version", resource.version}};
}

// What a text of a foreign process has that is no UTF-8 is replaced.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json span_json(const Span& span) {
  Json json{{"traceId", to_hex(span.trace)}, {"spanId", hex_of(span.id)}};
  if (span.parent != 0) json["parentSpanId"] = hex_of(span.parent);
  json["name"] = span.name;
  json["kind"] = kInternalSpan;
  json["startTimeUnixNano"] = text_of(span.begin);
  json["endTimeUnixNano"] = text_of(span.end);
  json["attributes"] = attributes_json(span.attributes);
  json["status"] =
      span.error ? Json{{"code", kError}, {"message", *span.error}} : Json{{"code", kOk}};
  return json;
}

Json labels_json(const prometheus::ClientMetric& metric) {
  Attributes labels;
  for (const auto& label : metric.label) labels.emplace_back(label.name, label.value);
  return attributes_json(labels);
}

// Null: its value is no finite number.
Json number_json(const prometheus::ClientMetric& metric, bool counter, Instant since, Instant now) {
  const double value = counter ? metric.counter.value : metric.gauge.value;
  if (!std::isfinite(value)) return nullptr;
  Json point{{"attributes", labels_json(metric)}};
  if (counter) point["startTimeUnixNano"] = text_of(since);
  point["timeUnixNano"] = text_of(now);
  point["asDouble"] = value;
  return point;
}

// Prometheus counts what is up to a bound, OTLP what lies between two.
Json histogram_json(const prometheus::ClientMetric& metric, Instant since, Instant now) {
  Json bounds = Json::array(), counts = Json::array();
  std::uint64_t before = 0;
  for (const auto& bucket : metric.histogram.bucket) {
    counts.push_back(text_of(bucket.cumulative_count - before));
    before = bucket.cumulative_count;
    if (std::isfinite(bucket.upper_bound)) bounds.push_back(bucket.upper_bound);
  }
  return {{"attributes", labels_json(metric)},  {"startTimeUnixNano", text_of(since)},
          {"timeUnixNano", text_of(now)},       {"count", text_of(metric.histogram.sample_count)},
          {"sum", metric.histogram.sample_sum}, {"bucketCounts", std::move(counts)},
          {"explicitBounds", std::move(bounds)}};
}

// Null: none of its values is a number.
Json family_json(const prometheus::MetricFamily& family, Instant since, Instant now) {
  using prometheus::MetricType;
  const bool counter = family.type == MetricType::Counter;
  Json points = Json::array();
  for (const auto& metric : family.metric) {
    Json point = family.type == MetricType::Histogram ? histogram_json(metric, since, now)
                                                      : number_json(metric, counter, since, now);
    if (!point.is_null()) points.push_back(std::move(point));
  }
  if (points.empty()) return nullptr;
  Json json{{"name", family.name}, {"description", family.help}};
  Json data{{"dataPoints", std::move(points)}};
  if (family.type != MetricType::Gauge) data["aggregationTemporality"] = kCumulative;
  if (counter) data["isMonotonic"] = true;
  const char* kind = counter ? "sum" : family.type == MetricType::Histogram ? "histogram" : "gauge";
  json[kind] = std::move(data);
  return json;
}

}  // namespace

std::string traces_json(const Resource& resource, const std::vector<Span>& spans) {
  Json all = Json::array();
  for (const Span& span : spans) all.push_back(span_json(span));
  const Json scope{{"scope", scope_json(resource)}, {"spans", std::move(all)}};
  const Json resources{{"resource", resource_json(resource)}, {"scopeSpans", Json::array({scope})}};
  return dumped({{"resourceSpans", Json::array({resources})}});
}

std::string metrics_json(const Resource& resource,
                         const std::vector<prometheus::MetricFamily>& families, Instant since,
                         Instant now) {
  Json all = Json::array();
  for (const auto& family : families) {
    Json json = family_json(family, since, now);
    if (!json.is_null()) all.push_back(std::move(json));
  }
  const Json scope{{"scope", scope_json(resource)}, {"metrics", std::move(all)}};
  const Json resources{{"resource", resource_json(resource)},
                       {"scopeMetrics", Json::array({scope})}};
  return dumped({{"resourceMetrics", Json::array({resources})}});
}

}  // namespace shoal::coordinator::otlp
