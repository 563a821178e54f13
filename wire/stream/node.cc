// See node.h.
#include "wire/stream/node.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/rand.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "identity/asio_ssl.h"
#include "wire/socket_owner.h"
#include "wire/stream/local_name.h"
#include "wire/tcp_socket.h"

namespace shoal::wire::stream {
namespace {

constexpr int kUnsentMax = 256 << 10;  // bytes in a socket that are not on their way yet
constexpr char kThisHost[] = "this host";
constexpr auto kPause = std::chrono::milliseconds(50);

void tune(int fd, bool is_local) {
  if (is_local) return;
  tune_connection(fd);
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentMax, sizeof kUnsentMax);
}

PairId new_pair_id() {
  PairId id;
  SHOAL_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&id), sizeof id) == 1, "no entropy");
  return id;
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

// The refusal of a hello that does not join.
RefusalReason reason_of(Code code) {
  if (code == Code::kResourceExhausted) return RefusalReason::kLimits;
  return code == Code::kPermissionDenied ? RefusalReason::kOtherMember : RefusalReason::kMalformed;
}

Error closing() { return {Code::kCancelled, "this node ends", "", ""}; }

Error wrong(const char* field, const std::string& rule, std::int64_t given) {
  return {Code::kValidation, "must be " + rule + ", got " + std::to_string(given), field,
          "give a number in that range"};
}

}  // namespace

Status check_options(const NodeOptions& o) {
  if (const Status good = check_quotas(o.quotas); !good) return good;
  if (o.tls && (!o.tls->server || !o.tls->client)) {
    return Error{Code::kValidation, "needs a context for either role", "tls",
                 "make both with make_tls_context()"};
  }
  if (o.handshake_limit <= Duration()) {
    return wrong("handshake_limit", "above 0 ns", o.handshake_limit.ns);
  }
  if (o.beat < milliseconds(10)) return wrong("beat", "at least 10 ms", o.beat.ms());
  if (o.stream_limit <= Duration()) return wrong("stream_limit", "above 0 ns", o.stream_limit.ns);
  for (const auto& [field, value] :
       {std::pair("handshakes_max", o.handshakes_max),
        std::pair("handshakes_per_host_max", o.handshakes_per_host_max),
        std::pair("pairs_max", o.pairs_max),
        std::pair("pairs_per_peer_max", o.pairs_per_peer_max)}) {
    if (value < 1) return wrong(field, "at least 1", value);
  }
  return {};
}

// ---- its life

Node::Node(NodeOptions options, AcceptStream accept)
    : options_(std::move(options)),
      accept_(std::move(accept)),
      io_(std::make_shared<net::io_context>(1)),
      work_(net::make_work_guard(*io_)),
      tls_(options_.tls) {}

Result<std::unique_ptr<Node>> Node::start(NodeOptions options, AcceptStream accept) {
  if (const Status good = check_options(options); !good) return good.error();
  std::unique_ptr<Node> node(new Node(std::move(options), std::move(accept)));
  if (!node->options_.bind.empty()) {
    if (const Status listens = node->listen(); !listens) return listens.error();
  }
  node->thread_ = std::thread([io = node->io_] { io->run(); });
  return node;
}

Node::~Node() {
  if (!thread_.joinable()) return;  // it never listened
  net::post(*io_, [this] {
    shut_all();
    work_.reset();  // the thread ends with what that has set off
  });
  thread_.join();
}

void Node::shut_all() {
  is_over_ = true;
  for (const auto& listener : std::exchange(listeners_, {})) {
    ErrorCode ignored;  // it is over in any case
    listener->descriptor.close(ignored);
  }
  for (const auto& [lane, host] : std::exchange(shaking_, {})) lane->close();
  for (const auto& [dialing, waiting] : std::exchange(without_tls_, {})) {
    if (waiting.fd >= 0) ::close(waiting.fd);
  }
  while (!dialing_.empty()) tell(*dialing_.begin(), closing());
  while (!pairs_.empty()) PairPtr(pairs_.begin()->second.pair)->shut(closing());
}

// ---- listening

Status Node::listen() {
  const auto fd = listen_at(options_.bind);
  if (!fd.ok()) return fd.error();
  const std::string host =
      options_.advertise_host.empty() ? host_of(options_.bind) : options_.advertise_host;
  address_ = host + ":" + std::to_string(port_of_listener(*fd));
  listen_on(*fd, false);
  if (!options_.local_sockets) return {};
  const auto local = listen_by_name(address_);
  if (!local.ok()) return local.error();
  listen_on(*local, true);
  return {};
}

