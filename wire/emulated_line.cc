// See emulated_line.h. A connection is two directions, each a queue of chunks with the times at
// which they come out of the line.
#include "wire/emulated_line.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <deque>
#include <optional>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "threads/clock.h"

namespace shoal::wire {
namespace {

constexpr std::size_t kChunk = 16 << 10;
// The line is given work this long before it is free, so that a late wake-up costs nothing.
constexpr Duration kAhead = milliseconds(10);
constexpr std::size_t kQueueBytes = 64 << 10;  // of a direction, beyond what the delay holds
constexpr std::size_t kUnlimitedQueueBytes = 8 << 20;
constexpr int kSocketBuffer = 64 << 10;

struct Chunk {
  std::vector<std::byte> bytes;
  std::size_t written = 0;
  Instant due;
};

class Direction {
 public:
  Direction(int from, int to, bool up, std::size_t queue_max)
      : from_(from), to_(to), up_(up), queue_max_(queue_max) {}

  // Writes what is due and reads one chunk. False: the connection is broken.
  bool work(Instant time, LinkEmulation& link) {
    took_ = false;
    return write_due(time) && read(time, link);
  }
  bool over() const { return closed_; }
  bool took() const { return took_; }  // the line, when it worked last

  // What it waits for: readiness of its ends, and a time.
  short wants_from(Instant time, LinkEmulation& link) const {
    return wants_input() && free(link) <= time + kAhead ? POLLIN : 0;
  }
  short wants_to() const { return blocked_ ? POLLOUT : 0; }
  std::optional<Instant> wakes_at(Instant time, LinkEmulation& link) const {
    std::optional<Instant> at;
    if (!queue_.empty() && !blocked_) at = queue_.front().due;
    if (wants_input() && free(link) > time + kAhead) {
      const Instant ready = free(link) - kAhead;
      at = at ? std::min(*at, ready) : ready;
    }
    return at;
  }

 private:
  bool wants_input() const { return !ended_ && queued_ < queue_max_; }
  Instant free(LinkEmulation& link) const { return up_ ? link.up_free() : link.down_free(); }

  bool write_due(Instant time) {
    blocked_ = false;
    while (!queue_.empty() && queue_.front().due <= time) {
      Chunk& chunk = queue_.front();
      const std::size_t left = chunk.bytes.size() - chunk.written;
      const ssize_t n = send(to_, chunk.bytes.data() + chunk.written, left, MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) return false;
      if (n < 0) return blocked_ = true;
      chunk.written += static_cast<std::size_t>(n);
      queued_ -= static_cast<std::size_t>(n);
      if (chunk.written == chunk.bytes.size()) queue_.pop_front();
    }
    if (ended_ && queue_.empty() && !closed_) {
      shutdown(to_, SHUT_WR);
      closed_ = true;
    }
    return true;
  }

  bool read(Instant time, LinkEmulation& link) {
    if (!wants_input() || free(link) > time + kAhead) return true;
    Chunk chunk;
    chunk.bytes.resize(kChunk);
    const ssize_t n = recv(from_, chunk.bytes.data(), chunk.bytes.size(), 0);
    if (n < 0) return errno == EAGAIN;
    if (n == 0) {
      ended_ = true;
      return write_due(time);
    }
    chunk.bytes.resize(static_cast<std::size_t>(n));
    const Instant out = up_ ? link.up(time, n) : link.down(time, n);
    chunk.due = last_due_ = std::max(last_due_, out);  // jitter does not change the order
    queued_ += chunk.bytes.size();
    queue_.push_back(std::move(chunk));
    return took_ = true;
  }

