// The peer node: streams and pairs with peers, and the attempts that run. Streams of an attempt
// that this replica has not been told of wait here; the number of such attempts is bounded, the
// oldest give way, and a waiting stream ends with its caller's deadline.
#include "outer_opt/transport/peer_node.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "outer_opt/core/reduce/make_session.h"
#include "outer_opt/core/round/link_estimates.h"
#include "outer_opt/transport/link_probe.h"
#include "outer_opt/transport/momentum_transfer.h"
#include "outer_opt/transport/peer_identity.h"
#include "outer_opt/transport/reduce_call.h"
#include "outer_opt/transport/state_join.h"
#include "outer_opt/transport/stream_servers.h"
#include "outer_opt/transport/workers.h"
#include "threads/mutex.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kStreamsPerAttemptMax = 1024;
// A stream for an attempt that ended here this recently is a late one; later, the attempt is
// unknown.
constexpr auto kRemember = std::chrono::seconds(10);
// How long a joiner's ask gives way to a reduce. One that never ends leaves it a tenth of a slow
// line.
constexpr auto kReducesFirst = std::chrono::seconds(2);
constexpr auto kLookAgain = std::chrono::milliseconds(100);
// Streams of one peer, and handshakes, and the threads that answer what waits for something.
constexpr std::uint32_t kStreamsMax = 256;
constexpr int kHandshakesMax = 256;
constexpr std::size_t kServersMax = 64, kStreamsWaitingMax = 4096;

ReduceResult failed(ReduceFailure failure, ReplicaId lost, std::string detail) {
  return {false, {}, {failure, lost, std::move(detail)}};
}

wire::stream::PeerReplica named(ReplicaId replica, const RoundKey& key) {
  return {key.job, key.epoch, replica};
}

class PeerNodeImpl final : public PeerNode {
 public:
  explicit PeerNodeImpl(PeerNodeOptions options) : options_(std::move(options)) {}
  ~PeerNodeImpl() override;

  Status listen();
  void set_accept(const std::string& word, wire::stream::AcceptStream accept) override
      SHOAL_EXCLUDES(mutex_);
  void dial_replica(const std::string& address, const wire::stream::PeerReplica& peer,
                    wire::stream::Node::Dialled dialled) override;
  bool is_replica(const wire::stream::Pair& pair, const wire::stream::PeerReplica& peer) override;
  std::string address() const override { return address_; }
  void set_identity(std::shared_ptr<const PeerIdentity> identity) override SHOAL_EXCLUDES(mutex_);
  ReduceResult reduce(const ReducePlan& plan, ReplicaId self, const ReduceInput& input,
                      std::span<float> average, std::stop_token stop) override;
  ReduceResult reduce_with(std::unique_ptr<ReduceSession> session, std::stop_token stop) override;
  void set_state_handler(StateHandler handler) override;
  void set_momentum_handler(MomentumHandler handler) override;
  Status fetch_momentum(const MomentumHolder& holder, const RoundKey& key, std::span<float> out,
                        std::stop_token stop) override;
  Status join(JoinSession& session, JoinNews& news,
              const std::function<void(const JoinSession&)>& moved, std::stop_token stop) override;
  void measure(ReplicaId self, std::vector<PeerAddress> peers) override {
    prober_.start(self, std::move(peers));
  }
  std::vector<LinkEstimate> take_links() override;

 private:
  using LinkPtr = std::shared_ptr<Link>;
  using PairPtr = std::shared_ptr<wire::stream::Pair>;