void Node::listen_on(int fd, bool is_local) {
  listeners_.push_back(std::make_shared<Listener>(Listener{Descriptor(*io_, fd), is_local}));
  accept_next(listeners_.back());
}

void Node::accept_next(std::shared_ptr<Listener> listener) {
  listener->descriptor.async_wait(net::posix::descriptor_base::wait_read,
                                  [this, listener](const ErrorCode& error) {
                                    if (error || is_over_) return;
                                    if (accept_all(*listener)) return accept_next(listener);
                                    auto pause = std::make_shared<net::steady_timer>(*io_, kPause);
                                    pause->async_wait([this, listener, pause](const ErrorCode&) {
                                      if (!is_over_) accept_next(listener);
                                    });
                                  });
}

// False: all descriptors are taken, and others must end first.
bool Node::accept_all(Listener& listener) {
  for (int i = 0; i < options_.handshakes_max; ++i) {
    const int fd = accept4(listener.descriptor.native_handle(), nullptr, nullptr,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      accepted(fd, listener.is_local);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      return false;
    } else if (errno != ECONNABORTED) {
      return true;
    }
  }
  return true;
}

bool Node::is_full(const std::string& host) const {
  const auto of_host =
      std::ranges::count_if(shaking_, [&](const auto& each) { return each.second == host; });
  return std::ssize(shaking_) >= options_.handshakes_max ||
         of_host >= options_.handshakes_per_host_max;
}

void Node::accepted(int fd, bool is_local) {
  const std::string host = is_local ? kThisHost : host_of(number_of_peer(fd));
  const bool full = is_full(host), is_foreign = is_local && !process_behind(fd);
  if (full || is_foreign) {
    refusals_.count(full ? RefusalReason::kLimits : RefusalReason::kForbidden);
    ::close(fd);
    return;
  }
  greet(fd, is_local, host);
}

void Node::greet(int fd, bool is_local, const std::string& host) {
  if (lacks_tls(is_local)) {  // the peer tries again
    refusals_.count(RefusalReason::kLimits);
    ::close(fd);
    return;
  }
  const LanePtr lane = new_lane(fd, is_local, false, std::nullopt);
  shaking_[lane] = host;
  lane->greet(std::nullopt, options_.handshake_limit, [this, lane, host](Result<Hello> hello) {
    shaking_.erase(lane);
    if (hello.ok()) return join(lane, *hello, host);
    if (const auto reason = lane->refusal()) refusals_.count(*reason);
  });
}

void Node::adopt(int fd) {
  net::post(*io_, [this, fd] {
    const std::string host = host_of(number_of_peer(fd));
    if (!is_over_ && !is_full(host)) return greet(fd, false, host);
    if (!is_over_) refusals_.count(RefusalReason::kLimits);
    ::close(fd);
  });
}

Node::LanePtr Node::new_lane(int fd, bool is_local, bool dials,
                             const std::optional<identity::ExpectedPeer>& expected) {
  tune(fd, is_local);
  const pid_t process = is_local && !options_.line ? process_behind(fd).value_or(0) : 0;
  if (options_.line) fd = options_.line->pass(fd);
  const bool is_plain = is_local || !tls_;
  auto carrier = is_plain
                     ? make_plain_carrier(fd)
                     : make_tls_carrier(fd, dials ? tls_->client : tls_->server, dials, expected);
  auto lane = std::make_shared<Lane>(*io_, fd, std::move(carrier), dials);
  lane->is_local = is_local;
  lane->process = process;
  return lane;
}

void Node::join(const LanePtr& lane, const Hello& hello, const std::string& host) {
  lane->number = hello.lane;
  const auto known = pairs_.find(hello.pair);
  Status joined;
  if (hello.lane == 0) {
    joined = begin_pair(lane, hello, host);
  } else if (known == pairs_.end() || known->second.peer.empty()) {
    joined = Error{Code::kNotFound, "", "", ""};
  } else {
    Hello answer = known->second.pair->own_hello();
    answer.lane = hello.lane;
    lane->say(answer);
    joined = known->second.pair->add(hello, lane);
  }
  if (joined.ok()) return;
  refusals_.count(reason_of(joined.error().code));
  lane->close();
}

bool Node::may_begin(const std::string& peer) const {
  const auto accepted =
      std::ranges::count_if(pairs_, [](const auto& each) { return !each.second.peer.empty(); });
  const auto of_peer =
      std::ranges::count_if(pairs_, [&](const auto& each) { return each.second.peer == peer; });
  // Several processes of this host, behind a line that is made up.
  const bool may_be_many = peer == kThisHost;
  return accepted < options_.pairs_max && (may_be_many || of_peer < options_.pairs_per_peer_max);
}

