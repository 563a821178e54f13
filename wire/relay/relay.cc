// See relay.h.
#include "wire/relay/relay.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "base/overloaded.h"
#include "threads/clock.h"
#include "wire/congestion_control.h"
#include "wire/relay/splice.h"
#include "wire/relay/word_line.h"
#include "wire/relay/words.h"
#include "wire/tcp_socket.h"

namespace shoal::wire::relay {
namespace {

constexpr auto kTick = std::chrono::seconds(1);
constexpr auto kPause = std::chrono::milliseconds(50);
constexpr double kBytesPerMbit = 1e6 / 8;

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

Status check_options(const RelayOptions& o) {
  if (const Status good = check_limits(o.limits); !good) return good;
  for (const auto& [field, value] :
       {std::pair("handshake_limit", o.handshake_limit), std::pair("idle_limit", o.idle_limit)}) {
    if (value <= Duration()) {
      return Error{Code::kValidation, "must be above 0 ms, got " + std::to_string(value.ms()),
                   field, "give a time above 0"};
    }
  }
  for (const auto& [field, value] :
       {std::pair("handshakes_max", o.handshakes_max),
        std::pair("handshakes_per_host_max", o.handshakes_per_host_max)}) {
    if (value < 1) {
      return Error{Code::kValidation, "must be at least 1, got " + std::to_string(value), field,
                   "give a number above 0"};
    }
  }
  if (!(o.mbit_max >= 0)) {
    return Error{Code::kValidation, "must be at least 0, got " + std::to_string(o.mbit_max),
                 "mbit_max", "give a rate, or 0 for no limit"};
  }
  return {};
}

// Its methods but start() and counts() belong to the I/O thread.
class Relay::Server {
 public:
  Server(RelayOptions options, identity::ClusterName cluster,
         std::shared_ptr<const identity::Trust> trust, identity::Clock clock)
      : options_(std::move(options)),
        cluster_(std::move(cluster)),
        trust_(std::move(trust)),
        clock_(std::move(clock)),
        io_(1),
        work_(net::make_work_guard(io_)),
        ticker_(io_),
        pace_(std::make_shared<Pace>(options_.mbit_max * kBytesPerMbit)),
        board_(options_.limits) {}
  ~Server();

  Status start();
  const std::string& address() const { return address_; }
  RelayCounts counts() const;

 private:
  enum class Place { kShaking, kWaiting, kCalling, kAnswering };
  struct Kept {
    std::shared_ptr<WordLine> line;
    std::string host;
    Place place = Place::kShaking;
  };

  void accept_next();
  bool accept_all();
  void accepted(int fd);
  void asked(ConnectionId id, const Nonce& nonce, Result<Word> word);
  void ask(ConnectionId id, const Ask& ask, const Member& who);
  void listen_to(ConnectionId id);  // to a waiting one
  void carry_out(Effects effects);
  void refuse(ConnectionId id, const Error& why);
  void join(ConnectionId caller, ConnectionId answerer);
  void splice(ConnectionId caller, ConnectionId answerer);
  void lose(ConnectionId id);
  void tick();
  void publish();

