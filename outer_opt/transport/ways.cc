// See ways.h.
#include "outer_opt/transport/ways.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <sstream>
#include <utility>

#include "base/digest.h"
#include "base/host_port.h"
#include "threads/clock.h"
#include "wire/tcp_socket.h"

namespace shoal::outer_opt {
namespace {

namespace net = wire::stream::net;
using wire::stream::Pair;
using wire::stream::Stream;

constexpr Duration kWordLimit = seconds(10);  // of the streams of kWayPurpose
constexpr char kLend[] = "way lend", kGiven[] = "way given", kBack[] = "way back ",
               kAre[] = "way are ";

Error closing() { return {Code::kCancelled, "this node ends", "", ""}; }

Instant after(Duration so_long) { return steady_now() + so_long; }

// A stream on which nothing but its purpose and its end are said.
class WordEvents final : public wire::stream::StreamEvents {
 public:
  using Closed = std::function<void(const std::optional<Error>&)>;
  WordEvents(std::shared_ptr<Stream> stream, Closed closed)
      : stream_(std::move(stream)), closed_(std::move(closed)) {}

  std::optional<std::span<std::byte>> place(std::span<const std::byte>, std::size_t) override {
    return std::nullopt;
  }
  void arrived(std::span<const std::byte>, std::span<std::byte>) override {}
  void ended() override {}
  void closed(const std::optional<Error>& error) override {
    stream_.reset();
    if (closed_) std::exchange(closed_, nullptr)(error);
  }

 private:
  std::shared_ptr<Stream> stream_;
  Closed closed_;
};

void say(Pair& pair, std::string purpose, WordEvents::Closed closed = nullptr) {
  const auto stream = pair.open(
      std::move(purpose),
      [&](std::shared_ptr<Stream> opened) {
        return std::make_shared<WordEvents>(std::move(opened), std::move(closed));
      },
      kWordLimit);
  stream->end();
}

std::optional<ReplicaId> replica_at(const Pair& pair) {
  const auto* who = pair.peer() ? std::get_if<identity::ReplicaName>(&pair.peer()->who) : nullptr;
  return who == nullptr ? std::nullopt : std::optional(who->replica);
}

// As TLS looks at whom we dial.
bool is_expected(const Pair& pair, const std::optional<identity::ExpectedPeer>& expected) {
  const auto* who = pair.peer() ? std::get_if<identity::ReplicaName>(&pair.peer()->who) : nullptr;
  return who != nullptr && expected && who->job == expected->job &&
         (!expected->epoch || who->epoch == expected->epoch);
}

std::uint64_t rank(ReplicaId replica, const std::string& relay) {
  return Digester().add(replica.n).add(relay).finish().low;
}

}  // namespace

std::vector<std::string> relays_of(ReplicaId replica, std::vector<std::string> relays) {
  std::ranges::sort(relays, [&](const std::string& a, const std::string& b) {
    return std::pair(rank(replica, a), a) < std::pair(rank(replica, b), b);
  });
  return relays;
}

struct Ways::Attempt {
  ReplicaId peer;
  wire::stream::DialOptions to;
  bool keeps = false;
  Done done;
  Instant begun;
  net::steady_timer timer;
  std::uint64_t waits = 0;  // tells a wait from those before
  bool dials = false, past_direct = false, is_out_of_ways = false, is_over = false;
  std::optional<Error> why = {}, last = {};  // of the direct way, and of the last other one
  std::set<std::string> asked = {};          // relays
  PairPtr over_relay = nullptr;              // while the peer is asked to dial us
};

// ---- life

void Ways::close() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  identified_.notify_all();
  std::promise<void> closed;
  net::post(node_.io(), [&] {
    is_over_ = true;
    for (auto& [name, at] : std::exchange(waiting_, {})) at.waiter->close();
    while (!attempts_.empty()) finish(attempts_.front(), closing());
    closed.set_value();
  });
  closed.get_future().wait();
  const MutexLock lock(mutex_);
  peers_.clear();
}

void Ways::set_identity(std::shared_ptr<const PeerIdentity> identity, bool anew) {
  {
    const MutexLock lock(mutex_);
    identity_ = std::move(identity);
    if (anew) peers_.clear();
  }
  identified_.notify_all();
  net::post(node_.io(), [self = shared_from_this()] { self->arrange(); });
}

