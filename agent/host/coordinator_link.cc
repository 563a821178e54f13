#include "agent/host/coordinator_link.h"

#include <chrono>
#include <deque>
#include <optional>

#include <spdlog/spdlog.h>

#include "agent/host/membership.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "proto/outsize.h"
#include "proto/unreadable.h"
#include "threads/mutex.h"
#include "wire/callback_queue.h"

namespace shoal::agent {
namespace {

constexpr std::size_t kQueueMax = 4096;
constexpr int kMessageBytesMax = 16 << 20;
constexpr auto kFlushLimit = std::chrono::seconds(1);

Code code_of(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAUTHENTICATED:
      return Code::kUnauthenticated;
    case grpc::StatusCode::PERMISSION_DENIED:
      return Code::kPermissionDenied;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Code::kIncompatible;
    case grpc::StatusCode::NOT_FOUND:
      return Code::kNotFound;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Code::kInvalidArgument;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Code::kDeadlineExceeded;
    case grpc::StatusCode::DATA_LOSS:
      return Code::kDataLoss;
    case grpc::StatusCode::ABORTED:
      return Code::kConflict;
    case grpc::StatusCode::CANCELLED:
      return Code::kCancelled;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Code::kResourceExhausted;
    default:
      return Code::kUnavailable;
  }
}

// What the coordinator said, as it said it. None: gRPC made the status, or a coordinator of a
// version that sends no details.
std::optional<Error> said_by_coordinator(const grpc::Status& status) {
  v1::Error said;
  if (!said.ParseFromString(status.error_details()) || said.message().empty()) return std::nullopt;
  return Error{code_of(status.error_code()), said.message(), said.field(), said.remedy()};
}

}  // namespace

std::shared_ptr<grpc::Channel> open_channel(const CoordinatorEndpoint& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 6'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);  // the time that one attempt has
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // http_proxy is not for the cluster's traffic
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetSslTargetNameOverride(kCoordinatorTlsName);
  return grpc::CreateCustomChannel(endpoint.address, endpoint.credentials(), arguments);
}

Error error_of(const grpc::Status& status, const std::string& address) {
  Error error{code_of(status.error_code()), status.error_message(), "", ""};
  if (status.ok()) error.message = "the coordinator ended the session";
  if (error.code == Code::kUnauthenticated || error.code == Code::kPermissionDenied) {
    return {error.code, "the coordinator at " + address + " refuses this agent: " + error.message,
            "", ""};
  }
  if (auto said = said_by_coordinator(status)) return *said;
  if (error.code == Code::kUnavailable) {
    // What gRPC says of a server that speaks HTTP/1, with TLS and without.
    const bool http = error.message.find("ALPN") != std::string::npos ||
                      error.message.find("http1.x server") != std::string::npos;
    error.message = "no coordinator at " + address + ": " + error.message;
    error.remedy = http ? "that is an HTTP address; --coordinator names the one for agents, by "
                          "default port 7071"
                        : "it is tried again; --coordinator names another address";
  }
  return error;
}