  const RelayOptions options_;
  const identity::ClusterName cluster_;
  const std::shared_ptr<const identity::Trust> trust_;
  const identity::Clock clock_;
  net::io_context io_;
  net::executor_work_guard<net::io_context::executor_type> work_;
  std::unique_ptr<stream::Descriptor> listener_;
  net::steady_timer ticker_;
  const std::shared_ptr<Pace> pace_;
  std::string address_;
  Switchboard board_;
  std::map<ConnectionId, Kept> lines_;
  std::map<ConnectionId, std::shared_ptr<Splice>> splices_;  // by the caller
  ConnectionId last_ = 0;
  bool is_over_ = false;
  std::atomic<std::uint64_t> waiting_{0}, joined_{0}, joined_total_{0}, bytes_total_{0};
  std::atomic<std::uint64_t> refused_identity_{0}, refused_asks_{0}, refused_handshakes_{0};
  std::thread thread_;
};

Status Relay::Server::start() {
  const auto fd = listen_at(options_.bind);
  if (!fd) return fd.error();
  const std::string host =
      options_.advertise_host.empty() ? host_of(options_.bind) : options_.advertise_host;
  address_ = host + ":" + std::to_string(port_of_listener(*fd));
  listener_ = std::make_unique<stream::Descriptor>(io_, *fd);
  accept_next();
  tick();
  thread_ = std::thread([this] { io_.run(); });
  return {};
}

Relay::Server::~Server() {
  if (!thread_.joinable()) return;
  net::post(io_, [this] {
    is_over_ = true;
    ticker_.cancel();
    ErrorCode ignored;  // it is over in any case
    listener_->close(ignored);
    for (const auto& [id, kept] : std::exchange(lines_, {})) kept.line->close();
    for (const auto& [id, splice] : std::exchange(splices_, {})) splice->close();
    work_.reset();
  });
  thread_.join();
}

RelayCounts Relay::Server::counts() const {
  return {waiting_,          joined_,       joined_total_,      bytes_total_,
          refused_identity_, refused_asks_, refused_handshakes_};
}

void Relay::Server::publish() {
  waiting_ = board_.waiting();
  joined_ = board_.joined();
}

// ---- coming in

void Relay::Server::accept_next() {
  listener_->async_wait(net::posix::descriptor_base::wait_read, [this](const ErrorCode& error) {
    if (error || is_over_) return;
    if (accept_all()) return accept_next();
    auto pause = std::make_shared<net::steady_timer>(io_, kPause);
    pause->async_wait([this, pause](const ErrorCode&) {
      if (!is_over_) accept_next();
    });
  });
}

// False: all descriptors are taken, and others must end first.
bool Relay::Server::accept_all() {
  for (int i = 0; i < options_.handshakes_max; ++i) {
    const int fd =
        accept4(listener_->native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      accepted(fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      return false;
    } else if (errno != ECONNABORTED) {
      return true;
    }
  }
  return true;
}

void Relay::Server::accepted(int fd) {
  const std::string host = host_of(number_of_peer(fd));
  const auto is_shaking = [](const auto& each) { return each.second.place == Place::kShaking; };
  const auto all = std::ranges::count_if(lines_, is_shaking);
  const auto of_host = std::ranges::count_if(
      lines_, [&](const auto& each) { return is_shaking(each) && each.second.host == host; });
  if (all >= options_.handshakes_max || of_host >= options_.handshakes_per_host_max) {
    ++refused_handshakes_;
    ::close(fd);
    return;
  }
  tune_connection(fd);
  CongestionControl(fd).look();
  const ConnectionId id = ++last_;
  const auto line = std::make_shared<WordLine>(io_, fd);
  lines_[id] = {line, host};
  const Nonce nonce = make_nonce();
  line->write(Challenge{kVersion, nonce});
  line->read(options_.handshake_limit,
             [this, id, nonce](Result<Word> word) { asked(id, nonce, std::move(word)); });
}

void Relay::Server::asked(ConnectionId id, const Nonce& nonce, Result<Word> word) {
  if (is_over_ || !lines_.contains(id)) return;
  if (!word) {
    ++refused_handshakes_;
    return refuse(id, word.error());
  }
  const auto* asked = std::get_if<Ask>(&*word);
  if (asked == nullptr) {
    ++refused_handshakes_;
    return refuse(id, {Code::kInvalidArgument, "it was challenged, and made no request",
                       "relay.word", "run the same version on all hosts"});
  }
  const auto who = prove(*asked, nonce, cluster_, *trust_->get(), clock_());
  if (!who) {
    ++refused_identity_;
    return refuse(id, who.error());
  }
  ask(id, *asked, *who);
}

void Relay::Server::ask(ConnectionId id, const Ask& ask, const Member& who) {
  const Instant now = steady_now();
  switch (ask.kind) {
    case AskKind::kWait:
      lines_[id].place = Place::kWaiting;
      listen_to(id);
      return carry_out(board_.wait(id, who, now));
    case AskKind::kCall:
      lines_[id].place = Place::kCalling;
      return carry_out(board_.call(id, who, ask.whom, ask.call, now));
    case AskKind::kAnswer:
      lines_[id].place = Place::kAnswering;
      return carry_out(board_.answer(id, who, ask.call));
  }
}

void Relay::Server::listen_to(ConnectionId id) {
  lines_[id].line->read(Duration(), [this, id](Result<Word> word) {
    if (is_over_ || !lines_.contains(id)) return;
    if (!word || !std::holds_alternative<Beat>(*word)) return lose(id);
    board_.heard(id, steady_now());
    lines_[id].line->write(Beat{});
    listen_to(id);
  });
}

// ---- what the switchboard says

void Relay::Server::carry_out(Effects effects) {
  for (const Effect& effect : effects) {
    std::visit(Overloaded{
                   [this](const Grant& grant) {
                     if (lines_.contains(grant.to)) lines_[grant.to].line->write(Granted{});
                   },
                   [this](const Tell& tell) {
                     if (lines_.contains(tell.to)) lines_[tell.to].line->write(Called{tell.call});
                   },
                   [this](const Join& both) { join(both.caller, both.answerer); },
                   [this](const Refuse& refusal) {
                     ++refused_asks_;
                     refuse(refusal.to, refusal.why);
                   },
                   [this](const Close& close) { lose(close.what); },
               },
               effect);
  }
  publish();
}

void Relay::Server::refuse(ConnectionId id, const Error& why) {
  const auto kept = lines_.find(id);
  if (kept == lines_.end()) return;
  kept->second.line->write(Refused{why});
  kept->second.line->close_after_words();
  lines_.erase(kept);
}

// Both are told before a byte passes: the word must not end up among the bytes.
void Relay::Server::join(ConnectionId caller, ConnectionId answerer) {
  if (!lines_.contains(caller) || !lines_.contains(answerer)) return lose(caller);
  ++joined_total_;
  const auto left = std::make_shared<int>(2);
  for (const ConnectionId id : {caller, answerer}) {
    lines_[id].line->write(Granted{}, [this, left, caller, answerer] {
      if (--*left == 0 && !is_over_) splice(caller, answerer);
    });
  }
}

void Relay::Server::splice(ConnectionId caller, ConnectionId answerer) {
  const auto one = lines_.find(caller), other = lines_.find(answerer);
  if (one == lines_.end() || other == lines_.end()) return lose(caller);
  const int a = one->second.line->release(), b = other->second.line->release();
  lines_.erase(one);
  lines_.erase(answerer);
  if (a < 0 || b < 0) {
    for (const int fd : {a, b}) {
      if (fd >= 0) ::close(fd);
    }
    return lose(caller);
  }
  const auto joined = std::make_shared<Splice>(io_, a, b, pace_, options_.idle_limit);
  splices_[caller] = joined;
  joined->run([this](std::size_t bytes) { bytes_total_ += bytes; },
              [this, caller] {
                if (is_over_) return;
                splices_.erase(caller);
                lose(caller);
              });
}

void Relay::Server::lose(ConnectionId id) {
  if (const auto kept = lines_.find(id); kept != lines_.end()) {
    kept->second.line->close();
    lines_.erase(kept);
  }
  carry_out(board_.gone(id));
}

void Relay::Server::tick() {
  carry_out(board_.tick(steady_now()));
  ticker_.expires_after(kTick);
  ticker_.async_wait([this](const ErrorCode& error) {
    if (!error && !is_over_) tick();
  });
}

// ---- from outside

Relay::Relay(std::unique_ptr<Server> server) : server_(std::move(server)) {}
Relay::~Relay() = default;

Result<std::unique_ptr<Relay>> Relay::start(RelayOptions options, identity::ClusterName cluster,
                                            std::shared_ptr<const identity::Trust> trust,
                                            identity::Clock clock) {
  if (const Status good = check_options(options); !good) return good.error();
  auto server = std::make_unique<Server>(std::move(options), std::move(cluster), std::move(trust),
                                         std::move(clock));
  if (const Status listens = server->start(); !listens) return listens.error();
  return std::unique_ptr<Relay>(new Relay(std::move(server)));
}

std::string Relay::address() const { return server_->address(); }
RelayCounts Relay::counts() const { return server_->counts(); }

}  // namespace shoal::wire::relay
