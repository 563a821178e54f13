// See pair.h.
#include "wire/stream/pair.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace shoal::wire::stream {
namespace {

std::chrono::nanoseconds to_chrono(Duration duration) {
  return std::chrono::nanoseconds(duration.ns);
}

}  // namespace

// ---- a stream

Stream::Stream(std::shared_ptr<Pair> pair) : pair_(std::move(pair)), limit_(*pair_->io_) {}

Stream::~Stream() = default;

template <typename Do>
void Stream::on_thread(Do what) {
  pair_->on_thread([self = shared_from_this(), what = std::move(what)] { what(*self); });
}

void Stream::send(OutMessage message) {
  const auto shared = std::make_shared<OutMessage>(std::move(message));
  on_thread([shared](Stream& self) {
    const Status sent = self.pair_->mux_.send(self.id_, std::move(*shared));
    if (!sent && sent.error().code != Code::kCancelled) {
      self.pair_->mux_.cancel(self.id_, sent.error());
    }
  });
}

void Stream::end() {
  on_thread([](Stream& self) { self.pair_->mux_.end(self.id_); });
}

void Stream::cancel(const Error& why) {
  on_thread([why](Stream& self) { self.pair_->mux_.cancel(self.id_, why); });
}

void Stream::release(std::size_t body) {
  on_thread([body](Stream& self) { self.pair_->mux_.release(self.id_, body); });
}

void Stream::set_limit(Duration limit) {
  on_thread([limit](Stream& self) {
    if (self.is_over_) return;
    self.limit_.expires_after(to_chrono(limit));
    self.limit_.async_wait([stream = self.shared_from_this(), limit](const ErrorCode& error) {
      if (error) return;
      stream->cancel({Code::kDeadlineExceeded,
                      "the stream took longer than " + std::to_string(limit.ms()) + " ms", "", ""});
    });
  });
}

std::optional<std::span<std::byte>> Stream::place(std::span<const std::byte> head,
                                                  std::size_t size) {
  return events_->place(head, size);
}

void Stream::arrived(std::span<const std::byte> head, std::span<std::byte> body) {
  events_->arrived(head, body);
}

void Stream::ended() { events_->ended(); }

void Stream::closed(const std::optional<Error>& error) {
  const auto events = std::exchange(events_, nullptr);
  is_over_ = true;
  limit_.cancel();
  if (events) events->closed(error);
}

// ---- a pair

// One list for all threads: if each call went to the I/O thread by itself, one that comes from
// there would be carried out at once, before those that wait.
void Pair::on_thread(std::function<void()> order) {
  {
    const MutexLock lock(orders_mutex_);
    orders_.push_back(std::move(order));
    if (std::exchange(posted_, true)) return;
  }
  net::post(*io_, [self = shared_from_this()] { self->carry_out(); });
}

void Pair::carry_out() {
  std::deque<std::function<void()>> orders;
  {
    const MutexLock lock(orders_mutex_);
    orders.swap(orders_);
    posted_ = false;
  }
  for (const auto& order : orders) order();
}

Pair::Pair(std::shared_ptr<net::io_context> io, Options options)
    : io_(std::move(io)),
      options_(std::move(options)),
      mux_(options_.side, options_.quotas, hooks()),
      ticker_(*io_) {}

MuxHooks Pair::hooks() {
  return {[this](StreamId id, std::string_view purpose) { return accept(id, purpose); },
          [this](StreamId id) {
            for (const auto& lane : std::vector(lanes_)) lane->detach(id);
          },
          [this] { wake(); }};
}

std::shared_ptr<Stream> Pair::open(std::string purpose, const MakeEvents& make, Duration limit) {
  auto stream = std::make_shared<Stream>(shared_from_this());
  stream->events_ = make(stream);
  on_thread([this, stream, purpose = std::move(purpose)] {
    const auto opened = mux_.open(purpose, stream);
    if (!opened.ok()) return stream->closed(opened.error());
    stream->id_ = *opened;
  });
  stream->set_limit(limit);
  return stream;
}

std::shared_ptr<StreamEvents> Pair::accept(StreamId id, std::string_view purpose) {
  auto stream = std::make_shared<Stream>(shared_from_this());
  stream->id_ = id;
  stream->set_limit(options_.stream_limit);
  stream->events_ = options_.accept ? options_.accept(stream, purpose) : nullptr;
  if (stream->events_) return stream;
  stream->closed(std::nullopt);
  return nullptr;
}

// Never from within an event: its caller still uses the pair.
void Pair::close() {
  net::post(*io_, [self = shared_from_this()] {
    self->shut({Code::kCancelled, "this end has closed the connection", "", ""});
  });
}

void Pair::begin(const Hello& peer, std::shared_ptr<Lane> first) {
  peer_ = first->peer();
  mux_.meet(peer);
  if (first->is_over()) return shut({Code::kUnavailable, "the peer is gone", "", "try again"});
  run(std::move(first));
  if (!is_over_) tick_later();
}

Status Pair::add(const Hello& peer, std::shared_ptr<Lane> lane) {
  const bool again =
      std::ranges::any_of(lanes_, [&](const auto& each) { return each->number == peer.lane; });
  if (is_over_ || again || lane->peer() != peer_) {
    return Error{Code::kPermissionDenied, "a further connection does not belong to its pair", "",
                 "run the same version on both hosts"};
  }
  run(std::move(lane));
  return {};
}

void Pair::run(std::shared_ptr<Lane> lane) {
  lanes_.push_back(lane);
  lane_count_ = lanes_.size();
  lane->run(*this, options_.quotas.message_max);
}

void Pair::shut(const Error& why) {
  if (is_over_) return;
  is_over_ = true;
  const auto self = shared_from_this();
  ticker_.cancel();
  mux_.fail(why);
  for (const auto& lane : std::exchange(lanes_, {})) lane->close();
  if (options_.over) options_.over(*this);
}

// Lanes are woken once for all that a handler does.
void Pair::wake() {
  if (waking_ || is_over_) return;
  waking_ = true;
  net::post(*io_, [self = shared_from_this()] {
    self->waking_ = false;
    for (const auto& lane : std::vector(self->lanes_)) lane->wake();
  });
}

void Pair::tick_later() {
  ticker_.expires_after(to_chrono(options_.beat / 2));
  ticker_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (error || self->is_over_) return;
    for (const auto& lane : std::vector(self->lanes_)) lane->tick();
    if (!self->is_over_) self->tick_later();
  });
}

std::optional<OutFrame> Pair::next_frame(const Lane& lane) { return mux_.next(lane.number == 0); }

Result<std::optional<std::span<std::byte>>> Pair::data_begins(const FrameHeader& header,
                                                              std::span<const std::byte> head) {
  return mux_.begin(header, head);
}

Status Pair::data_landed(const FrameHeader& header) { return mux_.landed(header); }

Status Pair::word(const FrameHeader& header, std::span<const std::byte> words) {
  return mux_.control(header, words);
}

void Pair::over(Lane&, const Error& why) {
  const bool is_limit = why.code == Code::kResourceExhausted;
  if (options_.refused && (is_limit || why.code == Code::kInvalidArgument)) {
    options_.refused(is_limit ? RefusalReason::kLimits : RefusalReason::kMalformed);
  }
  shut(why);
}

}  // namespace shoal::wire::stream
