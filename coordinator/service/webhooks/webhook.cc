#include "coordinator/service/webhooks/webhook.h"

#include <charconv>
#include <chrono>

#include <spdlog/spdlog.h>

#include "coordinator/service/webhooks/signature.h"
#include "identity/private_file.h"

namespace shoal::coordinator {
namespace {

constexpr std::chrono::seconds kLookEvery{30};  // also when nobody wakes it

std::int64_t unix_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<std::string> key_of(const std::string& file) {
  auto text = identity::read_token_file(file);
  if (!text.ok() && text.error().code == Code::kNotFound) {
    text = make_webhook_secret();
    if (const Status written = identity::write_private_file(file, *text + "\n"); !written) {
      return written.error();
    }
    spdlog::info("made the secret that webhooks are signed with: {}", file);
  }
  if (!text.ok()) return text.error();
  auto key = read_webhook_secret(*text);
  if (key.ok()) return key;
  Error error = key.error();
  error.field = file;
  return error;
}

// None: no event was ever sent.
Result<std::optional<std::int64_t>> position_in(const std::string& file) {
  const auto text = identity::read_token_file(file);
  if (!text.ok() && text.error().code == Code::kNotFound) return std::optional<std::int64_t>();
  if (!text.ok()) return text.error();
  std::int64_t seq = 0;
  const char* end = text->data() + text->size();
  const auto [stop, failure] = std::from_chars(text->data(), end, seq);
  if (failure == std::errc() && stop == end && seq >= 0) return std::optional(seq);
  return Error{Code::kDataLoss, "is not the number of an event", file,
               "delete it: events are sent from now on"};
}

Result<std::int64_t> newest_seq(Reader& reader) {
  const auto newest = reader.events({}, {.limit = 1, .newest_first = true});
  if (!newest.ok()) return newest.error();
  return newest->items.empty() ? 0 : newest->items.front().seq;
}

}  // namespace

Result<std::unique_ptr<Webhook>> Webhook::start(WebhookOptions options,
                                                std::unique_ptr<Reader> reader) {
  auto key = key_of(options.secret_file);
  if (!key.ok()) return key.error();
  const auto kept = position_in(options.position_file);
  if (!kept.ok()) return kept.error();
  const auto newest = newest_seq(*reader);
  if (!newest.ok()) return newest.error();
  // A backup that was put back may end before the position.
  const std::int64_t position = std::min(kept->value_or(*newest), *newest);
  return std::unique_ptr<Webhook>(
      new Webhook(std::move(options), std::move(*key), std::move(reader), position));
}

Webhook::Webhook(WebhookOptions options, std::string key, std::unique_ptr<Reader> reader,
                 std::int64_t position)
    : options_(std::move(options)),
      key_(std::move(key)),
      client_({.reach = {.clear_allowed = options_.clear_allowed,
                         .private_allowed = true,
                         .proxy = options_.proxy},
               .patience = {.connect = options_.limit, .silence = options_.limit, .tries = 1},
               .user_agent = "shoal-coordinator"}),
      reader_(std::move(reader)),
      position_(position),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

Webhook::~Webhook() {
  thread_.request_stop();
  client_.stop();
  wake();
}

void Webhook::wake() {
  const MutexLock lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

// False: it is to end.
bool Webhook::pause(const std::stop_token& stop, Duration time) {
  const MutexLock lock(mutex_);
  changed_.wait_for(mutex_, std::chrono::nanoseconds(time.ns),
                    [&] { return stop.stop_requested(); });
  return !stop.stop_requested();
}

void Webhook::run(const std::stop_token& stop) {
  Prng prng(static_cast<std::uint64_t>(unix_s()));
  Backoff pauses(options_.pause_first, options_.pause_max);
  while (!stop.stop_requested()) {
    const auto event = next();
    if (!event) {
      wait_for_events(stop);
      continue;
    }
    const Status posted = post(*event);
    if (stop.stop_requested() && !posted.ok()) return;
    if (!posted.ok() && !is_given_up(*event, posted.error())) {
      if (!pause(stop, pauses.next(prng))) return;
      continue;
    }
    OutsideMeters& meters = options_.meters->outside;
    (posted.ok() ? meters.webhook_taken : meters.webhook_dropped).Increment();
    took(*event);
    pauses.reset();
    failing_since_.reset();
  }
}

void Webhook::wait_for_events(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  changed_.wait_for(mutex_, kLookEvery,
                    [&]() SHOAL_REQUIRES(mutex_) { return woken_ || stop.stop_requested(); });
  woken_ = false;
}

bool Webhook::is_given_up(const EventRecord& event, const Error& why) {
  options_.meters->outside.webhook_failures.Increment();
  const auto now = std::chrono::steady_clock::now();
  if (!failing_since_) {
    failing_since_ = now;
    spdlog::warn("the webhook does not take event {}: {}; it is sent again", event.seq,
                 why.message);
  }
  if (now - *failing_since_ < std::chrono::nanoseconds(options_.drop_after.ns)) return false;
  spdlog::error("event {} was never taken by the webhook and is dropped", event.seq);
  return true;
}

std::optional<EventRecord> Webhook::next() {
  const auto page =
      reader_->events({.severity_min = options_.severity_min}, {.limit = 1, .after = position_});
  if (!page.ok()) {
    spdlog::warn("events for the webhook cannot be read: {}", page.error().message);
    return std::nullopt;
  }
  if (page->items.empty()) return std::nullopt;
  return page->items.front();
}

Status Webhook::post(const EventRecord& event) const {
  const std::string id = "evt_" + std::to_string(event.seq);
  const std::int64_t now = unix_s();
  std::string body = R"({"type":")" + event.kind + R"(","data":)" + options_.to_json(event) + "}";
  const objects::Headers headers{{"Content-Type", "application/json"},
                                 {"webhook-id", id},
                                 {"webhook-timestamp", std::to_string(now)},
                                 {"webhook-signature", sign_webhook(key_, id, now, body)}};
  const auto answer = client_.send(objects::Request{.method = "POST",
                                                    .url = options_.url,
                                                    .headers = headers,
                                                    .body = objects::body_of(std::move(body))});
  return answer.ok() ? Status() : Status(answer.error());
}

void Webhook::took(const EventRecord& event) {
  position_ = event.seq;
  const Status kept =
      identity::write_private_file(options_.position_file, std::to_string(position_) + "\n");
  if (!kept) spdlog::warn("{}: the event may be sent again", kept.error().message);
}

}  // namespace shoal::coordinator
