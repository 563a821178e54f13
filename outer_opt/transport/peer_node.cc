// The peer node: gRPC servers, channels to peers, and the attempts that run. Streams of an
// attempt that this replica has not been told of wait here; the number of such attempts is bounded,
// the oldest give way, and a waiting stream ends with its caller's deadline.
#include "outer_opt/transport/peer_node.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include "base/check.h"
#include "outer_opt/core/reduce/make_session.h"
#include "outer_opt/core/round/link_estimates.h"
#include "outer_opt/transport/link_probe.h"
#include "outer_opt/transport/momentum_transfer.h"
#include "outer_opt/transport/reduce_call.h"
#include "outer_opt/transport/reduce_streams.h"
#include "outer_opt/transport/state_join.h"
#include "outer_opt/transport/state_wire.h"
#include "proto/peer.grpc.pb.h"
#include "threads/clock.h"
#include "threads/mutex.h"
#include "wire/callback_queue.h"
#include "wire/emulated_line.h"
#include "wire/local_socket.h"
#include "wire/peer_channel.h"
#include "wire/tcp_socket.h"

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

class PeerNodeImpl;

class Service final
    : public v1::PeerService::WithRawCallbackMethod_Reduce<v1::PeerService::Service> {
 public:
  explicit Service(PeerNodeImpl* node) : node_(node) {}
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Reduce(
      grpc::CallbackServerContext* context) override;
  grpc::Status AskState(grpc::ServerContext* context, const v1::StateAsk* request,
                        v1::StateAnswer* answer) override;
  grpc::Status FetchMomentum(grpc::ServerContext*, const v1::FetchMomentumRequest* request,
                             grpc::ServerWriter<v1::MomentumChunk>* writer) override;
  grpc::Status GiveUp(grpc::ServerContext*, const v1::GaveUp* request, v1::Nothing*) override;
  grpc::Status Echo(grpc::ServerContext*, const v1::Nothing*, v1::Nothing*) override {
    return grpc::Status::OK;
  }
  grpc::Status Push(grpc::ServerContext* context, grpc::ServerReader<v1::RawFrame>* frames,
                    v1::PushRate* rate) override;
  grpc::Status Pull(grpc::ServerContext*, const v1::Nothing*,
                    grpc::ServerWriter<v1::RawFrame>* frames) override;

 private:
  PeerNodeImpl* node_;
};

ReduceResult failed(ReduceFailure failure, ReplicaId lost, std::string detail) {
  return {false, {}, {failure, lost, std::move(detail)}};
}

class PeerNodeImpl final : public PeerNode, public StreamKeeper {
 public:
  explicit PeerNodeImpl(PeerNodeOptions options) : options_(std::move(options)), service_(this) {}
  ~PeerNodeImpl() override;

  Status listen();
  Status serve();
  void take(int fd);
  void listen_locally();
  std::string address() const override { return address_; }
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

  // From the service.
  void arrived(AcceptedStream* stream);
  bool forget(AcceptedStream* stream) override;
  void gave_up(const v1::GaveUp& request);
  StateHandler state_handler();
  void let_reduces_pass(const StateAsk& ask, const grpc::ServerContext& context)
      SHOAL_EXCLUDES(mutex_);
  MomentumHandler momentum_handler();
  ProbeGate& gate() { return gate_; }
  DialHolder dialler_to(const std::string& address) const;
  bool cross_memory() const { return options_.local_sockets && !options_.line; }
  void answered(const LinkEstimate& asker) {
    const MutexLock lock(mutex_);
    links_.answered(steady_now(), asker);
  }

 private:
  bool begin(const AttemptKey& key, const std::shared_ptr<ReduceCall>& call,
             std::vector<AcceptedStream*>& waiting) SHOAL_EXCLUDES(mutex_);
  void end(const AttemptKey& key, ReduceCall& call, ReduceResult& result) SHOAL_EXCLUDES(mutex_)
      SHOAL_EXCLUDES(mutex_);
  wire::PeerChannel channel_to(const std::string& address, int lane) SHOAL_EXCLUDES(mutex_)
      SHOAL_EXCLUDES(mutex_);
  void dial(const ReducePlan& plan, int peer, ReplicaId self,
            const std::shared_ptr<ReduceCall>& call) SHOAL_EXCLUDES(mutex_) SHOAL_EXCLUDES(mutex_);
  void keep_channels(const ReducePlan& plan, bool ok) SHOAL_EXCLUDES(mutex_) SHOAL_EXCLUDES(mutex_);
  ReduceResult run(const ReducePlan& plan, ReplicaId self, const std::shared_ptr<ReduceCall>& call,
                   std::stop_token stop) SHOAL_EXCLUDES(mutex_) SHOAL_EXCLUDES(mutex_);

