// Sends events to one external receiver: each at least once, in order, and also those of a time in
// which the receiver or this coordinator was down. A file keeps the number of the last event that
// the receiver accepted. An event that it does not accept within a day is dropped, and counted.
//
// Threads: one of its own; the methods may be called from any thread. The destructor cancels what
// is under way, and takes one second at most.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/backoff.h"
#include "base/result.h"
#include "coordinator/core/records/event_record.h"
#include "coordinator/meters/meters.h"
#include "coordinator/store/reader.h"
#include "objects/http.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

struct WebhookOptions {
  std::string url;             // checked by objects/reach.h
  bool clear_allowed = false;  // http to other hosts than this one
  std::string proxy = {};      // as in objects::Reach
  std::string secret_file;     // made when it is missing
  std::string position_file;   // seq of the last event that was taken; none: from now on
  Severity severity_min = Severity::kWarning;
  std::function<std::string(const EventRecord&)> to_json;  // the `data` of a message
  Duration limit = seconds(10);                            // of silence in one POST
  Duration pause_first = seconds(1), pause_max = seconds(300);
  Duration drop_after = seconds(86'400);  // of trying one event
  std::shared_ptr<Meters> meters = std::make_shared<Meters>();
};

class Webhook {
 public:
  // Errors: those of the secret's file; data_loss when the position cannot be read.
  static Result<std::unique_ptr<Webhook>> start(WebhookOptions options,
                                                std::unique_ptr<Reader> reader);
  ~Webhook();

  void wake();  // there are new events

 private:
  Webhook(WebhookOptions options, std::string key, std::unique_ptr<Reader> reader,
          std::int64_t position);
  void run(const std::stop_token& stop);
  void wait_for_events(const std::stop_token& stop);
  bool is_given_up(const EventRecord& event, const Error& why);
  // The next event; none: there is none, or the store did not say.
  std::optional<EventRecord> next();
  Status post(const EventRecord& event) const;
  void took(const EventRecord& event);
  bool pause(const std::stop_token& stop, Duration time);

  const WebhookOptions options_;
  const std::string key_;
  objects::Client client_;
  const std::unique_ptr<Reader> reader_;
  std::int64_t position_;                                               // the thread's
  std::optional<std::chrono::steady_clock::time_point> failing_since_;  // the thread's
  Mutex mutex_;
  CondVar changed_;
  bool woken_ SHOAL_GUARDED_BY(mutex_) = true;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace shoal::coordinator
