#include "coordinator/service/agent_acceptor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/host_port.h"
#include "coordinator/service/people/client_name.h"
#include "threads/clock.h"

namespace shoal::coordinator {
namespace {

constexpr std::uint64_t kWaker = 0;
constexpr int kWakeEveryMs = 250;  // to look for late connections
constexpr int kAcceptsAtOnce = 64;
constexpr std::chrono::milliseconds kCrowdedPause{2};
constexpr int kSilenceLimitMs = 5'000;  // of a peer that acknowledges nothing

struct Freed {
  void operator()(addrinfo* found) const { ::freeaddrinfo(found); }
};

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string text() const { return HostPort{host, port}.text(); }
};

// An IPv4 address that came over an IPv6 socket is shown as IPv4, as gRPC does it.
Endpoint endpoint_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
  const void* bytes = is_v4 ? static_cast<const void*>(&v6.sin6_addr.s6_addr[12]) : &v6.sin6_addr;
  ::inet_ntop(is_v4 ? AF_INET : AF_INET6, bytes, text.data(), text.size());
  return {text.data(), ntohs(v6.sin6_port)};
}

std::optional<Endpoint> peer_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
  return endpoint_of(address);
}

std::optional<Endpoint> local_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
  return endpoint_of(address);
}

void set_option(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof value);
}

// Accepted sockets inherit the options.
Result<Descriptor> listen_on(const addrinfo& at, std::uint16_t port) {
  const auto failed = [](int number) {
    return Error{number == EADDRINUSE ? Code::kConflict : Code::kUnavailable, std::strerror(number),
                 "--grpc", ""};
  };
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  if (at.ai_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  }
  Descriptor fd(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return failed(errno);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceLimitMs);
  if (at.ai_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return failed(errno);
  }
  return fd;
}

// The addresses of a host; for 0.0.0.0 and [::] one that takes IPv4 and IPv6 before one that takes
// IPv4 only.
std::vector<std::string> hosts_of(const std::string& host) {
  if (host == "0.0.0.0" || host == "::") return {"::", "0.0.0.0"};
  return {host};
}

bool lacks_descriptors(int number) { return number == EMFILE || number == ENFILE; }

}  // namespace

std::string peer_of_call(const std::string& grpc_peer) {
  std::string text = grpc_peer;
  for (const char* scheme : {"ipv4:", "ipv6:"}) {
    if (text.starts_with(scheme)) text.erase(0, std::strlen(scheme));
  }
  for (const auto& [code, sign] : {std::pair{"%5B", "["}, {"%5D", "]"}}) {
    if (const auto at = text.find(code); at != std::string::npos) text.replace(at, 3, sign);
  }
  return text;
}

Result<std::unique_ptr<AgentAcceptor>> AgentAcceptor::listen(const std::string& bind,
                                                             ConnectionLimitOptions limits,
                                                             std::function<void()> on_refused) {
  std::unique_ptr<AgentAcceptor> acceptor(new AgentAcceptor(limits, std::move(on_refused)));
  if (Status s = acceptor->open(bind); !s.ok()) return s.error();
  return acceptor;
}

Status AgentAcceptor::open(const std::string& bind) {
  const auto refused = [&](const std::string& why) {
    return Error{Code::kConflict, "cannot listen on " + bind + ": " + why, "--grpc",
                 "stop the other program or choose another address (port 0 picks a free one)"};
  };
  const auto at = read_host_port(bind);
  if (!at) return refused("it is not an address and a port");
  port_ = at->port;
  std::string why = "the address is not of this host";
  for (const std::string& host : hosts_of(at->host)) {
    addrinfo wanted{}, *list = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_PASSIVE;
    if (::getaddrinfo(host.c_str(), nullptr, &wanted, &list) != 0) continue;
    const std::unique_ptr<addrinfo, Freed> found(list);
    for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
      auto fd = listen_on(*one, port_);
      if (!fd && fd.error().code == Code::kConflict) return refused("the port is in use");
      if (!fd) {
        why = fd.error().message;
        continue;
      }
      if (port_ == 0) port_ = local_of(fd->get())->port;
      listeners_.push_back(std::move(*fd));
    }
    if (!listeners_.empty()) break;
  }
  if (listeners_.empty()) return refused(why);
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  waker_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  reserve_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!epoll_ || !waker_ || !reserve_) return refused(std::strerror(errno));
  return watch(waker_.get(), kWaker, EPOLLIN);
}

Status AgentAcceptor::watch(int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Error{Code::kResourceExhausted, std::string("epoll: ") + std::strerror(errno), "", ""};
}