  const PeerNodeOptions options_;
  Service service_;
  std::unique_ptr<grpc::Server> near_, far_;  // for connections that are one or the other
  std::unique_ptr<wire::LocalListener> local_;
  std::unique_ptr<wire::TcpListener> tcp_;
  std::string address_;
  std::stop_source closing_;

  Mutex mutex_;
  CondVar idle_;
  std::map<AttemptKey, std::shared_ptr<ReduceCall>> running_ SHOAL_GUARDED_BY(mutex_);
  std::map<AttemptKey, std::vector<AcceptedStream*>> waiting_ SHOAL_GUARDED_BY(mutex_);
  struct Ended {
    Clock::time_point when;
    StreamEnd end;  // what a late stream is told
  };
  std::map<AttemptKey, Ended> ended_ SHOAL_GUARDED_BY(mutex_);
  using ChannelKey = std::pair<std::string, int>;  // address and lane
  std::map<ChannelKey, wire::PeerChannel> channels_ SHOAL_GUARDED_BY(mutex_);
  StateHandler state_handler_ SHOAL_GUARDED_BY(mutex_);
  MomentumHandler momentum_handler_ SHOAL_GUARDED_BY(mutex_);
  // By attempts since the last one that ended well.
  Bytes sent_ SHOAL_GUARDED_BY(mutex_);
  Bytes received_ SHOAL_GUARDED_BY(mutex_);
  LinkEstimates links_ SHOAL_GUARDED_BY(mutex_);
  ProbeGate gate_;
  LinkProber prober_{
      gate_,
      [this](const std::string& address) {
        return wire::dial_peer(address, options_.keepalive, options_.line.get()).channel;
      },
      [this](const LinkEstimate& found) {
        const MutexLock lock(mutex_);
        links_.probed(steady_now(), found);
      }};
};

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Service::Reduce(
    grpc::CallbackServerContext* context) {
  const auto name = name_of(*context);
  auto* stream =
      new AcceptedStream(context, node_, name.value_or(StreamName{}), node_->cross_memory());
  if (name)
    node_->arrived(stream);
  else
    stream->refuse({grpc::StatusCode::INVALID_ARGUMENT, "the call's metadata name no attempt"});
  return stream;
}

grpc::Status Service::AskState(grpc::ServerContext* context, const v1::StateAsk* request,
                               v1::StateAnswer* answer) {
  const auto ask = from_wire(*request);
  if (!ask) return {grpc::StatusCode::INVALID_ARGUMENT, to_string(ask.error())};
  node_->let_reduces_pass(*ask, *context);
  const StateHandler handler = node_->state_handler();
  StateAnswer nothing;
  nothing.refusal = StateRefusal::kNotHere;
  to_wire(handler ? handler(*ask) : nothing, request->compact(), *answer);
  return grpc::Status::OK;
}

grpc::Status Service::FetchMomentum(grpc::ServerContext*, const v1::FetchMomentumRequest* request,
                                    grpc::ServerWriter<v1::MomentumChunk>* writer) {
  return serve_momentum(node_->momentum_handler(), *request, writer);
}

grpc::Status Service::GiveUp(grpc::ServerContext*, const v1::GaveUp* request, v1::Nothing*) {
  node_->gave_up(*request);
  return grpc::Status::OK;
}

grpc::Status Service::Push(grpc::ServerContext* context, grpc::ServerReader<v1::RawFrame>* frames,
                           v1::PushRate* rate) {
  return take_push(node_->gate(), *context, frames, rate,
                   [this](const LinkEstimate& asker) { node_->answered(asker); });
}

