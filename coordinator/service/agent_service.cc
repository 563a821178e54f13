#include "coordinator/service/agent_service.h"

#include <map>
#include <optional>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "coordinator/service/agent_acceptor.h"
#include "coordinator/service/agent_session.h"
#include "coordinator/service/checkpoint_transfer.h"
#include "coordinator/service/log_query_broker.h"
#include "coordinator/service/message_budget.h"
#include "coordinator/service/visit_queue.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "threads/mutex.h"
#include "wire/callback_queue.h"

namespace shoal::coordinator {
namespace {

constexpr std::chrono::milliseconds kWatchEvery{250};
constexpr std::chrono::seconds kForgetBudgetsEvery{10};
constexpr std::chrono::seconds kStopLimit{1};
constexpr int kMessageBytesMax = 8 << 20;
constexpr std::size_t kSessionsPerAgent = 4;
constexpr int kCallsPerConnection = 64;
// What an upload of a call may have in flight, enough for 640 Mbit/s at 100 ms. gRPC's own
// probing answers every heartbeat with a ping, which costs as much again as the heartbeat.
constexpr int kWindowBytes = 8 << 20;

// Ends a call before it began.
template <typename Reactor>
class Refused final : public Reactor {
 public:
  explicit Refused(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};
using RefusedSession = Refused<grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>>;

class LogServiceImpl final : public v1::LogService::CallbackService {
 public:
  using Admit = std::function<Result<Caller>(const grpc::ServerContextBase&)>;
  LogServiceImpl(Admit admit, LogQueryBroker& broker) : admit_(std::move(admit)), broker_(broker) {}

  LogQueryBroker::Reactor* Answer(grpc::CallbackServerContext* context) override {
    const auto caller = admit_(*context);
    if (!caller) return new Refused<LogQueryBroker::Reactor>(to_status(caller.error()));
    return broker_.open(caller->machine);
  }

 private:
  const Admit admit_;
  LogQueryBroker& broker_;
};

// "host:port" with another port; the host part keeps its brackets.
std::string with_port(const std::string& address, int port) {
  return address.substr(0, address.rfind(':') + 1) + std::to_string(port);
}

}  // namespace

struct AgentService::Impl final
    : v1::AgentService::WithCallbackMethod_Session<v1::AgentService::Service> {
  Impl(AgentServiceOptions o, InputPort& i, CheckpointFiles& files,
       const std::vector<CheckpointRecord>& checkpoints)
      : options(std::move(o)),
        inputs(i),
        transfer(files, options.bucket, i, options.transfer_limit, checkpoints) {}

  // The first call of a connection shows the acceptor whose it is.
  Result<Caller> admit(const grpc::ServerContextBase& context) {
    auto caller = options.door->admit(context);
    if (caller.ok()) acceptor->admitted(context.peer(), caller->machine);
    return caller;
  }

  grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* context) override {
    auto caller = admit(*context);
    if (!caller) return new RefusedSession(to_status(caller.error()));
    std::shared_ptr<AgentSession> session, surplus;
    const auto may_read = [this, machine = caller->machine] { return has_budget(machine); };
    {
      const MutexLock guard(mutex);
      surplus = oldest_of(caller->machine);
      if (stopping || sessions.size() >= options.sessions_max) {
        return new RefusedSession(
            {grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping or has too many agents"});
      }
      const ConnectionId id{++last_connection};
      session = std::make_shared<AgentSession>(
          id, context, inputs, std::move(caller).value(), options.door, may_read,
          [this](ConnectionId held_back) { visit_after(held_back, kWatchEvery); },
          [this](ConnectionId ended) { forget(ended); });
      sessions.emplace(id, session);
      visits.add(id, VisitQueue::Clock::now() + options.hello_limit);
    }
    if (surplus) {
      surplus->close_now({grpc::StatusCode::RESOURCE_EXHAUSTED, "this agent has newer sessions"});
    }
    inputs.count_session();
    session->begin();
    return session.get();
  }

  grpc::Status PutCheckpoint(grpc::ServerContext* context,
                             CheckpointTransfer::UploadStream* stream) override {
    const auto caller = admit(*context);
    if (!caller) return to_status(caller.error());
    return transfer.put(context, caller->machine, stream);
  }

  grpc::Status GetCheckpoint(grpc::ServerContext* context, const v1::GetCheckpointRequest* request,
                             grpc::ServerWriter<v1::CheckpointUpload>* writer) override {
    const auto caller = admit(*context);
    if (!caller) return to_status(caller.error());
    return transfer.get(context, caller->machine, request, writer);
  }

  grpc::Status GetFile(grpc::ServerContext* context, const v1::GetFileRequest* request,
                       grpc::ServerWriter<v1::FileBytes>* writer) override {
    const auto caller = admit(*context);
    if (!caller) return to_status(caller.error());
    if (options.files != nullptr)
      return options.files->get(context, caller->machine, *request, writer);
    return to_status({Code::kUnavailable, "this coordinator keeps no files", "", ""});
  }

  // The coordinator makes the name in the certificate; the agent only gives the number of a
  // replica.
  grpc::Status Certify(grpc::ServerContext* context, const v1::CertifyRequest* request,
                       v1::CertifyAnswer* answer) override {
    const auto caller = admit(*context);
    if (!caller) return to_status(caller.error());
    const ReplicaId id(request->replica());
    const auto place = inputs.place_of(id);
    if (!place || place->agent != caller->machine) {
      return to_status(
          {Code::kNotFound, "this agent has no replica " + to_string(id), "replica", ""});
    }
    if (!options.certify) {
      return to_status({Code::kUnavailable, "this coordinator issues no certificates", "", ""});
    }
    const auto issued =
        options.certify({place->agent, place->job, place->stage, place->epoch, id}, request->csr());
    if (!issued) return to_status(issued.error());
    answer->set_chain(issued->chain);
    answer->set_roots(issued->roots);
    return {};
  }

  Status listen() {
    wire::hold_callback_queue();
    auto bound =
        AgentAcceptor::listen(options.bind, options.connections, options.on_refused_connection);
    if (!bound) return bound.error();
    acceptor = std::move(bound).value();
    grpc::ServerBuilder builder;
    auto handover = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        options.door->credentials());
    builder.RegisterService(this);
    builder.RegisterService(&log_service);
    set_limits(builder);
    server = builder.BuildAndStart();
    if (!server) {
      return Error{Code::kUnavailable, "gRPC does not serve on " + options.bind, "--grpc",
                   "the log says why"};
    }
    acceptor->start(std::move(handover));
    address = with_port(options.bind, acceptor->port());
    watcher = std::thread([this] { watch(); });
    return {};
  }

  void set_limits(grpc::ServerBuilder& builder) const {
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    // Later than the acceptor, which counts the connections that it closes.
    constexpr Duration kLater = seconds(5);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               static_cast<int>((options.connections.finish + kLater).ms()));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  }

