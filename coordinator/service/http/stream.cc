#include "coordinator/service/http/stream.h"

#include <algorithm>
#include <chrono>

#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest {
namespace {

using http_io::net::buffer;

constexpr int kBatch = 200;                     // events read and written at once
constexpr int kSendBuffer = 128 << 10;          // what the kernel may hold for one client
constexpr Duration kRetry = milliseconds(200);  // when the workers' queue was full

std::chrono::nanoseconds chrono(Duration duration) { return std::chrono::nanoseconds(duration.ns); }

std::string event_text(const EventRecord& event, bool ndjson) {
  const std::string json = to_text(event_json(event));
  if (ndjson) return json + "\n";
  return "id: " + std::to_string(event.seq) + "\nevent: " + event.kind + "\ndata: " + json + "\n\n";
}

// Says where the stream continues, so that the client can load the state again and knows its
// position.
std::string reset_text(const StreamStart& start) {
  const Json json{{"kind", "reset"},
                  {"seq", start.after},
                  {"message", "events before this point are not known; load the state again"}};
  if (start.ndjson) return to_text(json) + "\n";
  return "id: " + std::to_string(start.after) + "\nevent: reset\ndata: " + to_text(json) + "\n\n";
}

}  // namespace

EventStream::EventStream(std::unique_ptr<EitherStream> connected, Service& service,
                         Service::Slot connection, ClientLimits::Visit visit, StreamStart start)
    : socket_(std::move(connected)),
      service_(service),
      connection_(std::move(connection)),
      stream_(service, service.streams),
      visit_(std::move(visit)),
      start_(std::move(start)),
      write_timer_(socket_->get_executor()),
      heartbeat_timer_(socket_->get_executor()),
      retry_timer_(socket_->get_executor()) {}

void EventStream::run(std::string head) {
  ErrorCode ignored;
  socket_->socket().set_option(http_io::net::socket_base::send_buffer_size(kSendBuffer), ignored);
  if (!start_.ndjson) head += "retry: 3000\n\n";
  if (start_.reset) head += reset_text(start_);
  watch_for_end();
  write(std::move(head));
}

void EventStream::stop() {
  http_io::net::post(socket_->get_executor(), [self = shared_from_this()] { self->close(); });
}

void EventStream::events_are_new(std::int64_t newest_seq) {
  http_io::net::post(socket_->get_executor(), [self = shared_from_this(), newest_seq] {
    self->newest_seq_ = std::max(self->newest_seq_, newest_seq);
    self->look_ = self->look_ || self->newest_seq_ > self->start_.after;
    self->pump();
  });
}

EventStream::Batch EventStream::read_batch(Context& context, const StreamStart& start,
                                           std::int64_t newest) {
  Batch batch;
  PageRequest page;
  page.limit = kBatch;
  page.after = start.after;
  const auto events = context.reader->events(start.filter, page);
  if (!events.ok()) return batch;
  batch.ok = true;
  batch.after = start.after;
  for (const EventRecord& event : events.value().items) {
    batch.text += event_text(event, start.ndjson);
    batch.after = event.seq;
  }
  // Nothing more fits the filter up to what was known before the question was asked.
  if (!events.value().next) batch.after = std::max(batch.after, newest);
  return batch;
}

void EventStream::pump() {
  if (closed_ || busy_ || !look_) return;
  if (start_.may_go_on && !start_.may_go_on()) return close();
  busy_ = true;
  look_ = false;
  std::weak_ptr<EventStream> weak = weak_from_this();
  const std::weak_ptr<Service> service = service_.weak_from_this();
  const bool accepted = service_.workers->post([weak, service, start = start_,
                                                newest = newest_seq_](Context& context) {
    Batch batch = read_batch(context, start, newest);
    const auto alive = service.lock();
    const auto self = alive ? weak.lock() : nullptr;
    if (!self) return;
    http_io::net::post(self->socket_->get_executor(), [self, batch = std::move(batch)]() mutable {
      self->on_batch(std::move(batch));
    });
  });
  if (accepted) return;
  busy_ = false;
  look_ = true;
  retry_timer_.expires_after(chrono(kRetry));
  retry_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->pump();
  });
}

void EventStream::on_batch(Batch batch) {
  busy_ = false;
  if (closed_) return;
  if (!batch.ok) return close();
  if (batch.after > start_.after && !batch.text.empty()) look_ = true;  // there may be a next batch
  start_.after = std::max(start_.after, batch.after);
  if (newest_seq_ > start_.after) look_ = true;
  if (!batch.text.empty()) return write(std::move(batch.text));
  if (heartbeat_due_) return write_heartbeat();
  pump();
}

void EventStream::write(std::string text) {
  busy_ = true;
  heartbeat_due_ = false;
  heartbeat_timer_.cancel();
  out_ = std::move(text);
  write_timer_.expires_after(chrono(service_.options.write_limit));
  write_timer_.async_wait([self = shared_from_this(), number = ++writes_](ErrorCode error) {
    // A finished write cannot take back a call that is already queued; its number can.
    if (error || self->closed_ || !self->busy_ || number != self->writes_) return;
    self->service_.metrics.stream_dropped("slow");
    self->close();
  });
  http_io::net::async_write(
      *socket_, buffer(out_),
      [self = shared_from_this()](ErrorCode error, std::size_t) { self->on_written(error); });
}

void EventStream::on_written(ErrorCode error) {
  write_timer_.cancel();
  ++writes_;
  busy_ = false;
  out_ = std::string();
  if (error || closed_) return close();
  await_heartbeat();
  pump();
}

// A heartbeat line keeps proxies from closing the stream, and finds clients that are gone. Its time
// counts from the last write, so events that the filter drops do not delay it.
void EventStream::await_heartbeat() {
  heartbeat_timer_.expires_after(chrono(service_.options.heartbeat_every));
  heartbeat_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (error || self->closed_) return;
    if (self->start_.may_go_on && !self->start_.may_go_on()) return self->close();
    self->heartbeat_due_ = true;
    if (!self->busy_) self->write_heartbeat();
  });
}

void EventStream::write_heartbeat() { write(start_.ndjson ? "\n" : ": heartbeat\n\n"); }

void EventStream::watch_for_end() {
  socket_->async_read_some(buffer(ignored_),
                           [self = shared_from_this()](ErrorCode error, std::size_t) {
                             if (error) return self->close();
                             self->watch_for_end();
                           });
}

void EventStream::close() {
  if (closed_) return;
  closed_ = true;
  write_timer_.cancel();
  heartbeat_timer_.cancel();
  retry_timer_.cancel();
  ErrorCode ignored;
  socket_->socket().shutdown(http_io::tcp::socket::shutdown_both, ignored);
  socket_->socket().close(ignored);
}

}  // namespace shoal::coordinator::rest
