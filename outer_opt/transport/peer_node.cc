// The peer node: streams and pairs with peers, and the attempts that run. Streams of an attempt
// that this replica has not been told of wait here, a bounded number of each peer
// (early_streams.h), and end with their caller's deadline.
#include "outer_opt/transport/peer_node.h"

#include <cstddef>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "outer_opt/core/reduce/make_session.h"
#include "outer_opt/core/round/link_estimates.h"
#include "outer_opt/transport/early_streams.h"
#include "outer_opt/transport/kept_pairs.h"
#include "outer_opt/transport/link_probe.h"
#include "outer_opt/transport/momentum_transfer.h"
#include "outer_opt/transport/peer_guard.h"
#include "outer_opt/transport/peer_identity.h"
#include "outer_opt/transport/reduce_call.h"
#include "outer_opt/transport/spare_buffers.h"
#include "outer_opt/transport/state_join.h"
#include "outer_opt/transport/stream_servers.h"
#include "outer_opt/transport/workers.h"
#include "threads/mutex.h"
#include "threads/refusal_counter.h"

namespace shoal::outer_opt {
namespace {

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
  explicit PeerNodeImpl(PeerNodeOptions options)
      : options_(std::move(options)), guard_(options_.certificates), early_(options_.early) {}
  ~PeerNodeImpl() override;

  Status listen();
  void set_accept(const std::string& word, wire::stream::AcceptStream accept) override
      SHOAL_EXCLUDES(mutex_);
  void dial_replica(const std::string& address, const wire::stream::PeerReplica& peer,
                    wire::stream::Node::Dialed dialed) override;
  bool is_replica(const wire::stream::Pair& pair, const wire::stream::PeerReplica& peer) override;
  std::string address() const override { return address_; }
  void set_identity(std::shared_ptr<const PeerIdentity> identity) override;
  void revoke(const std::vector<AgentId>& agents) override;
  RefusalCounts refusals() const override { return node_->refusals() += streams_.counts(); }
  void set_relays(std::vector<std::string> relays) override {
    ways_->set_relays(std::move(relays));
  }
  std::size_t waits_at() const override { return ways_->waits_at(); }
  ReduceResult reduce(const ReducePlan& plan, ReplicaId self, const ReduceInput& input,
                      AverageRoom average, std::stop_token stop) override;
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
  std::nullptr_t refuse(RefusalReason reason);
  wire::stream::NodeOptions node_options();
  StateAnswer answer_ask(const StateAsk& ask, const wire::stream::BlockingStream& joiner);
  void let_reduces_pass(const StateAsk& ask, const wire::stream::BlockingStream& joiner)
      SHOAL_EXCLUDES(mutex_);
  // The peer must be of the same job; a zero replica means any of it.
  wire::stream::DialOptions to_peer(const PeerAddress& peer, std::optional<std::int64_t> epoch)
      SHOAL_EXCLUDES(mutex_);
  wire::stream::AcceptStream others(std::string_view purpose) SHOAL_EXCLUDES(mutex_);
  Result<Reached> reach(const PeerAddress& peer, const std::stop_token& stop);
  void note_way(ReplicaId peer, PeerWay way) {
    const MutexLock lock(mutex_);
    links_.reached(steady_now(), peer, way);
  }
  void reach_source(const PeerAddress& source, Ways::Done dialed);
  bool begin(const AttemptKey& key, const std::shared_ptr<ReduceCall>& call,
             std::vector<LinkPtr>& waiting) SHOAL_EXCLUDES(mutex_);
  void end(const ReducePlan& plan, ReduceCall& call, ReduceResult& result) SHOAL_EXCLUDES(mutex_);
  PairPtr known_pair(const PeerAddress& peer, const wire::stream::DialOptions& to)
      SHOAL_EXCLUDES(mutex_);
  void keep(const PeerAddress& peer, int lanes, const Reached& reached) SHOAL_EXCLUDES(mutex_);
  void dial(const ReducePlan& plan, int peer, ReplicaId self,
            const std::shared_ptr<ReduceCall>& call) SHOAL_EXCLUDES(mutex_);
  ReduceResult run(const ReducePlan& plan, ReplicaId self, const std::shared_ptr<ReduceCall>& call,
                   std::stop_token stop) SHOAL_EXCLUDES(mutex_);