  // An agent has one session, but the end of earlier ones may not have been noticed yet. Null:
  // there are few enough.
  std::shared_ptr<AgentSession> oldest_of(AgentId machine) SHOAL_REQUIRES(mutex) {
    std::shared_ptr<AgentSession> oldest;
    std::size_t count = 0;
    for (const auto& [id, session] : sessions) {
      if (!machine || session->machine() != machine) continue;
      ++count;
      if (!oldest) oldest = session;  // they are in the order in which they were opened
    }
    return count >= kSessionsPerAgent ? oldest : nullptr;
  }

  // Whether the machine may say one more message now. How many replicas it has is asked only when
  // it has said all that it might so far.
  bool has_budget(AgentId machine) SHOAL_EXCLUDES(mutex) {
    if (!machine) return true;
    const auto take = [&](std::int64_t replicas) {
      const auto now = MessageBudget::Clock::now();
      const MutexLock guard(mutex);
      MessageBudget& budget = budgets.try_emplace(machine, now).first->second;
      if (replicas >= 0) budget.allow(replicas);
      return budget.take(now);
    };
    return take(-1) || take(inputs.replicas_of(machine));
  }

  void forget_full_budgets() SHOAL_EXCLUDES(mutex) {
    const auto now = MessageBudget::Clock::now();
    const MutexLock guard(mutex);
    if (now < budgets_due) return;
    budgets_due = now + kForgetBudgetsEvery;
    std::erase_if(budgets, [&](auto& entry) { return entry.second.is_full(now); });
  }

  std::shared_ptr<AgentSession> find(ConnectionId id) SHOAL_EXCLUDES(mutex) {
    const MutexLock guard(mutex);
    const auto found = sessions.find(id);
    return found == sessions.end() ? nullptr : found->second;
  }

  void forget(ConnectionId id) SHOAL_EXCLUDES(mutex) {
    std::shared_ptr<AgentSession> dropped;  // destroyed outside the lock
    const MutexLock guard(mutex);
    const auto found = sessions.find(id);
    if (found == sessions.end()) return;
    dropped = std::move(found->second);
    sessions.erase(found);
  }

  std::vector<std::shared_ptr<AgentSession>> all_sessions() SHOAL_EXCLUDES(mutex) {
    const MutexLock guard(mutex);
    std::vector<std::shared_ptr<AgentSession>> all;
    for (const auto& [id, session] : sessions) all.push_back(session);
    return all;
  }

  void visit_after(ConnectionId id, VisitQueue::Clock::duration time) SHOAL_EXCLUDES(mutex) {
    const MutexLock guard(mutex);
    visits.add(id, VisitQueue::Clock::now() + time);
  }