grpc::Status Service::Pull(grpc::ServerContext*, const v1::Nothing*,
                           grpc::ServerWriter<v1::RawFrame>* frames) {
  return give_pull(node_->gate(), frames);
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
  wire::hold_callback_queue();
  if (Status status = serve(); !status.ok()) return status;
  auto tcp = wire::TcpListener::start(options_.bind, [this](int fd) { take(fd); });
  if (!tcp.ok()) return tcp.error();
  tcp_ = std::move(*tcp);
  address_ = host + ":" + std::to_string(tcp_->port());
  if (options_.local_sockets) listen_locally();
  return {};
}

// Without a port: connections are accepted here and handed over.
Status PeerNodeImpl::serve() {
  for (const bool far : {false, true}) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    for (grpc::Service* service : options_.services) builder.RegisterService(service);
    wire::configure_peer_server(builder, options_.keepalive, far);
    auto& server = far ? far_ : near_;
    server = builder.BuildAndStart();
    if (server == nullptr) return Error{Code::kUnavailable, "gRPC refuses to serve", "bind", ""};
  }
  return {};
}

void PeerNodeImpl::take(int fd) {
  Duration round_trip = wire::round_trip_of(fd);
  if (options_.line) {
    round_trip = std::max(round_trip, options_.line->round_trip());
    fd = options_.line->pass(fd);
  }
  grpc::AddInsecureChannelFromFd((wire::is_far(round_trip) ? far_ : near_).get(), fd);
}

// Without a local socket, peers of this host take TCP like all others.
void PeerNodeImpl::listen_locally() {
  auto local =
      wire::LocalListener::start(address_, options_.keepalive, [this](int fd) { take(fd); });
  if (local.ok()) local_ = std::move(*local);
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
  local_.reset();
  tcp_.reset();
  // A deadline in the past cancels what is left; OnCancel ends the waiting streams.
  for (auto* server : {&near_, &far_}) {
    if (*server != nullptr) (*server)->Shutdown(std::chrono::system_clock::now());
  }
}

// ---- streams that peers open

void PeerNodeImpl::arrived(AcceptedStream* stream) {
  std::shared_ptr<ReduceCall> call;
  std::vector<AcceptedStream*> refused;
  std::optional<StreamEnd> late;
  {
    const MutexLock lock(mutex_);
    const AttemptKey& key = stream->name().key;
    std::erase_if(ended_, [](const auto& e) { return Clock::now() - e.second.when > kRemember; });
    if (const auto it = running_.find(key); it != running_.end()) {
      call = it->second;
    } else if (const auto over = ended_.find(key); over != ended_.end()) {
      late = over->second.end;
    } else if (auto& streams = waiting_[key];
               closing_.stop_requested() || streams.size() >= kStreamsPerAttemptMax) {
      refused.push_back(stream);
      if (streams.empty()) waiting_.erase(key);
    } else {
      streams.push_back(stream);
    }
    if (waiting_.size() > static_cast<std::size_t>(options_.sessions_max)) {
      refused.insert(refused.end(), waiting_.begin()->second.begin(),
                     waiting_.begin()->second.end());
      waiting_.erase(waiting_.begin());
    }
  }
  if (call) stream->join(call);
  if (late) stream->finish(*late);
  for (AcceptedStream* r : refused) {
    r->refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many attempts wait here"});
  }
}

bool PeerNodeImpl::forget(AcceptedStream* stream) {
  const MutexLock lock(mutex_);
  const auto it = waiting_.find(stream->name().key);
  if (it == waiting_.end()) return false;
  const bool found = std::erase(it->second, stream) > 0;
  if (it->second.empty()) waiting_.erase(it);
  return found;
}

// Before or after the attempt there is nothing to give up: the end of the stream says enough.
void PeerNodeImpl::gave_up(const v1::GaveUp& request) {
  const AttemptKey key{{JobId(request.key().job()), request.key().epoch(), request.key().round()},
                       request.attempt()};
  std::shared_ptr<ReduceCall> call;
  {
    const MutexLock lock(mutex_);
    const auto it = running_.find(key);
    if (it != running_.end()) call = it->second;
  }
  if (call) call->told(ReplicaId(request.replica()), ReplicaId(request.lost()), request.detail());
}

// ---- reduce