void Ways::set_relays(std::vector<std::string> relays) {
  if (relays.size() > kRelaysMax) relays.resize(kRelaysMax);
  std::vector<Relay> known;
  for (std::string& name : relays) {
    const auto numbers = wire::numbers_of(name);
    known.push_back({std::move(name), numbers.empty() ? "" : numbers.front(), {}});
  }
  {
    const MutexLock lock(mutex_);
    relays_ = std::move(known);
  }
  net::post(node_.io(), [self = shared_from_this()] { self->arrange(); });
}

identity::Credentials Ways::credentials() const {
  const MutexLock lock(mutex_);
  return identity_->credentials;
}

// The first two relays of the own replica, by name.
std::map<std::string, std::string> Ways::wanted_relays(ReplicaId own) const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::string> numbers, wanted;
  std::vector<std::string> names;
  for (const Relay& relay : relays_) {
    if (relay.number.empty() || !numbers.emplace(relay.name, relay.number).second) continue;
    names.push_back(relay.name);
  }
  for (const std::string& name : relays_of(own, names)) {
    if (wanted.size() < kWaitsAtMax) wanted.insert(*numbers.find(name));
  }
  return wanted;
}

void Ways::arrange() {
  ReplicaId own;
  {
    const MutexLock lock(mutex_);
    if (is_over_ || !identity_) return;
    own = identity_->own.replica;
  }
  const auto wanted = wanted_relays(own);
  const bool anew = std::exchange(waiting_as_, own) != own;
  std::erase_if(waiting_, [&](auto& at) {
    if (!anew && wanted.contains(at.first)) return false;
    at.second.waiter->close();
    if (*at.second.waits) --waits_at_;
    return true;
  });
  for (const auto& [name, number] : wanted) {
    if (!waiting_.contains(name)) wait_at(name, number);
  }
}

void Ways::wait_at(const std::string& name, const std::string& number) {
  wire::relay::WaitOptions options = options_.wait;
  options.relay = number;
  const auto waits = std::make_shared<bool>(false);
  const auto waiter = std::make_shared<wire::relay::Waiter>(
      node_.io(), options, [self = shared_from_this()] { return self->credentials(); },
      rank(waiting_as_, name));
  waiting_[name] = {waiter, waits};
  waiter->start([this](int fd) { node_.adopt(fd); },
                [this, waits](const Status& status) {
                  if (std::exchange(*waits, status.ok()) == status.ok()) return;
                  status.ok() ? ++waits_at_ : --waits_at_;
                });
}

std::size_t Ways::waits_at() const { return waits_at_; }

// ---- what is known

// The one that was used least lately makes room.
Ways::Peer& Ways::peer_of(ReplicaId replica) {
  if (!peers_.contains(replica) && peers_.size() >= kPeersMax) {
    peers_.erase(
        std::ranges::min_element(peers_, {}, [](const auto& each) { return each.second.used_at; }));
  }
  Peer& peer = peers_[replica];
  peer.used_at = steady_now();
  if (peer.lent && peer.lent->is_over()) peer.lent.reset();
  return peer;
}

bool Ways::has_others(const Peer& peer) const {
  return identity_ && (peer.lent || !relays_.empty());
}

// Where the last try failed long ago it is tried again, but nobody waits for it.
bool Ways::may_dial(const AttemptPtr& attempt) {
  if (!attempt->peer) return true;
  {
    const MutexLock lock(mutex_);
    Peer& peer = peer_of(attempt->peer);
    if (peer.direct_again == Instant() || !has_others(peer)) return true;
    if (steady_now() < peer.direct_again) return false;
    peer.direct_again = after(options_.again);
  }
  look_for_direct(attempt->peer, attempt->to);
  return false;
}

void Ways::note_direct(ReplicaId replica, bool is_reached) {
  if (!replica) return;
  const MutexLock lock(mutex_);
  peer_of(replica).direct_again = is_reached ? Instant() : after(options_.again);
}

void Ways::look_for_direct(ReplicaId replica, wire::stream::DialOptions to) {
  to.lanes = 1;
  node_.dial(std::move(to), [self = shared_from_this(), replica](Result<PairPtr> pair) {
    self->note_direct(replica, pair.ok());
    if (pair.ok()) (*pair)->close();
  });
}

bool Ways::is_best(const PeerAddress& peer, const wire::stream::DialOptions& to, PeerWay way) {
  if (way == PeerWay::kDirect || !peer.replica) return true;
  {
    const MutexLock lock(mutex_);
    Peer& known = peer_of(peer.replica);
    if (known.direct_again == Instant()) return false;
    if (way == PeerWay::kRelayed && known.lent) return false;
    if (steady_now() < known.direct_again) return true;
    known.direct_again = after(options_.again);
  }
  look_for_direct(peer.replica, to);
  return true;
}