  void visit_due_sessions() SHOAL_EXCLUDES(mutex) {
    const auto now = VisitQueue::Clock::now();
    std::vector<ConnectionId> due;
    {
      const MutexLock guard(mutex);
      due = visits.take(now);
    }
    for (const ConnectionId id : due) {
      const auto session = find(id);
      if (!session) continue;
      if (session->read_on()) visit_after(id, kWatchEvery);
      session->end_late_measurement();
      if (!session->is_late(now - options.hello_limit)) continue;
      inputs.count_refused_message();
      session->close_now({grpc::StatusCode::DEADLINE_EXCEEDED, "no Hello came"});
    }
  }

  void measure_line(ConnectionId id) {
    const auto session = find(id);
    if (!session) return;
    session->measure_line();
    visit_after(id, std::chrono::nanoseconds(LineLadder::kLimit.ns));
  }

  // Streams that never said Hello, measurements of lines and transfers that fell silent.
  void watch() SHOAL_EXCLUDES(mutex) {
    const MutexLock guard(mutex);
    while (!wake_watcher.wait_for(
        mutex,
        std::min<std::chrono::milliseconds>({kWatchEvery, options.hello_limit, options.log_limit}),
        [&]() SHOAL_REQUIRES(mutex) { return stopping; })) {
      const MutexUnlock meanwhile(mutex);
      forget_full_budgets();
      visit_due_sessions();
      transfer.watch();
      if (options.files != nullptr) options.files->watch();
      logs.watch();
    }
  }

  void stop() {
    {
      const MutexLock guard(mutex);
      if (stopping) return;
      stopping = true;
    }
    wake_watcher.notify_all();
    if (watcher.joinable()) watcher.join();
    if (acceptor) acceptor->stop();
    transfer.stop();
    logs.stop();
    for (const auto& session : all_sessions()) {
      session->close({grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"});
    }
    if (server) {
      server->Shutdown(std::chrono::system_clock::now() + kStopLimit);
      server->Wait();
    }
  }

  const AgentServiceOptions options;
  InputPort& inputs;
  CheckpointTransfer transfer;
  LogQueryBroker logs{options.log_limit};
  LogServiceImpl log_service{[this](const grpc::ServerContextBase& c) { return admit(c); }, logs};
  std::string address;
  std::unique_ptr<AgentAcceptor> acceptor;  // outlives the server, whose calls it is shown
  std::unique_ptr<grpc::Server> server;

  Mutex mutex;
  CondVar wake_watcher;
  std::map<ConnectionId, std::shared_ptr<AgentSession>> sessions SHOAL_GUARDED_BY(mutex);
  VisitQueue visits SHOAL_GUARDED_BY(mutex);
  std::map<AgentId, MessageBudget> budgets SHOAL_GUARDED_BY(mutex);      // some may be full
  MessageBudget::Clock::time_point budgets_due SHOAL_GUARDED_BY(mutex);  // full ones are forgotten
  std::uint64_t last_connection SHOAL_GUARDED_BY(mutex) = 0;
  bool stopping SHOAL_GUARDED_BY(mutex) = false;
  std::thread watcher;
};

Result<std::unique_ptr<AgentService>> AgentService::start(
    AgentServiceOptions options, InputPort& inputs, CheckpointFiles& files,
    const std::vector<CheckpointRecord>& checkpoints) {
  auto impl = std::make_unique<Impl>(std::move(options), inputs, files, checkpoints);
  if (Status s = impl->listen(); !s.ok()) return s.error();
  return std::unique_ptr<AgentService>(new AgentService(std::move(impl)));
}

AgentService::AgentService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AgentService::~AgentService() { stop(); }

std::string AgentService::address() const { return impl_->address; }
void AgentService::expect_own(std::uint16_t port) { impl_->acceptor->expect_own(port); }
void AgentService::stop() { impl_->stop(); }

void AgentService::end_sessions_of(AgentId machine) {
  for (const auto& session : impl_->all_sessions()) {
    if (session->machine() != machine) continue;
    session->close_now({grpc::StatusCode::UNAUTHENTICATED, "this agent was revoked"});
  }
}

void AgentService::send(ConnectionId connection, const ToAgent& message) {
  const auto session = impl_->find(connection);
  if (!session) return;
  v1::CoordinatorMessage wire = proto::to_wire(message);
  if (impl_->options.revoked) {
    for (const AgentId agent : impl_->options.revoked()) wire.add_revoked(agent.n);
  }
  session->send(std::move(wire));
}

void AgentService::disconnect(ConnectionId connection) {
  if (const auto session = impl_->find(connection)) {
    session->close({grpc::StatusCode::ABORTED, "the coordinator closed this session"});
  }
}

void AgentService::measure_line(ConnectionId connection) { impl_->measure_line(connection); }

void AgentService::delete_checkpoint_files(CheckpointId checkpoint) {
  impl_->transfer.remove(checkpoint);
}

void AgentService::checkpoint_changed(const CheckpointRecord& checkpoint) {
  impl_->transfer.changed(checkpoint);
}

void AgentService::ask_logs(AgentId agent, const LogQuery& query, LogDone done) {
  impl_->logs.ask(agent, query, std::move(done));
}

}  // namespace shoal::coordinator
