// Families of metrics in a prometheus::Registry, and buckets for their histograms.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace shoal::coordinator {

// Each returns the family of this name, and adds it if the registry has none.
prometheus::Family<prometheus::Counter>& counters(prometheus::Registry& registry, const char* name,
                                                  const char* help);
prometheus::Family<prometheus::Gauge>& gauges(prometheus::Registry& registry, const char* name,
                                              const char* help);
prometheus::Family<prometheus::Histogram>& histograms(prometheus::Registry& registry,
                                                      const char* name, const char* help);

// Upper bounds in seconds. Prometheus adds the bucket without one.
using Buckets = prometheus::Histogram::BucketBoundaries;
const Buckets& buckets_of_steps();     // 10 us to 1 s: computations in memory
const Buckets& buckets_of_requests();  // 1 ms to 10 s: disks and answers
const Buckets& buckets_of_hops();      // 0.1 ms to 2.5 s: round trips on a line
const Buckets& buckets_of_rounds();    // 0.1 s to 2 h: work of a whole job

}  // namespace shoal::coordinator