Ways::PairPtr Ways::lent_by(ReplicaId replica) {
  const MutexLock lock(mutex_);
  return peer_of(replica).lent;
}

bool Ways::may_ask_back(ReplicaId replica) {
  const MutexLock lock(mutex_);
  return !node_.address().empty() && steady_now() >= peer_of(replica).back_again;
}

// Relays that failed recently come last; otherwise the order of the peer counts.
std::optional<Ways::Relay> Ways::next_relay(Attempt& attempt) {
  const MutexLock lock(mutex_);
  if (!identity_ || !attempt.peer) return std::nullopt;
  const Instant now = steady_now();
  const auto place = [&](const Relay& relay) {
    const bool failed =
        relay.failed_at != Instant() && now - relay.failed_at < options_.relay_again;
    return std::tuple(failed, rank(attempt.peer, relay.name), relay.name);
  };
  const Relay* best = nullptr;
  for (const Relay& relay : relays_) {
    if (relay.number.empty() || attempt.asked.contains(relay.name)) continue;
    if (best == nullptr || place(relay) < place(*best)) best = &relay;
  }
  if (best == nullptr) return std::nullopt;
  attempt.asked.insert(best->name);
  return *best;
}

void Ways::note_relay(const std::string& name) {
  const MutexLock lock(mutex_);
  for (Relay& relay : relays_) {
    if (relay.name == name) relay.failed_at = steady_now();
  }
}

// ---- an attempt

void Ways::reach(const PeerAddress& peer, wire::stream::DialOptions to, bool keeps, Done done) {
  const AttemptPtr attempt(new Attempt{.peer = peer.replica,
                                       .to = std::move(to),
                                       .keeps = keeps,
                                       .done = std::move(done),
                                       .begun = steady_now(),
                                       .timer = net::steady_timer(node_.io())});
  attempt->dials = may_dial(attempt);
  net::post(node_.io(), [self = shared_from_this(), attempt] {
    self->attempts_.push_back(attempt);
    if (self->is_over_) return self->finish(attempt, closing());
    if (!attempt->dials) return self->not_direct(attempt);
    if (attempt->peer) self->wait(attempt, self->options_.direct_limit, &Ways::not_direct);
  });
  if (attempt->dials) dial(attempt);
}

Result<Reached> Ways::reach_and_wait(const PeerAddress& peer, wire::stream::DialOptions to,
                                     const std::stop_token& stop) {
  struct Told {
    std::promise<Result<Reached>> promise;
    std::atomic<bool> is_told{false};
  };
  const auto told = std::make_shared<Told>();
  auto result = told->promise.get_future();
  const auto tell = [told](Result<Reached> reached) {
    if (!told->is_told.exchange(true)) return told->promise.set_value(std::move(reached));
    if (reached.ok()) reached->let_go();
  };
  reach(peer, std::move(to), false, tell);
  const std::stop_callback on_stop(stop, [&] {
    tell(Error{Code::kCancelled, "the requester was stopped", "", ""});
  });
  return result.get();  // within the limits of all ways
}

void Ways::dial(const AttemptPtr& attempt) {
  node_.dial(attempt->to, [self = shared_from_this(), attempt](Result<PairPtr> pair) {
    self->dialed(attempt, std::move(pair));
  });
}

// Also when another way was begun meanwhile, or was even found.
void Ways::dialed(const AttemptPtr& attempt, Result<PairPtr> pair) {
  if (is_over_) return;
  note_direct(attempt->peer, pair.ok());
  if (attempt->is_over) {
    if (pair.ok()) (*pair)->close();
    return;
  }
  if (!pair.ok()) {
    attempt->why = pair.error();
    return attempt->past_direct ? go_on(attempt) : not_direct(attempt);
  }
  if (!(*pair)->is_local() || !attempt->peer || !attempt->to.expected) {
    return named(attempt, *pair, true);
  }
  // Another host may have the address of a process of this one.
  say(**pair, kAre + std::to_string(attempt->peer.n),
      [self = shared_from_this(), attempt, pair = *pair](const std::optional<Error>& error) {
        net::post(self->node_.io(), [self, attempt, pair, is_right = !error] {
          self->named(attempt, pair, is_right);
        });
      });
}

