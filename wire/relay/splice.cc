// See splice.h.
#include "wire/relay/splice.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/socket.h>

#include "threads/clock.h"

namespace shoal::wire::relay {

Duration Pace::take(std::size_t bytes, Instant now) {
  if (bytes_per_second_ <= 0) return {};
  free_at_ = std::max(free_at_, now) + seconds_f(static_cast<double>(bytes) / bytes_per_second_);
  return std::max(Duration(), free_at_ - now - kBurst);
}

Splice::Splice(net::io_context& io, int a, int b, std::shared_ptr<Pace> pace, Duration idle_limit)
    : a_(io, kProtocol, a),
      b_(io, kProtocol, b),
      pace_(std::move(pace)),
      idle_limit_(idle_limit),
      idle_(io),
      ways_{Way{&a_, &b_, std::vector<char>(kBytes), net::steady_timer(io)},
            Way{&b_, &a_, std::vector<char>(kBytes), net::steady_timer(io)}} {}

void Splice::run(Moved moved, Over over) {
  moved_ = std::move(moved);
  over_ = std::move(over);
  watch();
  for (Way& way : ways_) read(way);
}

void Splice::read(Way& way) {
  way.from->async_read_some(net::buffer(way.bytes), [self = shared_from_this(), &way](
                                                        const ErrorCode& error, std::size_t size) {
    if (self->is_over_) return;
    if (error == net::error::eof) return self->end(way);
    if (error) return self->close();
    self->write(way, size);
  });
}

void Splice::write(Way& way, std::size_t size) {
  net::async_write(*way.to, net::buffer(way.bytes.data(), size),
                   [self = shared_from_this(), &way, size](const ErrorCode& error, std::size_t) {
                     if (self->is_over_) return;
                     if (error) return self->close();
                     self->moved_since_ = true;
                     self->moved_(size);
                     self->rest(way, size);
                   });
}

void Splice::rest(Way& way, std::size_t size) {
  const Duration pause = pace_->take(size, steady_now());
  if (pause <= Duration()) return read(way);
  way.pause.expires_after(std::chrono::nanoseconds(pause.ns));
  way.pause.async_wait([self = shared_from_this(), &way](const ErrorCode& error) {
    if (!error && !self->is_over_) self->read(way);
  });
}

// One end sends nothing more; the other may continue.
void Splice::end(Way& way) {
  way.ended = true;
  shutdown(way.to->native_handle(), SHUT_WR);
  if (ways_[0].ended && ways_[1].ended) close();
}

void Splice::watch() {
  idle_.expires_after(std::chrono::nanoseconds(idle_limit_.ns));
  idle_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (error || self->is_over_) return;
    if (!std::exchange(self->moved_since_, false)) return self->close();
    self->watch();
  });
}

void Splice::close() {
  if (std::exchange(is_over_, true)) return;
  idle_.cancel();
  for (Way& way : ways_) way.pause.cancel();
  ErrorCode ignored;  // it is over in any case
  a_.close(ignored);
  b_.close(ignored);
  if (over_) std::exchange(over_, nullptr)();
}

}  // namespace shoal::wire::relay
