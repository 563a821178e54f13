// See talk.h.
#include "bench/streams/talk.h"

#include <atomic>
#include <deque>
#include <utility>

#include "threads/clock.h"
#include "threads/mutex.h"

namespace shoal::bench {
namespace {

constexpr char kSink[] = "sink";
std::atomic<std::int64_t> gone_ns{0};

Error too_long() { return {Code::kDeadlineExceeded, "a measurement takes too long", "", ""}; }

// Counts down to zero, which somebody waits for.
class Countdown {
 public:
  explicit Countdown(std::int64_t left) : left_(left) {}
  void count() {
    const MutexLock lock(mutex_);
    if (--left_ == 0) changed_.notify_all();
  }
  bool wait() {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, kTalkLimit,
                             [&]() SHOAL_REQUIRES(mutex_) { return left_ <= 0; });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::int64_t left_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace

std::int64_t monotonic_ns() { return steady_now().ns; }

namespace {

std::span<std::byte> vector_of_process(bool received) {
  static std::vector<std::byte> vectors[2] = {std::vector<std::byte>(kMemoryMax, std::byte{1}),
                                              std::vector<std::byte>(kMemoryMax, std::byte{2})};
  return vectors[received ? 1 : 0];
}

std::size_t next(std::size_t& at, std::size_t size, std::size_t all) {
  if (at + size > all) at = 0;
  return std::exchange(at, at + size);
}

}  // namespace

void Memory::touch() { (void)vector_of_process(false); }

std::span<const std::byte> Memory::next_out(std::size_t size) {
  return vector_of_process(false).subspan(next(out_, size, size_), size);
}

std::span<std::byte> Memory::next_in(std::size_t size) {
  return vector_of_process(true).subspan(next(in_, size, size_), size);
}

// ---- answering

class Answerer final : public ChannelUser {
 public:
  explicit Answerer(bool sinks) : sinks_(sinks), memory_(kMemoryMax) {}

  std::span<std::byte> place(std::size_t size) override { return memory_.next_in(size); }
  void received(Channel& channel, std::size_t size) override {
    if (sinks_) return;
    {
      const MutexLock lock(mutex_);
      if (sending_) return waiting_.push_back(size);
      sending_ = true;
    }
    channel.send(memory_.next_out(size));
  }
  void sent(Channel& channel) override {
    std::size_t size = 0;
    {
      const MutexLock lock(mutex_);
      sending_ = !waiting_.empty();
      if (!sending_) return;
      size = waiting_.front();
      waiting_.pop_front();
    }
    channel.send(memory_.next_out(size));
  }
  void gone() override {
    if (sinks_) gone_ns = monotonic_ns();
  }

 private:
  const bool sinks_;
  Memory memory_;
  Mutex mutex_;
  bool sending_ SHOAL_GUARDED_BY(mutex_) = false;
  std::deque<std::size_t> waiting_ SHOAL_GUARDED_BY(mutex_);
};

std::shared_ptr<ChannelUser> make_answerer(const std::string& purpose) {
  return std::make_shared<Answerer>(purpose == kSink);
}

std::int64_t last_gone_ns() { return gone_ns; }

// ---- asking

namespace {

class Flow final : public ChannelUser {
 public:
  Flow(std::int64_t messages, std::size_t size, Countdown& all)
      : left_(messages), answers_left_(messages), size_(size), memory_(kMemoryMax), all_(all) {}
  void begin(Channel& channel) { sent(channel); }

  std::span<std::byte> place(std::size_t size) override { return memory_.next_in(size); }
  void received(Channel&, std::size_t) override {
    if (--answers_left_ == 0) all_.count();
  }
  void sent(Channel& channel) override {
    if (left_ > 0) {
      --left_;
      channel.send(memory_.next_out(size_));
    }
  }
  void gone() override {}

 private:
  std::int64_t left_, answers_left_;
  const std::size_t size_;
  Memory memory_;
  Countdown& all_;
};

class Ping final : public ChannelUser {
 public:
  Ping(int count, std::size_t size, Countdown& all)
      : left_(count), size_(size), memory_(4 * size), all_(all) {}
  std::vector<std::int64_t> times;

