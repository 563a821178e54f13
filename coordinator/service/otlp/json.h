// OTLP in JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): ids in hex, 64-bit
// numbers as text, enums as numbers. Pure.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

#include "coordinator/service/otlp/spans.h"

namespace shoal::coordinator::otlp {

struct Resource {
  std::string version, instance, host;  // service.version, service.instance.id, host.name
};

// An ExportTraceServiceRequest.
std::string traces_json(const Resource& resource, const std::vector<Span>& spans);

// An ExportMetricsServiceRequest. Counters are cumulative since `since`. Values that are no finite
// numbers are left out.
std::string metrics_json(const Resource& resource,
                         const std::vector<prometheus::MetricFamily>& families, Instant since,
                         Instant now);

}  // namespace shoal::coordinator::otlp