void Ways::named(const AttemptPtr& attempt, const PairPtr& pair, bool is_right) {
  if (attempt->is_over) return pair->close();
  if (is_right) {
    if (attempt->keeps) lend(attempt, *pair);
    return finish(attempt, Reached{pair, PeerWay::kDirect, false});
  }
  pair->close();
  note_direct(attempt->peer, false);
  attempt->why = Error{
      Code::kPermissionDenied,
      attempt->to.address + " is another process of this host, not " + to_string(attempt->peer),
      "address", ""};
  attempt->past_direct ? go_on(attempt) : not_direct(attempt);
}

void Ways::go_on(const AttemptPtr& attempt) {
  if (attempt->is_out_of_ways) in_vain(attempt);
}

void Ways::lend(const AttemptPtr& attempt, Pair& pair) {
  if (attempt->to.expected && !pair.is_local() && pair.peer()) say(pair, kLend);
}

// It failed, or takes too long.
void Ways::not_direct(const AttemptPtr& attempt) {
  attempt->past_direct = true;
  if (!attempt->why) note_direct(attempt->peer, false);
  if (!attempt->peer || !attempt->to.expected) return call(attempt);
  const PairPtr lent = attempt->keeps ? lent_by(attempt->peer) : nullptr;
  if (lent && is_expected(*lent, attempt->to.expected))
    return finish(attempt, Reached{lent, PeerWay::kReverse, true});
  const Duration left = attempt->begun + options_.lent_limit - steady_now();
  if (attempt->keeps && left > Duration()) return wait(attempt, left, &Ways::call);
  call(attempt);
}

void Ways::call(const AttemptPtr& attempt) {
  const auto relay = attempt->to.expected ? next_relay(*attempt) : std::nullopt;
  if (!relay) return in_vain(attempt);
  wire::stream::DialOptions to = attempt->to;
  to.address = to_string(attempt->peer) + " over " + relay->name;
  to.expected->replica = attempt->peer;
  to.local = false;
  if (may_ask_back(attempt->peer)) to.lanes = 1;
  to.make = [self = shared_from_this(), number = relay->number, whom = attempt->peer](
                net::io_context& io, std::function<void(Result<int>)> made) {
    wire::relay::call_over(
        io, number, [self] { return self->credentials(); }, whom, self->options_.call_limit,
        std::move(made));
  };
  node_.dial(to, [self = shared_from_this(), attempt, relay = *relay](Result<PairPtr> pair) {
    self->called(attempt, relay, std::move(pair));
  });
}

void Ways::called(const AttemptPtr& attempt, const Relay& relay, Result<PairPtr> pair) {
  if (attempt->is_over || is_over_) {
    if (pair.ok()) (*pair)->close();
    return;
  }
  if (!pair.ok()) {
    if (pair.error().code != Code::kNotFound) note_relay(relay.name);
    attempt->last = pair.error();
    return call(attempt);
  }
  if (!may_ask_back(attempt->peer)) {
    return finish(attempt, Reached{*pair, PeerWay::kRelayed, false});
  }
  attempt->over_relay = *pair;
  attempt->asked.erase(relay.name);
  ask_back(attempt);
}

// What still dials ends within the node's limits, and says what is wrong.
void Ways::in_vain(const AttemptPtr& attempt) {
  attempt->is_out_of_ways = true;
  if (attempt->dials && !attempt->why) return;
  Error why{Code::kUnavailable, "cannot reach " + to_string(attempt->peer), "address", ""};
  if (attempt->why) why = *attempt->why;
  if (attempt->last) why.message += "; " + attempt->last->message;
  if (attempt->peer) note_direct(attempt->peer, true);  // the next one dials again
  finish(attempt, std::move(why));
}

// A peer that cannot be dialed may still dial. Then little goes over the relay.
void Ways::ask_back(const AttemptPtr& attempt) {
  wait(attempt, options_.back_limit, &Ways::not_back);
  say(*attempt->over_relay, kBack + std::to_string(attempt->to.lanes) + " " + node_.address(),
      [self = shared_from_this(), attempt](const std::optional<Error>& error) {
        // What it gives and the end of this stream take different connections.
        const Duration left = error ? Duration() : self->options_.lent_limit;
        if (attempt->over_relay) self->wait(attempt, left, &Ways::not_back);
      });
}

void Ways::not_back(const AttemptPtr& attempt) {
  const PairPtr pair = std::exchange(attempt->over_relay, nullptr);
  if (!pair) return;
  {
    const MutexLock lock(mutex_);
    peer_of(attempt->peer).back_again = after(options_.again);
  }
  if (attempt->to.lanes == 1 && !pair->is_over()) {
    return finish(attempt, Reached{pair, PeerWay::kRelayed, false});
  }
  pair->close();
  call(attempt);
}