  void arrived(const LinkPtr& link) SHOAL_EXCLUDES(mutex_);
  void forget(const Link& link) SHOAL_EXCLUDES(mutex_);
  StateHandler state_handler();
  MomentumHandler momentum_handler();
  void answered(const LinkEstimate& asker) {
    const MutexLock lock(mutex_);
    links_.answered(steady_now(), asker);
  }
  std::shared_ptr<wire::stream::StreamEvents> accept(std::shared_ptr<wire::stream::Stream> stream,
                                                     std::string_view purpose);
  wire::stream::NodeOptions node_options();
  StateAnswer answer_ask(const StateAsk& ask, const wire::stream::BlockingStream& joiner);
  void let_reduces_pass(const StateAsk& ask, const wire::stream::BlockingStream& joiner)
      SHOAL_EXCLUDES(mutex_);
  std::shared_ptr<const PeerIdentity> identity() SHOAL_EXCLUDES(mutex_);
  // Of one of the same job; a zero replica may be any of it.
  wire::stream::DialOptions to_peer(const PeerAddress& peer, std::optional<std::int64_t> epoch)
      SHOAL_EXCLUDES(mutex_);
  // Whether the other end has shown who it is; whoever is of this host need not.
  bool is_of_job(const wire::stream::Pair& pair) SHOAL_EXCLUDES(mutex_);
  wire::stream::AcceptStream others(std::string_view purpose) SHOAL_EXCLUDES(mutex_);
  // The one way to a peer.
  void reach(wire::stream::DialOptions to, wire::stream::Node::Dialled dialled) {
    node_->dial(std::move(to), std::move(dialled));
  }
  Result<PairPtr> dial_pair(const PeerAddress& peer);
  bool begin(const AttemptKey& key, const std::shared_ptr<ReduceCall>& call,
             std::vector<LinkPtr>& waiting) SHOAL_EXCLUDES(mutex_);
  void end(const ReducePlan& plan, ReduceCall& call, ReduceResult& result) SHOAL_EXCLUDES(mutex_);
  PairPtr known_pair(const std::string& address, int lanes) SHOAL_EXCLUDES(mutex_);
  void keep(const wire::stream::DialOptions& dialled, PairPtr pair) SHOAL_EXCLUDES(mutex_);
  void dial(const ReducePlan& plan, int peer, ReplicaId self,
            const std::shared_ptr<ReduceCall>& call) SHOAL_EXCLUDES(mutex_);
  void retire_pairs(const ReducePlan& plan, const ReduceResult& result) SHOAL_REQUIRES(mutex_);
  ReduceResult run(const ReducePlan& plan, ReplicaId self, const std::shared_ptr<ReduceCall>& call,
                   std::stop_token stop) SHOAL_EXCLUDES(mutex_);

  const PeerNodeOptions options_;
  std::string address_;
  std::stop_source closing_;

  Mutex mutex_;
  CondVar idle_;
  std::map<AttemptKey, std::shared_ptr<ReduceCall>> running_ SHOAL_GUARDED_BY(mutex_);
  std::map<AttemptKey, std::vector<LinkPtr>> waiting_ SHOAL_GUARDED_BY(mutex_);
  struct Ended {
    Clock::time_point when;
    StreamEnd end;  // what a late stream is told
  };
  std::map<AttemptKey, Ended> ended_ SHOAL_GUARDED_BY(mutex_);
  // For the next round; by address, with the connections that were asked for.
  struct Known {
    PairPtr pair;
    int lanes = 1;
  };
  std::map<std::string, Known> pairs_ SHOAL_GUARDED_BY(mutex_);
  std::vector<PairPtr> retired_ SHOAL_GUARDED_BY(mutex_);  // closed when nothing runs any more
  std::shared_ptr<const PeerIdentity> identity_ SHOAL_GUARDED_BY(mutex_);
  StateHandler state_handler_ SHOAL_GUARDED_BY(mutex_);
  MomentumHandler momentum_handler_ SHOAL_GUARDED_BY(mutex_);
  std::map<std::string, wire::stream::AcceptStream, std::less<>> others_ SHOAL_GUARDED_BY(mutex_);
  // By attempts since the last one that ended well.
  Bytes sent_ SHOAL_GUARDED_BY(mutex_);
  Bytes received_ SHOAL_GUARDED_BY(mutex_);
  LinkEstimates links_ SHOAL_GUARDED_BY(mutex_);
  ProbeGate gate_;
  StreamServers servers_{kServersMax, kStreamsWaitingMax};
  Workers workers_{reduce_threads()};
  std::unique_ptr<wire::stream::Node> node_;  // ends before all that its streams refer to
  LinkProber prober_{gate_, [this](const PeerAddress& peer) { return dial_pair(peer); },
                     [this](const LinkEstimate& found) {
                       const MutexLock lock(mutex_);
                       links_.probed(steady_now(), found);
                     }};
};

// ---- who is who

void PeerNodeImpl::set_identity(std::shared_ptr<const PeerIdentity> identity) {
  bool anew = false;
  {
    const MutexLock lock(mutex_);
    anew = identity_ && identity_->own.replica != identity->own.replica;
    identity_ = identity;
  }
  node_->set_tls(identity->contexts, anew);
}

std::shared_ptr<const PeerIdentity> PeerNodeImpl::identity() {
  const MutexLock lock(mutex_);
  return identity_;
}