// For the quota of each peer: its certificate says who it is, on this host its process, and where
// neither is known, all of one host count as one.
std::string Node::name_of(const Lane& lane, const std::string& host) {
  if (const auto name = lane.peer()) return identity::to_string(*name);
  return lane.process > 0 ? "process " + std::to_string(lane.process) : host;
}

Status Node::begin_pair(const LanePtr& lane, const Hello& hello, const std::string& host) {
  const std::string peer = name_of(*lane, host);
  if (pairs_.contains(hello.pair) || !may_begin(peer)) {
    return Error{Code::kResourceExhausted, "", "", ""};
  }
  const Hello own = hello_for(hello.pair, 0, hello.lanes);
  auto pair = std::make_shared<Pair>(io_, options_for(Side::kAcceptor, own, *lane));
  keep(hello.pair, pair, peer);
  lane->say(own);
  pair->begin(hello, lane);
  if (joined_) joined_(pair);
  return {};
}

void Node::set_joined(std::function<void(PairPtr)> joined) {
  net::dispatch(*io_,
                [this, joined = std::move(joined)]() mutable { joined_ = std::move(joined); });
}

// ---- pairs

Hello Node::hello_for(PairId id, std::uint16_t lane, int lanes) const {
  const Quotas& q = options_.quotas;
  return {id, lane, static_cast<std::uint16_t>(lanes), q.message_max, q.window, q.streams_max};
}

Pair::Options Node::options_for(Side side, const Hello& own, const Lane& first) {
  return {side,
          own,
          first.is_local,
          first.process,
          options_.quotas,
          options_.beat,
          options_.stream_limit,
          accept_,
          [this, id = own.pair](Pair&) { pairs_.erase(id); },
          [this](RefusalReason reason) { refusals_.count(reason); }};
}

void Node::keep(PairId id, const PairPtr& pair, std::string peer) {
  pairs_[id] = {pair, std::move(peer)};
}

// ---- dialing

void Node::dial(DialOptions options, Dialed dialed) {
  auto dialing = std::make_shared<Dialing>(Dialing{std::move(options), std::move(dialed)});
  DialOptions& to = dialing->options;
  const bool may_be_local = to.local && options_.local_sockets && !to.make;
  int fd = may_be_local ? connect_by_name(to.address) : -1;
  dialing->is_local = fd >= 0;
  if (fd < 0 && !to.make) dialing->numbers = numbers_of(to.address);
  if (!dialing->numbers.empty()) fd = begin_connect(dialing->numbers.front());
  net::post(*io_, [this, fd, dialing] {
    dialing_.insert(dialing);
    const Status good = check_dial(*dialing);
    if (good.ok() && lacks_tls(dialing->is_local)) return wait_for_tls(fd, dialing);
    if (good.ok()) return begin_dial(fd, dialing);
    if (fd >= 0) ::close(fd);
    tell(dialing, good.error());
  });
}

void Node::begin_dial(int fd, DialingPtr dialing) {
  dialing->options.make ? make_first(dialing) : dial_first(fd, dialing);
}

// A certificate comes soon after what it is for.
void Node::wait_for_tls(int fd, DialingPtr dialing) {
  Waiting& waiting = without_tls_.try_emplace(dialing, fd, *io_).first->second;
  waiting.limit.expires_after(std::chrono::nanoseconds(options_.handshake_limit.ns));
  waiting.limit.async_wait([this, dialing](const ErrorCode& error) {
    const auto late = without_tls_.find(dialing);
    if (error || late == without_tls_.end()) return;
    if (late->second.fd >= 0) ::close(late->second.fd);
    without_tls_.erase(late);
    tell(dialing,
         Error{Code::kUnavailable,
               "cannot dial " + dialing->options.address + ": this process has no certificate yet",
               "tls", "its agent asks the coordinator for one; see its log"});
  });
}

void Node::set_tls(TlsContexts contexts, bool anew) {
  net::post(*io_, [this, contexts = std::move(contexts), anew] {
    tls_ = contexts;
    if (is_over_) return;
    if (anew) {
      shut_pairs([](const Pair& pair) { return !pair.is_local(); },
                 {Code::kCancelled, "this process is another replica now", "", ""});
    }
    for (auto& [dialing, waiting] : std::exchange(without_tls_, {})) {
      begin_dial(waiting.fd, dialing);
    }
  });
}