  const int from_, to_;
  const bool up_;
  const std::size_t queue_max_;
  std::deque<Chunk> queue_;
  std::size_t queued_ = 0;
  Instant last_due_;
  bool took_ = false;
  bool blocked_ = false;  // the other side takes nothing now
  bool ended_ = false, closed_ = false;
};

std::size_t queue_max(double bytes_per_s, const LinkOptions& options) {
  if (bytes_per_s <= 0) return kUnlimitedQueueBytes;
  const double delay_s = options.rtt.seconds() / 2 + 4 * options.jitter.seconds();
  return kQueueBytes + static_cast<std::size_t>(bytes_per_s * delay_s);
}

}  // namespace

class EmulatedLine::Connection {
 public:
  Connection(int inner, int outer, const LinkOptions& options)
      : inner_(inner),
        outer_(outer),
        up_(inner, outer, true, queue_max(options.up_bytes_per_s, options)),
        down_(outer, inner, false, queue_max(options.down_bytes_per_s, options)) {}
  ~Connection() {
    close(inner_);
    if (outer_ >= 0) close(outer_);
  }

  // False: it is over.
  bool work(Instant time, LinkEmulation& link) {
    if (outer_ < 0) return false;
    return up_.work(time, link) && down_.work(time, link) && !(up_.over() && down_.over());
  }
  bool took() const { return up_.took() || down_.took(); }
  void collect(Instant time, LinkEmulation& link, std::vector<pollfd>& waits,
               std::optional<Instant>& wake) const {
    add(inner_, static_cast<short>(up_.wants_from(time, link) | down_.wants_to()), waits);
    add(outer_, static_cast<short>(down_.wants_from(time, link) | up_.wants_to()), waits);
    for (const auto& at : {up_.wakes_at(time, link), down_.wakes_at(time, link)}) {
      if (at && (!wake || *at < *wake)) wake = at;
    }
  }

 private:
  static void add(int fd, short events, std::vector<pollfd>& waits) {
    if (events != 0) waits.push_back({fd, events, 0});
  }

  const int inner_, outer_;
  Direction up_, down_;
};

EmulatedLine::EmulatedLine(const LinkOptions& options)
    : options_(options),
      link_(options),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

EmulatedLine::~EmulatedLine() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  wake();
  thread_.join();
  close(waker_);
}

void EmulatedLine::wake() const {
  const std::uint64_t one = 1;
  SHOAL_CHECK(write(waker_, &one, sizeof one) == sizeof one || errno == EAGAIN);
}

int EmulatedLine::pass(int fd) {
  std::array<int, 2> pair{};
  const int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  SHOAL_CHECK(socketpair(AF_UNIX, kind, 0, pair.data()) == 0, "no descriptors left");
  setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
  {
    const MutexLock lock(mutex_);
    new_.push_back(std::make_unique<Connection>(pair[1], fd, options_));
  }
  wake();
  return pair[0];
}

// What the thread waits for; forgets what is over.
std::optional<Instant> EmulatedLine::collect(std::vector<pollfd>& waits) {
  std::optional<Instant> at;
  const Instant time = steady_now();
  for (const auto& each : connections_) each->collect(time, link_, waits, at);
  waits.push_back({waker_, POLLIN, 0});
  return at;
}

void EmulatedLine::run() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (stopped_) return connections_.clear(), new_.clear();
      std::move(new_.begin(), new_.end(), std::back_inserter(connections_));
      new_.clear();
    }
    connections_.remove_if([this](const auto& each) { return !each->work(steady_now(), link_); });
    // The flow that had the line goes behind the others: one that always has more to send would
    // else come first whenever the line is free.
    std::list<std::unique_ptr<Connection>> served;
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto each = it++;
      if ((*each)->took()) served.splice(served.end(), connections_, each);
    }
    connections_.splice(connections_.end(), served);
    std::vector<pollfd> waits;
    const auto at = collect(waits);
    timespec limit{};
    if (at) {
      const std::int64_t ns = std::max<std::int64_t>(0, (*at - steady_now()).ns);
      limit = {ns / 1'000'000'000, ns % 1'000'000'000};
    }
    ppoll(waits.data(), waits.size(), at ? &limit : nullptr, nullptr);
    std::uint64_t count = 0;
    while (::read(waker_, &count, sizeof count) > 0) {
    }
  }
}

}  // namespace shoal::wire