wire::stream::DialOptions PeerNodeImpl::to_peer(const PeerAddress& peer,
                                                std::optional<std::int64_t> epoch) {
  wire::stream::DialOptions to{.address = peer.address};
  const auto own = identity();
  if (!own) return to;
  to.expected = identity::ExpectedPeer{.cluster = own->cluster};
  to.expected->job = own->own.job;
  if (peer.replica) to.expected->replica = peer.replica;
  to.expected->epoch = epoch;
  return to;
}

bool PeerNodeImpl::is_of_job(const wire::stream::Pair& pair) {
  if (!options_.certificates || pair.is_local()) return true;
  const auto own = identity();
  const auto* peer = pair.peer() ? std::get_if<identity::ReplicaName>(&pair.peer()->who) : nullptr;
  return own && peer != nullptr && peer->job == own->own.job;
}

bool PeerNodeImpl::is_replica(const wire::stream::Pair& pair,
                              const wire::stream::PeerReplica& expected) {
  if (!options_.certificates || pair.is_local()) return true;
  const auto* peer = pair.peer() ? std::get_if<identity::ReplicaName>(&pair.peer()->who) : nullptr;
  return peer != nullptr &&
         wire::stream::PeerReplica{peer->job, peer->epoch, peer->replica} == expected;
}

// ---- streams that peers open

std::shared_ptr<wire::stream::StreamEvents> PeerNodeImpl::accept(
    std::shared_ptr<wire::stream::Stream> stream, std::string_view purpose) {
  using wire::stream::BlockingStream;
  if (!is_of_job(*stream->pair())) return nullptr;
  const auto serve = [&](StreamServers::Serve answer) {
    return servers_.take(std::move(stream), std::move(answer));
  };
  if (purpose == kProbePurpose) {
    return serve([this](BlockingStream& asker) {
      return serve_probe(gate_, asker, [this](const LinkEstimate& found) { answered(found); });
    });
  }
  if (purpose == kStatePurpose) {
    return serve([this](BlockingStream& joiner) {
      return serve_state(joiner, [&](const StateAsk& ask) { return answer_ask(ask, joiner); });
    });
  }
  if (purpose == kMomentumPurpose) {
    return serve(
        [this](BlockingStream& asker) { return serve_momentum(momentum_handler(), asker); });
  }
  if (const auto other = others(purpose)) return other(std::move(stream), purpose);
  const auto name = parse_purpose(purpose);
  if (!name || !is_replica(*stream->pair(), named(name->from, name->key.key))) return nullptr;
  const auto link =
      std::make_shared<Link>(std::move(stream), *name, [this](const Link& each) { forget(each); });
  workers_.post([this, link] { arrived(link); });
  return link;
}

void PeerNodeImpl::set_accept(const std::string& word, wire::stream::AcceptStream accept) {
  const MutexLock lock(mutex_);
  if (accept) {
    others_[word] = std::move(accept);
  } else {
    others_.erase(word);
  }
}

wire::stream::AcceptStream PeerNodeImpl::others(std::string_view purpose) {
  const MutexLock lock(mutex_);
  const auto found = others_.find(purpose.substr(0, purpose.find(' ')));
  return found == others_.end() ? nullptr : found->second;
}

wire::stream::NodeOptions PeerNodeImpl::node_options() {
  wire::stream::NodeOptions node{.bind = options_.bind, .advertise_host = options_.advertise_host};
  node.local_sockets = options_.local_sockets;
  node.line = options_.line;
  node.beat = options_.keepalive / 2;
  node.quotas.streams_max = kStreamsMax;
  node.needs_tls = options_.certificates;
  node.handshakes_max = node.handshakes_per_host_max = kHandshakesMax;
  // Without certificates the peers of one host are told apart by nothing.
  if (!options_.certificates) node.pairs_per_peer_max = node.pairs_max;
  return node;
}

// ---- life

Status PeerNodeImpl::listen() {
  const std::size_t colon = options_.bind.rfind(':');
  if (colon == std::string::npos) {
    return Error{Code::kValidation, "must be host:port, got '" + options_.bind + "'", "bind",
                 "for example 0.0.0.0:7100"};
  }
  const std::string host =
      options_.advertise_host.empty() ? options_.bind.substr(0, colon) : options_.advertise_host;
  if (host == "0.0.0.0" || host == "[::]") {
    return Error{Code::kValidation, "peers cannot dial " + host, "advertise_host",
                 "give the name or address of this host"};
  }
  auto node = wire::stream::Node::start(
      node_options(),
      [this](std::shared_ptr<wire::stream::Stream> stream, std::string_view purpose) {
        return accept(std::move(stream), purpose);
      });
  if (!node.ok()) return node.error();
  node_ = std::move(*node);
  address_ = node_->address();
  return {};
}