void Node::end_pairs(std::function<bool(const Pair&)> which, Error why) {
  net::post(*io_, [this, which = std::move(which), why = std::move(why)] {
    if (!is_over_) shut_pairs(which, why);
  });
}

void Node::shut_pairs(const std::function<bool(const Pair&)>& which, const Error& why) {
  std::vector<PairPtr> those;
  for (const auto& [id, kept] : pairs_) {
    if (which(*kept.pair)) those.push_back(kept.pair);
  }
  for (const PairPtr& pair : those) pair->shut(why);
}

void Node::tell(DialingPtr dialing, Result<PairPtr> result) {
  if (dialing_.erase(dialing) > 0) dialing->done(std::move(result));
}

Status Node::check_dial(const Dialing& dialing) const {
  const DialOptions& to = dialing.options;
  if (is_over_) return closing();
  if (to.lanes < 1 || to.lanes > kLanesMax) {
    return wrong("lanes", "1 to " + std::to_string(kLanesMax), to.lanes);
  }
  if (to.make || dialing.is_local || !dialing.numbers.empty()) return {};
  return Error{Code::kUnavailable, "cannot dial " + to.address + ": the address has no host",
               "address", "give host:port"};
}

void Node::make_first(DialingPtr dialing) {
  dialing->options.make(*io_, [this, dialing](Result<int> fd) {
    if (fd.ok() && is_over_) ::close(*fd);
    if (is_over_) return tell(dialing, closing());
    if (!fd.ok()) return not_dialed(fd.error(), dialing);
    dial_first(*fd, dialing);
  });
}

void Node::dial_first(int fd, DialingPtr dialing) {
  if (fd < 0) {
    return not_dialed({Code::kUnavailable, "there is no way to it", "", "try again"}, dialing);
  }
  const Hello own = hello_for(new_pair_id(), 0, dialing->options.lanes);
  const LanePtr lane = new_lane(fd, dialing->is_local, true, dialing->options.expected);
  shaking_[lane] = "";
  lane->greet(own, options_.handshake_limit, [this, lane, own, dialing](Result<Hello> hello) {
    shaking_.erase(lane);
    if (hello.ok() && hello->pair != own.pair)
      hello = Error{Code::kIncompatible, "it answers another", "", ""};
    if (!hello.ok()) return not_dialed(hello.error(), dialing);
    auto pair = std::make_shared<Pair>(io_, options_for(Side::kDialer, own, *lane));
    keep(own.pair, pair, "");
    pair->begin(*hello, lane);
    tell(dialing, pair);
    dial_further(pair, *dialing);
  });
}

// A host may have further addresses.
void Node::not_dialed(Error why, const DialingPtr& dialing) {
  if (!is_over_ && ++dialing->number < dialing->numbers.size()) {
    return dial_first(begin_connect(dialing->numbers[dialing->number]), dialing);
  }
  why.message = "cannot dial " + dialing->options.address + ": " + why.message;
  tell(dialing, std::move(why));
}

void Node::dial_further(const PairPtr& pair, const Dialing& dialing) {
  if (is_over_) return;
  for (int lane = 1; lane < dialing.options.lanes; ++lane) {
    dial_one_more(pair, dialing, static_cast<std::uint16_t>(lane));
  }
}

// A further connection that does not come about is not a failure: the pair continues with those it
// has.
void Node::dial_one_more(const PairPtr& pair, const Dialing& dialing, std::uint16_t number) {
  if (dialing.options.make) {
    return dialing.options.make(*io_, [this, pair, dialing, number](Result<int> fd) {
      if (!fd.ok()) return;
      if (is_over_) return void(::close(*fd));
      add_lane(*fd, pair, dialing, number);
    });
  }
  const int fd = dialing.is_local ? connect_by_name(dialing.options.address)
                                  : begin_connect(dialing.numbers[dialing.number]);
  if (fd >= 0) add_lane(fd, pair, dialing, number);
}

void Node::add_lane(int fd, const PairPtr& pair, const Dialing& dialing, std::uint16_t number) {
  const LanePtr lane = new_lane(fd, dialing.is_local, true, dialing.options.expected);
  lane->number = number;
  Hello own = pair->own_hello();
  own.lane = number;
  shaking_[lane] = "";
  lane->greet(own, options_.handshake_limit, [this, lane, pair](Result<Hello> hello) {
    shaking_.erase(lane);
    const bool fits = hello.ok() && hello->pair == pair->own_hello().pair;
    if (!fits || !pair->add(*hello, lane).ok()) lane->close();
  });
}

}  // namespace shoal::wire::stream