void Ways::wait(const AttemptPtr& attempt, Duration limit, Step then) {
  const std::uint64_t number = ++attempt->waits;
  attempt->timer.expires_after(std::chrono::nanoseconds(limit.ns));
  attempt->timer.async_wait(
      [self = shared_from_this(), attempt, number, then](const wire::stream::ErrorCode& error) {
        if (error || attempt->is_over || attempt->waits != number) return;
        (self.get()->*then)(attempt);
      });
}

void Ways::finish(const AttemptPtr& attempt, Result<Reached> result) {
  if (std::exchange(attempt->is_over, true)) return;
  attempts_.remove(attempt);
  attempt->timer.cancel();
  if (const PairPtr unused = std::exchange(attempt->over_relay, nullptr)) unused->close();
  std::exchange(attempt->done, nullptr)(std::move(result));
}

// ---- what peers say

void Ways::lent(ReplicaId by, const PairPtr& pair) {
  {
    const MutexLock lock(mutex_);
    peer_of(by).lent = pair;
  }
  for (const AttemptPtr& attempt : std::list(attempts_)) {
    if (attempt->peer != by || !attempt->keeps || !attempt->past_direct) continue;
    if (!is_expected(*pair, attempt->to.expected)) continue;
    finish(attempt, Reached{pair, PeerWay::kReverse, true});
  }
}

void Ways::given(ReplicaId by, const PairPtr& pair) {
  for (const AttemptPtr& attempt : attempts_) {
    if (attempt->peer != by || !attempt->over_relay) continue;
    if (!is_expected(*pair, attempt->to.expected)) continue;
    return finish(attempt, Reached{pair, PeerWay::kReverse, false});
  }
  pair->close();  // too late
}

// A peer on this host needs no certificate of ours, so it may dial before ours is here.
Status Ways::answer_name(std::string_view words) {
  const MutexLock lock(mutex_);
  const auto is_named = [&]() SHOAL_REQUIRES(mutex_) {
    return identity_ && words == std::to_string(identity_->own.replica.n);
  };
  identified_.wait_for(mutex_, std::chrono::nanoseconds(options_.name_limit.ns),
                       [&]() SHOAL_REQUIRES(mutex_) { return closing_ || is_named(); });
  if (is_named()) return {};
  return Error{Code::kNotFound, "this is another replica", "purpose", ""};
}

Status Ways::serve(const PairPtr& pair, std::string_view purpose) {
  if (purpose.starts_with(kAre)) return answer_name(purpose.substr(sizeof kAre - 1));
  const auto by = replica_at(*pair);
  if (!by) return Error{Code::kPermissionDenied, "a way is for replicas with certificates", "", ""};
  if (purpose.starts_with(kBack)) return dial_back(*by, purpose.substr(sizeof kBack - 1));
  if (purpose != kLend && purpose != kGiven) {
    return Error{Code::kInvalidArgument, "unknown word of a way", "purpose",
                 "run the same version on all hosts"};
  }
  const auto take = purpose == kLend ? &Ways::lent : &Ways::given;
  net::post(node_.io(), [self = shared_from_this(), by = *by, pair, take] {
    if (!self->is_over_ && !pair->has_dialed()) (self.get()->*take)(by, pair);
  });
  return {};
}

Status Ways::dial_back(ReplicaId whom, std::string_view words) {
  const std::size_t gap = words.find(' ');
  const std::string address(gap == std::string_view::npos ? "" : words.substr(gap + 1));
  const auto lanes = read_port(words.substr(0, gap));
  if (!lanes || *lanes < 1 || *lanes > wire::stream::kLanesMax || !read_host_port(address)) {
    return Error{Code::kInvalidArgument, "must be: back LANES HOST:PORT", "purpose", ""};
  }
  wire::stream::DialOptions to{.address = address};
  to.lanes = *lanes;
  {
    const MutexLock lock(mutex_);
    if (!identity_) return Error{Code::kUnavailable, "there is no certificate yet", "", ""};
    to.expected = identity::ExpectedPeer{.cluster = identity_->cluster};
    to.expected->job = identity_->own.job;
    to.expected->replica = whom;
    const bool in_vain = steady_now() < peer_of(whom).direct_again;
    if (in_vain)
      return Error{Code::kNotFound, address + " could not be reached a moment ago", "", ""};
  }
  const auto pair = wire::stream::dial_and_wait(node_, to);
  note_direct(whom, pair.ok());
  if (!pair.ok()) return Error{Code::kNotFound, pair.error().message, "", ""};
  say(**pair, kGiven);
  return {};
}

}  // namespace shoal::outer_opt