PeerNodeImpl::~PeerNodeImpl() {
  closing_.request_stop();
  gate_.begin_reduce();  // nobody measures any more
  prober_.stop();
  {
    const MutexLock lock(mutex_);
    idle_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) {
      return running_.empty();
    });  // each ends within watch()'s bounds
  }
  servers_.stop();
  workers_.stop();
  node_.reset();
}

// ---- streams of attempts

void PeerNodeImpl::arrived(const LinkPtr& link) {
  std::shared_ptr<ReduceCall> call;
  std::vector<LinkPtr> refused;
  std::optional<StreamEnd> late;
  {
    const MutexLock lock(mutex_);
    const AttemptKey& key = link->name().key;
    std::erase_if(ended_, [](const auto& e) { return Clock::now() - e.second.when > kRemember; });
    if (const auto it = running_.find(key); it != running_.end()) {
      call = it->second;
    } else if (const auto over = ended_.find(key); over != ended_.end()) {
      late = over->second.end;
    } else if (auto& links = waiting_[key];
               closing_.stop_requested() || links.size() >= kStreamsPerAttemptMax) {
      refused.push_back(link);
      if (links.empty()) waiting_.erase(key);
    } else if (!link->is_closed()) {  // after this, forget() finds it
      links.push_back(link);
    }
    if (waiting_.size() > static_cast<std::size_t>(options_.sessions_max)) {
      refused.insert(refused.end(), waiting_.begin()->second.begin(),
                     waiting_.begin()->second.end());
      waiting_.erase(waiting_.begin());
    }
  }
  if (call) call->join(link);
  if (late) link->refuse(*late);
  for (const LinkPtr& each : refused) each->refuse({false, {}, "too many attempts wait here"});
}

// It is over before its attempt was known here.
void PeerNodeImpl::forget(const Link& link) {
  const MutexLock lock(mutex_);
  const auto it = waiting_.find(link.name().key);
  if (it == waiting_.end()) return;
  std::erase_if(it->second, [&](const LinkPtr& each) { return each.get() == &link; });
  if (it->second.empty()) waiting_.erase(it);
}

// ---- reduce

bool PeerNodeImpl::begin(const AttemptKey& key, const std::shared_ptr<ReduceCall>& call,
                         std::vector<LinkPtr>& waiting) {
  const MutexLock lock(mutex_);
  if (closing_.stop_requested() || !running_.emplace(key, call).second) return false;
  ended_.erase(key);
  gate_.begin_reduce();
  if (const auto it = waiting_.find(key); it != waiting_.end()) {
    waiting = std::move(it->second);
    waiting_.erase(it);
  }
  return true;
}

void PeerNodeImpl::end(const ReducePlan& plan, ReduceCall& call, ReduceResult& result) {
  gate_.end_reduce();
  const ReduceStats spent = call.stats();
  const AttemptKey key{plan.key, plan.attempt};
  const MutexLock lock(mutex_);
  for (const auto& flow : call.flows()) {
    links_.carried(steady_now(), flow.from, flow.received, flow.spent);
  }
  sent_ += spent.sent;
  received_ += spent.received;
  if (result.ok) {
    result.outcome.stats = {std::exchange(sent_, {}), std::exchange(received_, {}), spent.reduce_s};
  }
  ended_[key] = {Clock::now(), {false, result.error.lost, "the attempt is over here"}};
  running_.erase(key);
  retire_pairs(plan, result);
  idle_.notify_all();
}

// A pair has as many connections as it was dialled with.
PeerNodeImpl::PairPtr PeerNodeImpl::known_pair(const std::string& address, int lanes) {
  const MutexLock lock(mutex_);
  const auto known = pairs_.find(address);
  if (known == pairs_.end() || known->second.pair->is_over()) return nullptr;
  return known->second.lanes >= lanes ? known->second.pair : nullptr;
}

