// Sends what the coordinator measures to an OpenTelemetry collector, by OTLP over HTTP in JSON: all
// metrics every few seconds, and spans (spans.h) as rounds end. A collector that is away costs
// nothing but what it misses: metrics that it did not take are not kept, spans are kept up to
// kSpansMax, and what is dropped is counted.
//
// Threads: one of its own; the methods may be called from any thread. Its end takes about a second,
// and sends what waits if the collector answers in that time.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "coordinator/meters/meters.h"
#include "coordinator/service/otlp/json.h"
#include "objects/http.h"
#include "threads/mutex.h"

namespace shoal::coordinator::otlp {

struct ExporterOptions {
  std::string url;  // of the collector, as http://127.0.0.1:4318
  bool clear_allowed = false;
  Resource resource;
  Instant since;  // of the counters: the start of the process
  Duration every = seconds(10);
  // On the exporter's thread; nothing: there is nothing to say yet.
  std::function<Result<std::vector<prometheus::MetricFamily>>()> collect;
  // Counts spans, and exports of all metrics. Dropped: the queue was full, or they were refused.
  std::shared_ptr<Meters> meters = std::make_shared<Meters>();
};

class Exporter {
 public:
  static constexpr std::size_t kSpansMax = 8'192;   // that wait
  static constexpr std::size_t kSpansAtOnce = 512;  // in one request

  explicit Exporter(ExporterOptions options);
  ~Exporter();

  void add(std::vector<Span> spans) SHOAL_EXCLUDES(mutex_);

 private:
  void run(const std::stop_token& stop) SHOAL_EXCLUDES(mutex_);
  void send_metrics();
  void send_spans() SHOAL_EXCLUDES(mutex_);
  Status post(const std::string& path, std::string json);
  void note(const Status& sent);

  const ExporterOptions options_;
  objects::Client client_;
  bool was_away_ = false;  // the thread's
  Mutex mutex_;
  CondVar changed_;
  std::deque<Span> spans_ SHOAL_GUARDED_BY(mutex_);
  bool ended_ SHOAL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace shoal::coordinator::otlp