void AgentAcceptor::start(Handover grpc) {
  grpc_ = std::move(grpc);
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    (void)watch(listeners_[i].get(), i + 1, EPOLLIN);
  }
  thread_ = std::thread([this] { run(); });
}

void AgentAcceptor::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!::write(waker_.get(), &one, sizeof one);
  thread_.join();
  listeners_.clear();
}

void AgentAcceptor::run() {
  std::array<epoll_event, 128> events{};
  for (;;) {
    const int ready =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), kWakeEveryMs);
    std::vector<int> accepting;
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kWaker) return;
      if (event.data.u64 < kFirstSocket) {
        accepting.push_back(listeners_[event.data.u64 - 1].get());
      } else {
        on_event(event.data.u64, event.events);
      }
    }
    for (const int listener : accepting) accept_some(listener);
    close_late();
  }
}

// The first bytes, or the end, of a connection.
void AgentAcceptor::on_event(std::uint64_t id, std::uint32_t events) {
  const MutexLock guard(mutex_);
  const auto found = duplicates_.find(id);
  if (found == duplicates_.end()) return;
  if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) return close(id);
  limits_.heard(id);
  epoll_event rest{};
  rest.events = EPOLLRDHUP | EPOLLET;
  rest.data.u64 = id;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.get(), &rest);
}

// While many handshakes run, connections wait in the kernel's queue: if all were accepted, each
// would evict one that is nearly done.
void AgentAcceptor::accept_some(int listener) {
  for (int i = 0; i < kAcceptsAtOnce && accept_one(listener); ++i) {
    const MutexLock guard(mutex_);
    if (!limits_.is_crowded()) continue;
    const MutexUnlock meanwhile(mutex_);
    std::this_thread::sleep_for(kCrowdedPause);
    return;
  }
}

bool AgentAcceptor::accept_one(int listener) {
  Descriptor connection(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection) {
    take(std::move(connection));
    return true;
  }
  if (!lacks_descriptors(errno)) return errno == ECONNABORTED || errno == EINTR;
  make_room(listener);
  return false;
}

// The connection that is accepted with the reserve is refused, because gRPC would need a descriptor
// more for it.
void AgentAcceptor::make_room(int listener) {
  reserve_ = Descriptor();
  {
    const Descriptor refused(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    on_refused_();
  }
  {
    const MutexLock guard(mutex_);
    if (const SocketId oldest = limits_.oldest_unfinished(); oldest != 0) refuse(oldest);
  }
  reserve_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::this_thread::sleep_for(kCrowdedPause);
}

bool AgentAcceptor::is_own(int connection, const std::string& peer) {
  const auto local = local_of(connection);
  if (!own_port_ || !local || peer != HostPort{local->host, *own_port_}.text()) return false;
  own_port_.reset();
  return true;
}

void AgentAcceptor::take(Descriptor connection) {
  const auto peer = peer_of(connection.get());
  if (!peer) return;  // it has ended already
  Descriptor duplicate(::fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  {
    const MutexLock guard(mutex_);
    const std::string name = peer->text();
    const SocketId id = ++last_;
    const auto verdict = limits_.add(id, name, client_of(peer->host, false), steady_now(),
                                     is_own(connection.get(), name));
    for (const SocketId evicted : verdict.evicted) refuse(evicted);
    const bool watched = verdict.admitted && duplicate &&
                         watch(duplicate.get(), id, EPOLLIN | EPOLLRDHUP | EPOLLET).ok();
    if (!watched) {
      limits_.remove(id);
      return on_refused_();
    }
    duplicates_.emplace(id, std::move(duplicate));
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters handed;
  handed.fd = connection.release();
  grpc_->HandleNewConnection(&handed);
}

void AgentAcceptor::close_late() {
  const MutexLock guard(mutex_);
  for (const SocketId id : limits_.late(steady_now())) refuse(id);
}

// Ends the connection also for gRPC, which closes its own descriptor then.
void AgentAcceptor::close(SocketId id) {
  limits_.remove(id);
  const auto found = duplicates_.find(id);
  if (found == duplicates_.end()) return;
  (void)::shutdown(found->second.get(), SHUT_RDWR);
  duplicates_.erase(found);
}

// Counted first, so that whoever sees the end finds it in the count.
void AgentAcceptor::refuse(SocketId id) {
  on_refused_();
  close(id);
}

void AgentAcceptor::admitted(const std::string& grpc_peer, AgentId member) {
  const MutexLock guard(mutex_);
  for (const SocketId id : limits_.identify(peer_of_call(grpc_peer), member)) refuse(id);
}

void AgentAcceptor::expect_own(std::uint16_t port) {
  const MutexLock guard(mutex_);
  own_port_ = port;
}

}  // namespace shoal::coordinator