void PeerNodeImpl::keep(const wire::stream::DialOptions& dialled, PairPtr pair) {
  const MutexLock lock(mutex_);
  Known& known = pairs_[dialled.address];
  if (known.pair) retired_.push_back(std::move(known.pair));
  known = {std::move(pair), dialled.lanes};
}

// Pairs stay for the next round with the same members; not the one with a member that was lost.
// Another attempt may use what goes, so it is closed when none runs.
void PeerNodeImpl::retire_pairs(const ReducePlan& plan, const ReduceResult& result) {
  std::set<std::string> unwanted;
  for (const auto& [address, known] : pairs_) {
    if (result.ok || known.pair->is_over()) unwanted.insert(address);
  }
  for (const ReduceMember& member : plan.members) {
    if (result.ok) unwanted.erase(member.address);
    if (!result.ok && member.replica == result.error.lost) unwanted.insert(member.address);
  }
  for (const std::string& address : unwanted) {
    const auto known = pairs_.find(address);
    if (known == pairs_.end()) continue;
    retired_.push_back(std::move(known->second.pair));
    pairs_.erase(known);
  }
  if (!running_.empty()) return;
  for (const PairPtr& pair : std::exchange(retired_, {})) pair->close();
}

ReduceResult PeerNodeImpl::reduce(const ReducePlan& plan, ReplicaId self, const ReduceInput& input,
                                  std::span<float> average, std::stop_token stop) {
  auto made = make_session(plan, self, plan.frame_values, input, average);
  if (!made.ok()) return failed(ReduceFailure::kPlanMismatch, {}, to_string(made.error()));
  return reduce_with(std::move(made).value(), stop);
}

ReduceResult PeerNodeImpl::reduce_with(std::unique_ptr<ReduceSession> session,
                                       std::stop_token stop) {
  const ReducePlan plan = session->plan();
  const ReplicaId self = plan.members[session->self()].replica;
  for (int peer = 0; peer < session->members(); ++peer) {
    const ReduceMember& member = plan.members[peer];
    if (session->dials(session->self(), peer) && member.address.empty()) {
      return failed(ReduceFailure::kPlanMismatch, member.replica,
                    to_string(member.replica) + " is to be dialled but has no address");
    }
  }
  const auto call = std::make_shared<ReduceCall>(std::move(session), plan.frame_values, workers_);
  std::vector<LinkPtr> waiting;
  const AttemptKey key{plan.key, plan.attempt};
  if (!begin(key, call, waiting)) {
    return failed(ReduceFailure::kInternal, {},
                  "this attempt is running already, or the node closes");
  }
  prober_.stop();
  for (const LinkPtr& link : waiting) call->join(link);
  ReduceResult result = run(plan, self, call, stop);
  call->lend_no_more();
  end(plan, *call, result);
  return result;
}

void PeerNodeImpl::dial(const ReducePlan& plan, int peer, ReplicaId self,
                        const std::shared_ptr<ReduceCall>& call) {
  const auto link = std::make_shared<Link>(call, peer);
  if (!call->attach(link)) return;
  const ReduceMember& member = plan.members[peer];
  wire::stream::DialOptions to = to_peer({member.replica, member.address}, plan.key.epoch);
  {
    const MutexLock lock(mutex_);
    to.lanes = links_.connections(member.replica);
  }
  auto open =
      [link, call, limit = plan.time_limit + kStreamGrace,
       name = StreamName{self, {plan.key, plan.attempt}, ""}](wire::stream::Pair& pair) mutable {
        if (pair.process() > 0) name.memory = call->memory_token();
        link->open(pair, name, limit);
      };
  const PairPtr known = known_pair(to.address, to.lanes);
  const wire::stream::PeerReplica expected = named(member.replica, plan.key);
  if (known && is_replica(*known, expected)) return open(*known);
  reach(to, [this, link, to, open, expected](Result<PairPtr> pair) mutable {
    if (!pair.ok()) return link->not_dialled(pair.error());
    if (!is_replica(**pair, expected)) {
      (*pair)->close();
      return link->not_dialled(
          {Code::kPermissionDenied, "somebody else answers for " + to_string(expected.replica)});
    }
    keep(to, *pair);
    open(**pair);
  });
}