  const PeerNodeOptions options_;
  PeerGuard guard_;
  std::string address_;
  std::stop_source closing_;

  Mutex mutex_;
  CondVar idle_;
  std::map<AttemptKey, std::shared_ptr<ReduceCall>> running_ SHOAL_GUARDED_BY(mutex_);
  EarlyStreams early_ SHOAL_GUARDED_BY(mutex_);
  struct Ended {
    Clock::time_point when;
    StreamEnd end;  // what a late stream is told
  };
  std::map<AttemptKey, Ended> ended_ SHOAL_GUARDED_BY(mutex_);
  KeptPairs pairs_ SHOAL_GUARDED_BY(mutex_);
  StateHandler state_handler_ SHOAL_GUARDED_BY(mutex_);
  MomentumHandler momentum_handler_ SHOAL_GUARDED_BY(mutex_);
  std::map<std::string, wire::stream::AcceptStream, std::less<>> others_ SHOAL_GUARDED_BY(mutex_);
  // By attempts since the last one that ended well.
  Bytes sent_ SHOAL_GUARDED_BY(mutex_);
  Bytes received_ SHOAL_GUARDED_BY(mutex_);
  LinkEstimates links_ SHOAL_GUARDED_BY(mutex_);
  RefusalCounter streams_;  // that peers opened and nobody took
  ProbeGate gate_;
  // Asks of joiners wait for reduces; what reduces wait for does not wait behind them.
  StreamServers servers_{kServersMax, kStreamsWaitingMax};
  StreamServers joiner_servers_{kServersMax, kStreamsWaitingMax};
  SpareBuffers spare_buffers_;
  Workers workers_{reduce_threads()};
  std::unique_ptr<wire::stream::Node> node_;  // ends before all that its streams refer to
  std::shared_ptr<Ways> ways_;
  LinkProber prober_{
      gate_,
      [this](const PeerAddress& peer, const std::stop_token& stop) { return reach(peer, stop); },
      [this](const LinkEstimate& found) {
        const MutexLock lock(mutex_);
        links_.probed(steady_now(), found);
      }};
};

// ---- who is who

void PeerNodeImpl::set_identity(std::shared_ptr<const PeerIdentity> identity) {
  const bool anew = guard_.set(identity);
  node_->set_tls(identity->contexts, anew);
  ways_->set_identity(std::move(identity), anew);
}

void PeerNodeImpl::revoke(const std::vector<AgentId>& agents) {
  if (!guard_.revoke(agents)) return;
  node_->end_pairs([this](const wire::stream::Pair& pair) { return guard_.is_revoked(pair); },
                   {Code::kUnauthenticated, "the agent of this peer was revoked", "", ""});
}

wire::stream::DialOptions PeerNodeImpl::to_peer(const PeerAddress& peer,
                                                std::optional<std::int64_t> epoch) {
  wire::stream::DialOptions to{.address = peer.address};
  const auto own = guard_.identity();
  if (!own) return to;
  to.expected = identity::ExpectedPeer{.cluster = own->cluster};
  to.expected->job = own->own.job;
  if (peer.replica) to.expected->replica = peer.replica;
  to.expected->epoch = epoch;
  return to;
}

// ---- streams that peers open

std::shared_ptr<wire::stream::StreamEvents> PeerNodeImpl::accept(
    std::shared_ptr<wire::stream::Stream> stream, std::string_view purpose) {
  using wire::stream::BlockingStream;
  if (const auto why = guard_.why_not(*stream->pair())) return refuse(*why);
  const auto serve_by = [&](StreamServers& servers, StreamServers::Serve answer) {
    auto taken = servers.take(std::move(stream), std::move(answer));
    if (!taken) streams_.count(RefusalReason::kLimits);
    return taken;
  };
  const auto serve = [&](StreamServers::Serve answer) {
    return serve_by(servers_, std::move(answer));
  };
  if (purpose == kProbePurpose) {
    return serve([this](BlockingStream& asker) {
      return serve_probe(gate_, asker, [this](const LinkEstimate& found) { answered(found); });
    });
  }
  if (purpose.starts_with(kWayPurpose)) {
    return serve([this, pair = stream->pair(), words = std::string(purpose)](BlockingStream&) {
      return ways_->serve(pair, words);
    });
  }
  if (purpose == kStatePurpose) {
    return serve_by(joiner_servers_, [this](BlockingStream& joiner) {
      return serve_state(joiner, [&](const StateAsk& ask) { return answer_ask(ask, joiner); });
    });
  }
  if (purpose == kMomentumPurpose) {
    return serve(
        [this](BlockingStream& asker) { return serve_momentum(momentum_handler(), asker); });
  }
  if (const auto other = others(purpose)) {
    auto taken = other(std::move(stream), purpose);
    if (!taken) streams_.count(RefusalReason::kOtherMember);
    return taken;
  }
  const auto name = parse_purpose(purpose);
  if (!name) return refuse(RefusalReason::kMalformed);
  if (!guard_.is_replica(*stream->pair(), named(name->from, name->key.key))) {
    return refuse(RefusalReason::kOtherMember);
  }
  const auto link =
      std::make_shared<Link>(std::move(stream), *name, [this](const Link& each) { forget(each); });
  workers_.post([this, link] { arrived(link); });
  return link;
}

std::nullptr_t PeerNodeImpl::refuse(RefusalReason reason) {
  streams_.count(reason);
  return nullptr;
}

bool PeerNodeImpl::is_replica(const wire::stream::Pair& pair,
                              const wire::stream::PeerReplica& peer) {
  return guard_.is_replica(pair, peer);
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
  // Without certificates nothing distinguishes the peers of one host.
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
  ways_ = std::make_shared<Ways>(*node_, options_.ways);
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
  joiner_servers_.stop();
  workers_.stop();
  if (ways_) ways_->close();
  node_.reset();
}

// ---- streams of attempts

void PeerNodeImpl::arrived(const LinkPtr& link) {
  std::shared_ptr<ReduceCall> call;
  LinkPtr refused;
  std::optional<StreamEnd> late;
  {
    const MutexLock lock(mutex_);
    const AttemptKey& key = link->name().key;
    std::erase_if(ended_, [](const auto& e) { return Clock::now() - e.second.when > kRemember; });
    if (const auto it = running_.find(key); it != running_.end()) {
      call = it->second;
    } else if (const auto over = ended_.find(key); over != ended_.end()) {
      late = over->second.end;
    } else if (closing_.stop_requested()) {
      refused = link;
    } else if (!link->is_closed()) {  // after this, forget() finds it
      refused = early_.add(link);
    }
  }
  if (call) call->join(link);
  if (late) link->refuse(*late);
  if (!refused) return;
  streams_.count(RefusalReason::kLimits);
  refused->refuse({false, {}, "too many attempts of this member wait here"});
}

// It is over before its attempt was known here.
void PeerNodeImpl::forget(const Link& link) {
  const MutexLock lock(mutex_);
  early_.forget(link);
}

// ---- reduce

bool PeerNodeImpl::begin(const AttemptKey& key, const std::shared_ptr<ReduceCall>& call,
                         std::vector<LinkPtr>& waiting) {
  const MutexLock lock(mutex_);
  if (closing_.stop_requested() || !running_.emplace(key, call).second) return false;
  ended_.erase(key);
  gate_.begin_reduce();
  waiting = early_.take(key);
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
  pairs_.retire(plan, result);
  if (running_.empty()) pairs_.let_go();
  idle_.notify_all();
}

PeerNodeImpl::PairPtr PeerNodeImpl::known_pair(const PeerAddress& peer,
                                               const wire::stream::DialOptions& to) {
  Reached known;
  {
    const MutexLock lock(mutex_);
    known = pairs_.find(peer, to.lanes);
  }
  return known.pair && ways_->is_best(peer, to, known.way) ? known.pair : nullptr;
}

void PeerNodeImpl::keep(const PeerAddress& peer, int lanes, const Reached& reached) {
  const MutexLock lock(mutex_);
  pairs_.keep(peer, lanes, reached);
  links_.reached(steady_now(), peer.replica, reached.way);
}

ReduceResult PeerNodeImpl::reduce(const ReducePlan& plan, ReplicaId self, const ReduceInput& input,
                                  AverageRoom average, std::stop_token stop) {
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
                    to_string(member.replica) + " is to be dialed but has no address");
    }
  }
  const auto call = std::make_shared<ReduceCall>(std::move(session), plan.frame_values, workers_,
                                                 spare_buffers_.take());
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
  spare_buffers_.give_back(call->take_buffers());
  end(plan, *call, result);
  return result;
}