  void begin(Channel& channel) {
    began_ = monotonic_ns();
    channel.send(memory_.next_out(size_));
  }
  std::span<std::byte> place(std::size_t size) override { return memory_.next_in(size); }
  // The answer may be there before we hear that the message was sent: both are waited for.
  void received(Channel& channel, std::size_t) override {
    times.push_back(monotonic_ns() - began_);
    step(channel);
  }
  void sent(Channel& channel) override { step(channel); }
  void gone() override {}

 private:
  void step(Channel& channel) {
    if (halves_.fetch_add(1) % 2 == 0) return;
    if (--left_ > 0) return begin(channel);
    all_.count();
  }
  int left_;
  const std::size_t size_;
  Memory memory_;
  Countdown& all_;
  std::int64_t began_ = 0;
  std::atomic<int> halves_{0};
};

// Sends until it is cancelled.
class Endless final : public ChannelUser {
 public:
  Endless(std::size_t size, Countdown& before, Countdown& end)
      : size_(size), memory_(kMemoryMax), before_(before), end_(end) {}
  std::span<std::byte> place(std::size_t size) override { return memory_.next_in(size); }
  void received(Channel&, std::size_t) override {}
  void sent(Channel& channel) override {
    before_.count();
    if (!stops) channel.send(memory_.next_out(size_));
  }
  void gone() override {
    gone_at = monotonic_ns();
    end_.count();
  }
  std::atomic<bool> stops{false};
  std::atomic<std::int64_t> gone_at{0};

 private:
  const std::size_t size_;
  Memory memory_;
  Countdown &before_, &end_;
};

// Cancels, and waits until the user was told.
class Ended final : public ChannelUser {
 public:
  Ended(std::shared_ptr<ChannelUser> user, Countdown& end) : user_(std::move(user)), end_(end) {}
  std::span<std::byte> place(std::size_t size) override { return user_->place(size); }
  void received(Channel& channel, std::size_t size) override { user_->received(channel, size); }
  void sent(Channel& channel) override { user_->sent(channel); }
  void gone() override { end_.count(); }

 private:
  const std::shared_ptr<ChannelUser> user_;
  Countdown& end_;
};

}  // namespace

Status flow(Contender& contender, const std::vector<int>& peers, std::int64_t bytes,
            std::size_t message) {
  const std::int64_t messages = bytes / static_cast<std::int64_t>(message);
  Countdown all(std::ssize(peers)), ends(std::ssize(peers));
  std::vector<std::shared_ptr<Channel>> channels;
  for (const int peer : peers) {
    auto user = std::make_shared<Flow>(messages, message, all);
    channels.push_back(contender.open(peer, "flow", std::make_shared<Ended>(user, ends), false));
    user->begin(*channels.back());
  }
  const bool done = all.wait();
  for (const auto& channel : channels) channel->cancel();
  return done && ends.wait() ? Status() : too_long();
}

Result<std::vector<std::int64_t>> ping(Contender& contender, int peer, std::size_t message,
                                       int count) {
  Countdown all(1), ends(1);
  auto user = std::make_shared<Ping>(count, message, all);
  auto channel = contender.open(peer, "ping", std::make_shared<Ended>(user, ends), false);
  user->begin(*channel);
  const bool done = all.wait();
  channel->cancel();
  if (!done || !ends.wait()) return too_long();
  return user->times;
}

Result<std::int64_t> handshake(Contender& contender, int peer) {
  Countdown all(1), ends(1);
  auto user = std::make_shared<Ping>(1, 1, all);
  const std::int64_t began = monotonic_ns();
  auto channel = contender.open(peer, "ping", std::make_shared<Ended>(user, ends), true);
  user->begin(*channel);
  const bool done = all.wait();
  const std::int64_t took = monotonic_ns() - began;
  channel->cancel();
  if (!done || !ends.wait()) return too_long();
  return took;
}

Result<Cancelled> cancel_under_way(Contender& contender, int peer, std::size_t message,
                                   int messages_before) {
  Countdown before(messages_before), end(1);
  auto user = std::make_shared<Endless>(message, before, end);
  auto channel = contender.open(peer, kSink, user, false);
  user->sent(*channel);
  const bool under_way = before.wait();
  Cancelled cancelled{monotonic_ns()};
  user->stops = true;
  channel->cancel();
  if (!under_way || !end.wait()) return too_long();
  cancelled.freed_ns = user->gone_at - cancelled.at_ns;
  return cancelled;
}

}  // namespace shoal::bench