// Shared by the link and by gRPC: it keeps itself alive until OnDone. The hold keeps OnDone away
// while the link may still start writes.
class CoordinatorLink::Session
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::CoordinatorMessage> {
 public:
  Session(LinkId id, std::string address, Post post, Revoked revoked)
      : id_(id),
        address_(std::move(address)),
        post_(std::move(post)),
        revoked_(std::move(revoked)) {}

  static void start(const std::shared_ptr<Session>& self,
                    const std::shared_ptr<grpc::Channel>& channel, const Hello& hello) {
    self->stub_ = v1::AgentService::NewStub(channel);
    self->stub_->async()->Session(&self->context_, self.get());
    self->AddHold();
    {
      const MutexLock guard(self->mutex_);
      self->self_ = self;
      self->held_ = true;
    }
    self->StartRead(&self->incoming_);
    self->send(proto::to_wire(hello));
    self->StartCall();
  }

  void send(v1::AgentMessage message) {
    const auto dropped = proto::outsize(message, proto::kToCoordinatorBytesMax);
    const MutexLock guard(mutex_);
    if (dropped) {
      return spdlog::error("drops message {} to the coordinator: {}", ++dropped_, *dropped);
    }
    if (!held_ || closing_) return;
    if (queue_.size() >= kQueueMax)
      return context_.TryCancel();  // it does not read: as good as gone
    queue_.push_back(std::move(message));
    if (!writing_) write_next();
  }

  void close() {
    const MutexLock guard(mutex_);
    closing_ = true;
    if (held_ && !writing_) write_next();
    if (heard_)
      done_changed_.wait_for(mutex_, kFlushLimit,
                             [this]() SHOAL_REQUIRES(mutex_) { return done_; });
    if (done_) return;
    context_.TryCancel();
    release_hold();
    done_changed_.wait_for(mutex_, kFlushLimit, [this]() SHOAL_REQUIRES(mutex_) { return done_; });
  }

  void OnWriteDone(bool ok) override {
    announce(ok);
    const MutexLock guard(mutex_);
    writing_ = false;
    if (!ok) return release_hold();
    write_next();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const MutexLock guard(mutex_);
      return release_hold();
    }
    announce(true);
    note_heard();
    auto message = proto::read(incoming_);
    if (message.ok()) {
      tell_revoked();
      post(CoordinatorSaid{id_, std::move(message).value()});
    } else if (const auto refused = proto::refusal_of(incoming_, message.error(), "shoal-agent")) {
      send(proto::to_wire(FromAgent(*refused)));
    } else {
      unreadable_ = message.error();
      context_.TryCancel();
    }
    StartRead(&incoming_);
  }

  void OnDone(const grpc::Status& status) override {
    post(LinkDown{id_, unreadable_ ? *unreadable_ : error_of(status, address_)});
    std::shared_ptr<Session> self;
    {
      const MutexLock guard(mutex_);
      held_ = false;
      done_ = true;
      self = std::move(self_);
    }
    done_changed_.notify_all();
  }

 private:
  // After the last message of a closing link the stream is half closed, and the
  // coordinator ends it.
  void write_next() SHOAL_REQUIRES(mutex_) {
    if (!held_) return;
    if (!queue_.empty()) {
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
      return StartWrite(&outgoing_);
    }
    if (closing_ && !half_closed_) {
      half_closed_ = true;
      StartWritesDone();
    }
  }

  void release_hold() SHOAL_REQUIRES(mutex_) {
    if (!held_) return;
    held_ = false;
    queue_.clear();
    RemoveHold();
  }

  // LinkUp comes before everything that was heard, whichever callback runs first.
  void announce(bool ok) SHOAL_EXCLUDES(announce_mutex_) {
    const MutexLock guard(announce_mutex_);
    if (!ok || announced_) return;
    announced_ = true;
    post(LinkUp{id_});
  }

  void tell_revoked() {
    std::vector<AgentId> agents;
    for (const std::uint64_t id : incoming_.revoked()) agents.emplace_back(id);
    if (!agents.empty()) revoked_(agents);
  }

  void note_heard() SHOAL_EXCLUDES(mutex_) {
    const MutexLock guard(mutex_);
    heard_ = true;
  }

  void post(Input input) SHOAL_EXCLUDES(mutex_) {
    {
      const MutexLock guard(mutex_);
      if (closing_) return;
    }
    post_(std::move(input));
  }

  const LinkId id_;
  const std::string address_;
  const Post post_;
  const Revoked revoked_;
  std::unique_ptr<v1::AgentService::Stub> stub_;
  grpc::ClientContext context_;
  v1::CoordinatorMessage incoming_;
  std::optional<Error> unreadable_;  // reading side only

  Mutex announce_mutex_;
  bool announced_ SHOAL_GUARDED_BY(announce_mutex_) = false;

  Mutex mutex_;
  CondVar done_changed_;
  std::shared_ptr<Session> self_ SHOAL_GUARDED_BY(mutex_);
  std::deque<v1::AgentMessage> queue_ SHOAL_GUARDED_BY(mutex_);
  v1::AgentMessage outgoing_ SHOAL_GUARDED_BY(mutex_);
  bool held_ SHOAL_GUARDED_BY(mutex_) = false;
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool half_closed_ SHOAL_GUARDED_BY(mutex_) = false;
  bool done_ SHOAL_GUARDED_BY(mutex_) = false;
  bool heard_ SHOAL_GUARDED_BY(mutex_) = false;        // from the coordinator, anything
  std::int64_t dropped_ SHOAL_GUARDED_BY(mutex_) = 0;  // messages of this session
};

CoordinatorLink::CoordinatorLink(const CoordinatorEndpoint& endpoint, LinkId id, const Hello& hello,
                                 Post post, Revoked revoked)
    : id_(id),
      channel_(open_channel(endpoint)),
      session_(
          std::make_shared<Session>(id, endpoint.address, std::move(post), std::move(revoked))) {
  wire::hold_callback_queue();
  Session::start(session_, channel_, hello);
}

CoordinatorLink::~CoordinatorLink() { session_->close(); }

void CoordinatorLink::send(const FromAgent& message) { session_->send(proto::to_wire(message)); }

}  // namespace shoal::agent
