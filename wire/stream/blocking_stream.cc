// See blocking_stream.h.
#include "wire/stream/blocking_stream.h"

#include <chrono>
#include <future>
#include <utility>

#include "threads/clock.h"

namespace shoal::wire::stream {
namespace {

constexpr auto kDialMax = std::chrono::seconds(60);

// A message that is empty costs something, too, or its writer would never wait.
std::size_t cost_of(std::size_t head, std::size_t body) { return kMessageCost + head + body; }

std::chrono::nanoseconds chrono_of(Duration duration) {
  return std::chrono::nanoseconds(duration.ns);
}

Error late(const char* what, Duration limit) {
  return {Code::kDeadlineExceeded,
          std::string("the peer ") + what + " nothing within " + std::to_string(limit.ms()) + " ms",
          "", "try again"};
}

}  // namespace

BlockingStream::BlockingStream(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

std::shared_ptr<BlockingStream> BlockingStream::open(Pair& pair, std::string purpose,
                                                     Duration limit) {
  auto made = std::make_shared<BlockingStream>(nullptr);
  (void)pair.open(
      std::move(purpose),
      [&made](std::shared_ptr<Stream> stream) {
        made->stream_ = std::move(stream);
        return made;
      },
      limit);
  return made;
}

Status BlockingStream::over() const {
  if (!closed_) return {};
  if (error_) return *error_;
  return Error{Code::kCancelled, "the stream has ended", "", ""};
}

Result<std::optional<BlockingStream::Message>> BlockingStream::read(Duration limit) {
  std::optional<Message> message;
  {
    const MutexLock lock(mutex_);
    const bool news = changed_.wait_for(mutex_, chrono_of(limit), [this]() SHOAL_REQUIRES(mutex_) {
      return !messages_.empty() || ended_ || closed_;
    });
    if (!news) return late("has sent", limit);
    if (messages_.empty() && ended_) return std::optional<Message>();
    if (messages_.empty()) return over().error();
    message = std::move(messages_.front());
    messages_.pop_front();
  }
  stream_->release(message->body.size());
  return message;
}

Status BlockingStream::write(ByteVector head, std::shared_ptr<const ByteVector> body,
                             Duration limit) {
  const std::size_t cost = cost_of(head.size(), body ? body->size() : 0);
  {
    const MutexLock lock(mutex_);
    const bool free = changed_.wait_for(mutex_, chrono_of(limit), [&]() SHOAL_REQUIRES(mutex_) {
      return closed_ || ahead_ == 0 || ahead_ + cost <= kAheadBytes;
    });
    if (closed_) return over();
    if (!free) return late("has taken", limit);
    ahead_ += cost;
  }
  OutMessage message{.head = std::move(head)};
  if (body && !body->empty()) message.body = {std::span(*body)};
  message.done = [self = shared_from_this(), body, cost](bool) { self->sent(cost); };
  stream_->send(std::move(message));
  return {};
}

void BlockingStream::sent(std::size_t bytes) {
  const MutexLock lock(mutex_);
  ahead_ -= bytes;
  changed_.notify_all();
}

Status BlockingStream::flush(Duration limit) {
  const MutexLock lock(mutex_);
  const bool sent = changed_.wait_for(
      mutex_, chrono_of(limit), [this]() SHOAL_REQUIRES(mutex_) { return ahead_ == 0 || closed_; });
  return sent ? over() : Status(late("has taken", limit));
}

Status BlockingStream::finish(Duration limit) {
  end();
  const MutexLock lock(mutex_);
  const bool is_over = changed_.wait_for(mutex_, chrono_of(limit),
                                         [this]() SHOAL_REQUIRES(mutex_) { return closed_; });
  if (!is_over) return late("has taken", limit);
  return error_ ? Status(*error_) : Status();
}

void BlockingStream::end() { stream_->end(); }

void BlockingStream::cancel(const Error& why) { stream_->cancel(why); }

void BlockingStream::set_limit(Duration limit) { stream_->set_limit(limit); }

bool BlockingStream::is_over() const {
  const MutexLock lock(mutex_);
  return closed_;
}

// ---- events

std::optional<std::span<std::byte>> BlockingStream::place(std::span<const std::byte>,
                                                          std::size_t size) {
  if (size == 0) return std::span<std::byte>();
  ByteVector body(size);
  const std::span<std::byte> where(body);
  placed_[body.data()] = std::move(body);
  return where;
}

void BlockingStream::arrived(std::span<const std::byte> head, std::span<std::byte> body) {
  Message message{{head.begin(), head.end()}, {}, steady_now()};
  if (auto placed = placed_.extract(body.data()); placed && !body.empty()) {
    message.body = std::move(placed.mapped());
  }
  const MutexLock lock(mutex_);
  messages_.push_back(std::move(message));
  changed_.notify_all();
}

void BlockingStream::ended() {
  const MutexLock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void BlockingStream::closed(const std::optional<Error>& error) {
  placed_.clear();
  const MutexLock lock(mutex_);
  closed_ = true;
  error_ = error;
  changed_.notify_all();
}

// ---- beside it

Result<std::shared_ptr<Pair>> wait_for_pair(const std::function<void(Node::Dialed dialed)>& dial) {
  auto told = std::make_shared<std::promise<Result<std::shared_ptr<Pair>>>>();
  auto future = told->get_future();
  dial([told](Result<std::shared_ptr<Pair>> pair) { told->set_value(std::move(pair)); });
  if (future.wait_for(kDialMax) == std::future_status::ready) return future.get();
  return Error{Code::kDeadlineExceeded, "cannot dial: the node has ended", "", ""};
}

Result<std::shared_ptr<Pair>> dial_and_wait(Node& node, DialOptions options) {
  return wait_for_pair(
      [&](Node::Dialed dialed) { node.dial(std::move(options), std::move(dialed)); });
}

ByteVector to_bytes(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string_view to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace shoal::wire::stream