void PeerNodeImpl::dial(const ReducePlan& plan, int peer, ReplicaId self,
                        const std::shared_ptr<ReduceCall>& call) {
  const auto link = std::make_shared<Link>(call, peer);
  if (!call->attach(link)) return;
  const ReduceMember& member = plan.members[peer];
  const PeerAddress address{member.replica, member.address};
  wire::stream::DialOptions to = to_peer(address, plan.key.epoch);
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
  const wire::stream::PeerReplica expected = named(member.replica, plan.key);
  const PairPtr known = known_pair(address, to);
  if (known && is_replica(*known, expected)) return open(*known);
  ways_->reach(
      address, to, true,
      [this, link, address, lanes = to.lanes, open, expected](Result<Reached> reached) mutable {
        if (!reached.ok()) return link->not_dialed(reached.error());
        if (!is_replica(*reached->pair, expected)) {
          reached->let_go();
          return link->not_dialed({Code::kPermissionDenied,
                                   "another process answers for " + to_string(expected.replica)});
        }
        keep(address, lanes, *reached);
        open(*reached->pair);
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
Result<Reached> PeerNodeImpl::reach(const PeerAddress& peer, const std::stop_token& stop) {
  return ways_->reach_and_wait(peer, to_peer(peer, std::nullopt), stop);
}

void PeerNodeImpl::dial_replica(const std::string& address, const wire::stream::PeerReplica& peer,
                                wire::stream::Node::Dialed dialed) {
  const PeerAddress to{peer.replica, address};
  wire::stream::DialOptions options = to_peer(to, peer.epoch);
  if (options.expected) options.expected->job = peer.job;
  ways_->reach(to, std::move(options), false,
               [this, replica = peer.replica, dialed = std::move(dialed)](Result<Reached> reached) {
                 if (!reached.ok()) return dialed(reached.error());
                 note_way(replica, reached->way);
                 dialed(std::move(reached->pair));
               });
}

// A copy of another stage has a number that no replica has: any process of the job at that address
// keeps it.
void PeerNodeImpl::reach_source(const PeerAddress& source, Ways::Done dialed) {
  ways_->reach(source, to_peer(source, std::nullopt), false,
               [this, address = source.address, dialed](Result<Reached> reached) {
                 if (reached.ok() || reached.error().code != Code::kPermissionDenied)
                   return dialed(std::move(reached));
                 workers_.post([this, address, dialed] {
                   ways_->reach({{}, address}, to_peer({{}, address}, std::nullopt), false, dialed);
                 });
               });
}

Status PeerNodeImpl::join(JoinSession& session, JoinNews& news,
                          const std::function<void(const JoinSession&)>& moved,
                          std::stop_token stop) {
  JoinDrive drive;
  drive.dial = [this](const PeerAddress& source, Ways::Done dialed) {
    reach_source(source, std::move(dialed));
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
        return reach({holder.replica, holder.address}, stop);
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
