#include "coordinator/service/otlp/exporter.h"

#include <algorithm>
#include <chrono>

#include <spdlog/spdlog.h>

#include "threads/clock.h"

namespace shoal::coordinator::otlp {
namespace {

// No retries: the next export has newer metrics and the same spans, and a retry would only delay
// both.
constexpr objects::Patience kPatience{.connect = seconds(2), .silence = seconds(5), .tries = 1};

constexpr std::chrono::seconds kEndMax{1};

objects::ClientOptions client_options(const ExporterOptions& options) {
  return {.reach = {.clear_allowed = options.clear_allowed, .private_allowed = true},
          .patience = kPatience,
          .user_agent = "shoal-coordinator"};
}

// Whether the collector would refuse the same export again.
bool is_refusal(const Error& error) {
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ||
         error.code == Code::kPermissionDenied || error.code == Code::kIncompatible;
}

std::string without_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

Exporter::Exporter(ExporterOptions options)
    : options_(std::move(options)),
      client_(client_options(options_)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

Exporter::~Exporter() {
  thread_.request_stop();
  changed_.notify_all();
  {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, kEndMax, [&]() SHOAL_REQUIRES(mutex_) { return ended_; });
  }
  client_.stop();
}

void Exporter::add(std::vector<Span> spans) {
  if (spans.empty()) return;
  const MutexLock lock(mutex_);
  for (Span& span : spans) {
    if (spans_.size() == kSpansMax) {
      options_.meters->outside.spans_dropped.Increment();
    } else {
      spans_.push_back(std::move(span));
    }
  }
}

void Exporter::run(const std::stop_token& stop) {
  for (bool last = false; !last;) {
    {
      const MutexLock lock(mutex_);
      changed_.wait_for(mutex_, std::chrono::nanoseconds(options_.every.ns),
                        [&] { return stop.stop_requested(); });
    }
    last = stop.stop_requested();
    send_spans();
    send_metrics();
  }
  {
    const MutexLock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

Status Exporter::post(const std::string& path, std::string json) {
  const auto answer =
      client_.send(objects::Request{.method = "POST",
                                    .url = without_slash(options_.url) + path,
                                    .headers = {{"Content-Type", "application/json"}},
                                    .body = objects::body_of(std::move(json))});
  return answer.ok() ? Status() : Status(answer.error());
}

// Once when it goes, once when it comes back.
void Exporter::note(const Status& sent) {
  if (!sent.ok() && !was_away_)
    spdlog::warn("the collector of --otlp takes nothing: {}", to_string(sent.error()));
  if (sent.ok() && was_away_) spdlog::info("the collector of --otlp takes telemetry again");
  was_away_ = !sent.ok();
}

void Exporter::send_metrics() {
  const auto families = options_.collect();
  if (!families.ok()) {
    options_.meters->outside.metrics_dropped.Increment();
    return;
  }
  if (families.value().empty()) return;
  const Status sent = post(
      "/v1/metrics", metrics_json(options_.resource, families.value(), options_.since, unix_now()));
  note(sent);
  OutsideMeters& meters = options_.meters->outside;
  (sent.ok() ? meters.metrics_sent : meters.metrics_dropped).Increment();
}

void Exporter::send_spans() {
  for (;;) {
    std::vector<Span> batch;
    {
      const MutexLock lock(mutex_);
      const auto size = static_cast<std::ptrdiff_t>(std::min(spans_.size(), kSpansAtOnce));
      batch.assign(spans_.begin(), spans_.begin() + size);
    }
    if (batch.empty()) return;
    const Status sent = post("/v1/traces", traces_json(options_.resource, batch));
    note(sent);
    if (!sent.ok() && !is_refusal(sent.error())) return;  // they wait
    OutsideMeters& meters = options_.meters->outside;
    (sent.ok() ? meters.spans_sent : meters.spans_dropped)
        .Increment(static_cast<double>(batch.size()));
    const MutexLock lock(mutex_);
    spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(batch.size()));
  }
}

}  // namespace shoal::coordinator::otlp
