// See tls_pump.h.
#include "bench/streams/tls_pump.h"

#include <array>
#include <cerrno>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "wire/stream/carrier.h"

namespace shoal::bench {
namespace {

using wire::stream::Carrier;
using wire::stream::Step;
using wire::stream::Wait;

constexpr std::size_t kBuffer = 256 << 10;
constexpr int kPatienceMs = 10'000;

// Bytes on their way in one direction.
struct Buffer {
  std::vector<std::byte> bytes = std::vector<std::byte>(kBuffer);
  std::size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
  std::span<std::byte> room() {
    begin = end = 0;
    return bytes;
  }
  std::span<const std::byte> held() const { return std::span(bytes).subspan(begin, end - begin); }
};

}  // namespace

struct TlsPump::State {
  int tcp = -1, plain = -1;
  std::unique_ptr<Carrier> carrier;
  Buffer up, down;  // to the network, from it
  short tcp_waits = 0, plain_waits = 0;

  ~State() {
    carrier.reset();
    if (tcp >= 0) close(tcp);
    if (plain >= 0) close(plain);
  }

  bool wait(Wait what) const {
    pollfd each{tcp, static_cast<short>(what == Wait::kRead ? POLLIN : POLLOUT), 0};
    return what != Wait::kOver && poll(&each, 1, kPatienceMs) == 1;
  }
  // Until `attempt` has moved something.
  template <typename Attempt>
  Status until_done(Attempt attempt) {
    for (Step step = attempt(); step.wait != Wait::kNothing; step = attempt()) {
      if (!wait(step.wait)) return carrier->why();
    }
    return {};
  }

  // False: one of the two ends is gone.
  bool move_plain(Buffer& buffer, bool reads, bool& moved) {
    if (buffer.empty() != reads) return true;
    const auto room = reads ? buffer.room() : std::span<std::byte>();
    const auto held = buffer.held();
    const ssize_t n = reads ? recv(plain, room.data(), room.size(), 0)
                            : ::send(plain, held.data(), held.size(), MSG_NOSIGNAL);
    if (n > 0) {
      (reads ? buffer.end : buffer.begin) += static_cast<std::size_t>(n);
      return moved = true;
    }
    if (n == 0 || errno != EAGAIN) return false;
    plain_waits = static_cast<short>(plain_waits | (reads ? POLLIN : POLLOUT));
    return true;
  }
  bool move_tls(Buffer& buffer, bool reads, bool& moved) {
    if (buffer.empty() != reads) return true;
    const std::array<std::span<const std::byte>, 1> parts = {buffer.held()};
    const Step step = reads ? carrier->read(buffer.room(), {}) : carrier->write(parts);
    if (step.wait == Wait::kNothing) {
      (reads ? buffer.end : buffer.begin) += step.bytes;
      return moved = true;
    }
    tcp_waits = static_cast<short>(tcp_waits | (step.wait == Wait::kRead ? POLLIN : POLLOUT));
    return step.wait != Wait::kOver;
  }

  void run() {
    for (;;) {
      bool moved = false;
      tcp_waits = plain_waits = 0;
      if (!move_plain(up, true, moved) || !move_tls(up, false, moved) ||
          !move_tls(down, true, moved) || !move_plain(down, false, moved)) {
        break;
      }
      if (moved) continue;
      std::array<pollfd, 2> waits = {pollfd{tcp, tcp_waits, 0}, pollfd{plain, plain_waits, 0}};
      poll(waits.data(), waits.size(), -1);  // either end's close wakes it
    }
    shutdown(plain, SHUT_RDWR);
    shutdown(tcp, SHUT_RDWR);
  }
};

TlsPump::TlsPump(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<TlsPump>> TlsPump::start(int fd, const wire::stream::TlsContexts& contexts,
                                                bool dials) {
  auto state = std::make_unique<State>();
  state->tcp = fd;
  std::array<int, 2> ends{};
  SHOAL_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  state->plain = ends[0];
  std::unique_ptr<TlsPump> pump(new TlsPump(std::move(state)));
  pump->plain_end_ = ends[1];
  State& s = *pump->state_;
  if (dials && !s.wait(Wait::kWrite)) return Error{Code::kUnavailable, "no connection", "", ""};
  s.carrier = wire::stream::make_tls_carrier(fd, dials ? contexts.client : contexts.server, dials,
                                             std::nullopt);
  const Status shaken = s.until_done([&] { return s.carrier->handshake(); });
  if (!shaken) return shaken.error();
  return pump;
}

Status TlsPump::tell(std::byte what) {
  const std::array<std::span<const std::byte>, 1> parts = {std::span(&what, 1)};
  return state_->until_done([&] { return state_->carrier->write(parts); });
}

Result<std::byte> TlsPump::hear() {
  std::byte what{};
  const Status heard =
      state_->until_done([&] { return state_->carrier->read(std::span(&what, 1), {}); });
  if (!heard) return heard.error();
  return what;
}

void TlsPump::begin() {
  thread_ = std::thread([this] { state_->run(); });
}

TlsPump::~TlsPump() {
  shutdown(state_->plain, SHUT_RDWR);
  shutdown(state_->tcp, SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  if (plain_end_ >= 0) close(plain_end_);
}

}  // namespace shoal::bench
