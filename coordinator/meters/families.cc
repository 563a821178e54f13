#include "coordinator/meters/families.h"

namespace shoal::coordinator {

prometheus::Family<prometheus::Counter>& counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& gauges(prometheus::Registry& registry, const char* name,
                                              const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Histogram>& histograms(prometheus::Registry& registry,
                                                      const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

const Buckets& buckets_of_steps() {
  static const Buckets buckets = {.00001, .000025, .00005, .0001, .00025, .0005, .001,
                                  .0025,  .005,    .01,    .025,  .1,     1};
  return buckets;
}

const Buckets& buckets_of_requests() {
  static const Buckets buckets = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10};
  return buckets;
}

const Buckets& buckets_of_hops() {
  static const Buckets buckets = {.0001, .00025, .0005, .001, .0025, .005, .01,
                                  .025,  .05,    .1,    .25,  .5,    1,    2.5};
  return buckets;
}

const Buckets& buckets_of_rounds() {
  static const Buckets buckets = {.1, .25, .5,  1,   2.5,  5,    10,  25,
                                  60, 120, 300, 600, 1800, 3600, 7200};
  return buckets;
}

}  // namespace shoal::coordinator