ReduceResult PeerNodeImpl::run(const ReducePlan& plan, ReplicaId self,
                               const std::shared_ptr<ReduceCall>& call, std::stop_token stop) {
  const ReduceSession& session = call->session();
  for (int peer = 0; peer < session.members(); ++peer) {
    if (session.dials(session.self(), peer)) dial(plan, peer, self, call);
  }
  std::stop_source either;
  const auto request = [&either] { either.request_stop(); };
  const std::stop_callback by_caller(stop, request), by_node(closing_.get_token(), request);
  call->watch(plan.time_limit, either.get_token());

  if (const auto failure = call->failure()) {
    const ReplicaId lost = failure->peer >= 0 ? plan.members[failure->peer].replica : ReplicaId();
    return failed(failure->failure, lost, failure->detail);
  }
  if (call->cancelled()) return failed(ReduceFailure::kInternal, {}, "cancelled");
  return {true, {call->digest(), {}, call->seen(), call->connections(), call->read_directly()}, {}};
}

// ---- state

void PeerNodeImpl::set_state_handler(StateHandler handler) {
  const MutexLock lock(mutex_);
  state_handler_ = std::move(handler);
}

StateHandler PeerNodeImpl::state_handler() {
  const MutexLock lock(mutex_);
  return state_handler_;
}

StateAnswer PeerNodeImpl::answer_ask(const StateAsk& ask,
                                     const wire::stream::BlockingStream& joiner) {
  let_reduces_pass(ask, joiner);
  if (const StateHandler handler = state_handler()) return handler(ask);
  StateAnswer nothing;
  nothing.refusal = StateRefusal::kNotHere;
  return nothing;
}

// A reduce wants the line for itself. Averages are what a joiner needs to keep up, and are little.
void PeerNodeImpl::let_reduces_pass(const StateAsk& ask,
                                    const wire::stream::BlockingStream& joiner) {
  if (ask.kind == AskKind::kAverages) return;
  MutexLock lock(mutex_);
  const auto until = Clock::now() + kReducesFirst;
  while (!running_.empty() && Clock::now() < until && !joiner.is_over()) {
    idle_.wait_for(mutex_, kLookAgain, [&]() SHOAL_REQUIRES(mutex_) { return running_.empty(); });
  }
}

// A connection of its own each time: what is wrong with the last one is not known.
Result<PeerNodeImpl::PairPtr> PeerNodeImpl::dial_pair(const PeerAddress& peer) {
  return wire::stream::wait_for_pair([&](wire::stream::Node::Dialled dialled) {
    reach(to_peer(peer, std::nullopt), std::move(dialled));
  });
}

void PeerNodeImpl::dial_replica(const std::string& address, const wire::stream::PeerReplica& peer,
                                wire::stream::Node::Dialled dialled) {
  wire::stream::DialOptions to = to_peer({peer.replica, address}, peer.epoch);
  if (to.expected) to.expected->job = peer.job;
  reach(std::move(to), std::move(dialled));
}

Status PeerNodeImpl::join(JoinSession& session, JoinNews& news,
                          const std::function<void(const JoinSession&)>& moved,
                          std::stop_token stop) {
  JoinDrive drive;
  drive.dial = [this](const std::string& address, wire::stream::Node::Dialled dialled) {
    reach(to_peer({{}, address}, std::nullopt), std::move(dialled));
  };
  drive.moved = moved;
  drive.complain = [](const std::string& complaint) { std::cerr << complaint << std::endl; };
  return run_join(session, news, drive, stop);
}

void PeerNodeImpl::set_momentum_handler(MomentumHandler handler) {
  const MutexLock lock(mutex_);
  momentum_handler_ = std::move(handler);
}

MomentumHandler PeerNodeImpl::momentum_handler() {
  const MutexLock lock(mutex_);
  return momentum_handler_;
}

Status PeerNodeImpl::fetch_momentum(const MomentumHolder& holder, const RoundKey& key,
                                    std::span<float> out, std::stop_token stop) {
  return fetch_momentum_from(
      [&] {
        return dial_pair({holder.replica, holder.address});
      },
      holder, key, options_.momentum_patience, out, stop);
}

// ---- lines

std::vector<LinkEstimate> PeerNodeImpl::take_links() {
  const MutexLock lock(mutex_);
  return links_.take_changed();
}

}  // namespace

Result<std::unique_ptr<PeerNode>> PeerNode::start(PeerNodeOptions options) {
  auto node = std::make_unique<PeerNodeImpl>(std::move(options));
  if (Status status = node->listen(); !status.ok()) return status.error();
  return std::unique_ptr<PeerNode>(std::move(node));
}

}  // namespace shoal::outer_opt