bool PeerNodeImpl::begin(const AttemptKey& key, const std::shared_ptr<ReduceCall>& call,
                         std::vector<AcceptedStream*>& waiting) {
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

void PeerNodeImpl::end(const AttemptKey& key, ReduceCall& call, ReduceResult& result) {
  gate_.end_reduce();
  const ReduceStats spent = call.stats();
  const MutexLock lock(mutex_);
  for (const auto& flow : call.flows()) {
    links_.carried(steady_now(), flow.from, flow.received, flow.spent);
  }
  sent_ += spent.sent;
  received_ += spent.received;
  if (result.ok) {
    result.outcome.stats = {std::exchange(sent_, {}), std::exchange(received_, {}), spent.reduce_s};
  }
  ended_[key] = {Clock::now(), {false, false, result.error.lost, "the attempt is over here"}};
  running_.erase(key);
  idle_.notify_all();
}

wire::PeerChannel PeerNodeImpl::channel_to(const std::string& address, int lane) {
  const MutexLock lock(mutex_);
  auto& known = channels_[{address, lane}];
  if (!known.usable()) known = wire::dial_peer(address, options_.keepalive, options_.line.get());
  return known;
}

// Connections over the network stay for the next round. After a failure they go, with the frames
// that they still hold: a connection without streams is not served often enough to get rid of them
// soon.
void PeerNodeImpl::keep_channels(const ReducePlan& plan, bool ok) {
  std::set<std::string> wanted;
  for (const ReduceMember& member : plan.members) {
    if (ok) wanted.insert(member.address);
  }
  std::map<ChannelKey, wire::PeerChannel> dropped;
  const MutexLock lock(mutex_);
  for (auto& [key, known] : channels_) {
    if (known.local || !wanted.contains(key.first)) dropped.emplace(key, std::move(known));
  }
  for (const auto& [key, known] : dropped) channels_.erase(key);
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
  const auto call = std::make_shared<ReduceCall>(std::move(session), plan.frame_values);
  std::vector<AcceptedStream*> waiting;
  const AttemptKey key{plan.key, plan.attempt};
  if (!begin(key, call, waiting)) {
    return failed(ReduceFailure::kInternal, {},
                  "this attempt is running already, or the node closes");
  }
  prober_.stop();
  for (AcceptedStream* stream : waiting) stream->join(call);
  ReduceResult result = run(plan, self, call, stop);
  keep_channels(plan, result.ok);
  call->wait_returned();
  end(key, *call, result);
  return result;
}

void PeerNodeImpl::dial(const ReducePlan& plan, int peer, ReplicaId self,
                        const std::shared_ptr<ReduceCall>& call) {
  const ReduceMember& member = plan.members[peer];
  int lanes = 1;
  {
    const MutexLock lock(mutex_);
    lanes = links_.connections(member.replica);
  }
  for (int lane = 0; lane < lanes; ++lane) {
    dial_stream(call, peer, {lane, lanes}, self, {plan.key, plan.attempt},
                channel_to(member.address, lane), plan.time_limit);
  }
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
  return {true, {call->digest(), {}, call->seen(), call->streams(), call->read_directly()}, {}};
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

// A reduce wants the line for itself. Averages are what a joiner needs to keep up, and are little.
void PeerNodeImpl::let_reduces_pass(const StateAsk& ask, const grpc::ServerContext& context) {
  if (ask.kind == AskKind::kAverages) return;
  MutexLock lock(mutex_);
  const auto until = Clock::now() + kReducesFirst;
  while (!running_.empty() && Clock::now() < until && !context.IsCancelled()) {
    idle_.wait_for(mutex_, kLookAgain, [&]() SHOAL_REQUIRES(mutex_) { return running_.empty(); });
  }
}

// A connection of its own each time: what is wrong with the last one is not known.
DialHolder PeerNodeImpl::dialler_to(const std::string& address) const {
  return [this, address] {
    return wire::dial_peer(address, options_.keepalive, options_.line.get()).channel;
  };
}

Status PeerNodeImpl::join(JoinSession& session, JoinNews& news,
                          const std::function<void(const JoinSession&)>& moved,
                          std::stop_token stop) {
  JoinDrive drive;
  drive.dial = [this](const std::string& address) { return dialler_to(address)(); };
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
  return fetch_momentum_from(dialler_to(holder.address), holder, key, options_.momentum_patience,
                             out, stop);
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
