// Answers scrapes of Prometheus: the counters and histograms of the process (coordinator/meters),
// and gauges of the cluster's current state, which are read at scrape time from the store and the
// live view. A gauge therefore disappears with its job or agent. A scrape reads the jobs that are
// not long over and a bounded number of rows of each, never a whole history. The position of a job
// is a gauge, since the job can go back to a checkpoint. docs/metrics.md lists all metrics, and a
// test compares.
//
// No label is called job or instance: Prometheus owns those. Thread-safe.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

#include "base/result.h"
#include "coordinator/meters/meters.h"
#include "coordinator/service/cluster.h"
#include "coordinator/service/shelves/checkpoint_bucket.h"
#include "threads/mutex.h"

namespace shoal::coordinator {
struct HttpOptions;  // server.h
}  // namespace shoal::coordinator

namespace shoal::coordinator::rest {

class Metrics {
 public:
  // Adds the metrics of the HTTP server to `meters`.
  explicit Metrics(std::shared_ptr<Meters> meters);

  // `route` is a template of the route table or "unmatched".
  void request_done(std::string_view method, std::string_view route, int status);
  void request_took(std::string_view method, std::string_view route, Duration time);
  void connections(std::int64_t now) { connections_.Set(static_cast<double>(now)); }
  void streams(std::int64_t now) { streams_.Set(static_cast<double>(now)); }
  void stream_dropped(std::string_view reason);

  // State outside of the cluster. `bucket` null: checkpoints lie in the data folder.
  struct Outside {
    const CheckpointBucket* bucket = nullptr;
    Bytes checkpoint_budget = {};  // of all jobs; 0: none
    bool agents_port_accepts = true;
  };
  Result<std::vector<prometheus::MetricFamily>> collect(Cluster& cluster, Reader& reader,
                                                        const Outside& outside);
  // The same in the Prometheus text format 0.0.4.
  Result<std::string> scrape(Cluster& cluster, Reader& reader, const Outside& outside);

 private:
  struct JobSample;
  class Families;

  Result<std::vector<JobSample>> sample_jobs(Reader& reader, Instant now,
                                             std::vector<std::int64_t>& by_phase)
      SHOAL_REQUIRES(mutex_);
  static void add_jobs(Families& families, const std::vector<JobSample>& jobs,
                       const LiveView& live);
  static Status add_agents(Families& families, Reader& reader, const LiveView& live);

  const std::shared_ptr<Meters> meters_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& durations_;
  prometheus::Family<prometheus::Counter>& dropped_;
  prometheus::Gauge& connections_;
  prometheus::Gauge& streams_;

  Mutex mutex_;
  // It and all before it are long over, and were counted here.
  std::int64_t settled_job_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::array<std::int64_t, 10> settled_phases_ SHOAL_GUARDED_BY(mutex_){};
};

Metrics::Outside outside_of(const HttpOptions& options);

}  // namespace shoal::coordinator::rest
