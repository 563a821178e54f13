// gRPC as peers used it before they had streams, without TLS, with its own, or with a pump below
// it. Messages stay in gRPC's slices: nobody copies them to where they belong.
#include <chrono>
#include <map>

#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/streams/contender.h"
#include "bench/streams/tcp_listener.h"
#include "bench/streams/tls_pump.h"
#include "threads/mutex.h"
#include "wire/tcp_socket.h"

namespace shoal::bench {
namespace {

constexpr char kMethod[] = "/shoal.Bench/Talk", kPurpose[] = "shoal-purpose";
constexpr int kKeepaliveMs = 4000, kMessageMax = (4 << 20) + 4096;
constexpr auto kPatience = std::chrono::seconds(10);
constexpr int kPatienceMs = 10'000;
// What the dialing pump says of the connection: who speaks HTTP/2 as the client on it.
constexpr std::byte kDialerCalls{0}, kAcceptorCalls{1};

// Keep-alive that notices a frozen peer, HTTP/2 frames and read buffers large enough that a message
// of 1 MiB passes in few pieces.
void set_common(const std::function<void(const char*, int)>& set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveMs / 2);
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, (1 << 24) - 1);
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 2 << 20);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20);
  set(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, 64 << 10);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 2 << 20);
}

grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  set_common([&](const char* name, int value) { arguments.SetInt(name, value); });
  arguments.SetMaxReceiveMessageSize(kMessageMax);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

void configure(grpc::ServerBuilder& builder) {
  set_common([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.SetMaxReceiveMessageSize(kMessageMax);
}

grpc::ByteBuffer lend(std::span<const std::byte> message) {
  const grpc::Slice slice(message.data(), message.size(), grpc::Slice::STATIC_SLICE);
  return {&slice, 1};
}

// -1: nobody answers there in time.
int connect_to(const std::string& address) {
  const int fd = wire::begin_connect(address);
  pollfd wait{fd, POLLOUT, 0};
  int error = 1;
  socklen_t size = sizeof error;
  if (poll(&wait, 1, kPatienceMs) == 1 &&
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

// A channel of either end, over its reactor.
template <typename Reactor>
class End : public Reactor, public Channel {
 public:
  explicit End(std::shared_ptr<ChannelUser> user) : user_(std::move(user)) {}

  void send(std::span<const std::byte> message) override {
    outgoing_ = lend(message);
    this->StartWrite(&outgoing_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) user_->sent(*this);
  }

 protected:
  void read() { this->StartRead(&incoming_); }
  bool take(bool ok) {
    if (!ok) return false;
    user_->received(*this, incoming_.Length());
    read();
    return true;
  }
  const std::shared_ptr<ChannelUser> user_;

 private:
  grpc::ByteBuffer incoming_, outgoing_;
};

class CallerEnd final : public End<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  CallerEnd(std::shared_ptr<grpc::Channel> channel, const std::string& purpose,
            std::shared_ptr<ChannelUser> user)
      : End(std::move(user)), stub_(std::move(channel)) {
    context_.AddMetadata(kPurpose, purpose);
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();  // writes begin from anywhere
    read();
    StartCall();
  }
  void cancel() override {
    context_.TryCancel();
    let_go();
  }
  void OnReadDone(bool ok) override {
    if (!take(ok)) let_go();
  }
  // The thread that waits for gone() drops the channel after it, never a thread of gRPC: gRPC joins
  // its threads when its last channel goes, and one that joins itself corrupts memory.
  void OnDone(const grpc::Status&) override {
    const auto user = user_;
    self_.reset();
    user->gone();
  }
  std::shared_ptr<Channel> self_;  // until OnDone

 private:
  void let_go() {
    if (!released_.exchange(true)) RemoveHold();
  }
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext context_;
  std::atomic<bool> released_{false};
};

class ServerEnd final : public End<grpc::ServerGenericBidiReactor> {
 public:
  ServerEnd(grpc::GenericCallbackServerContext* context, std::shared_ptr<ChannelUser> user)
      : End(std::move(user)), context_(context) {
    read();
  }
  void cancel() override { context_->TryCancel(); }
  void OnReadDone(bool ok) override {
    if (!take(ok) && !finished_.exchange(true)) Finish(grpc::Status::OK);
  }
  void OnCancel() override { user_->gone(); }
  void OnDone() override { delete this; }

 private:
  grpc::GenericCallbackServerContext* const context_;
  std::atomic<bool> finished_{false};
};

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(Accept accept) : accept_(std::move(accept)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto& metadata = context->client_metadata();
    const auto purpose = metadata.find(kPurpose);
    const std::string text = purpose == metadata.end()
                                 ? ""
                                 : std::string(purpose->second.data(), purpose->second.size());
    return new ServerEnd(context, accept_(text));
  }

 private:
  const Accept accept_;
};

class GrpcContender final : public Contender {
 public:
  GrpcContender(Place place, const Identity& identity, GrpcWay way, Accept accept)
      : place_(std::move(place)), identity_(identity), way_(way), service_(std::move(accept)) {}
  ~GrpcContender() override {
    listener_.reset();
    channels_.clear();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  Result<std::string> listen() override {
    grpc::ServerBuilder builder;
    configure(builder);
    builder.RegisterCallbackGenericService(&service_);
    int port = 0;
    if (way_ != GrpcWay::kPump) {
      builder.AddListeningPort(place_.host + ":0", server_credentials(), &port);
    }
    server_ = builder.BuildAndStart();
    if (!server_) return Error{Code::kUnavailable, "gRPC does not start", "", ""};
    if (way_ == GrpcWay::kPump) {
      auto listener = TcpListener::start(place_.host + ":0", [this](int fd) { accept_pump(fd); });
      if (!listener.ok()) return listener.error();
      listener_ = std::move(listener).value();
      port = listener_->port();
    }
    return place_.host + ":" + std::to_string(port);
  }

  // A pump dials both directions where only it can: then the peer's channel comes from the pump.
  Status connect(const std::vector<std::string>& addresses) override {
    addresses_ = addresses;
    for (int peer = 0; peer < std::ssize(addresses); ++peer) {
      if (peer == place_.rank || (way_ == GrpcWay::kPump && peer > place_.rank)) continue;
      if (way_ == GrpcWay::kPump && !dial_back(peer)) return unreachable(peer);
      auto channel = dial(peer);
      if (!channel || !is_connected(*channel)) return unreachable(peer);
      keep(peer, std::move(channel));
    }
    const MutexLock lock(mutex_);
    const bool all = changed_.wait_for(mutex_, kPatience, [&]() SHOAL_REQUIRES(mutex_) {
      return channels_.size() + 1 == addresses_.size();
    });
    return all ? Status() : unreachable(-1);
  }

  std::shared_ptr<Channel> open(int peer, const std::string& purpose,
                                std::shared_ptr<ChannelUser> user, bool fresh) override {
    std::shared_ptr<grpc::Channel> channel;
    if (fresh) {
      channel = dial(peer);
    } else {
      const MutexLock lock(mutex_);
      channel = channels_.at(peer);
    }
    SHOAL_CHECK(channel != nullptr, "a peer cannot be dialed");
    auto end = std::make_shared<CallerEnd>(std::move(channel), purpose, std::move(user));
    end->self_ = end;
    return end;
  }

 private:
  Error unreachable(int peer) const {
    return {Code::kUnavailable, "gRPC does not reach process " + std::to_string(peer), "", ""};
  }

  // A channel over a given connection cannot tell.
  bool is_connected(grpc::Channel& channel) const {
    return way_ != GrpcWay::kTls ||
           channel.WaitForConnected(std::chrono::system_clock::now() + kPatience);
  }

  std::shared_ptr<grpc::ServerCredentials> server_credentials() const {
    if (way_ == GrpcWay::kPlain) return grpc::InsecureServerCredentials();
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = identity_.roots_pem;
    options.pem_key_cert_pairs.push_back({identity_.server_key_pem, identity_.server_pem});
    return grpc::SslServerCredentials(options);
  }

  std::shared_ptr<grpc::Channel> dial(int peer) {
    const std::string& address = addresses_.at(static_cast<std::size_t>(peer));
    grpc::ChannelArguments arguments = channel_arguments();
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 1);
    if (way_ == GrpcWay::kTls) {
      arguments.SetSslTargetNameOverride("localhost");
      return grpc::CreateCustomChannel(
          address,
          grpc::SslCredentials(
              {identity_.roots_pem, identity_.client_key_pem, identity_.client_pem}),
          arguments);
    }
    if (way_ == GrpcWay::kPlain) {
      const int fd = connect_to(address);
      return fd < 0 ? nullptr : grpc::CreateCustomInsecureChannelFromFd(address, fd, arguments);
    }
    auto pump = dial_pump(peer, kDialerCalls);
    if (!pump) return nullptr;
    auto channel = grpc::CreateCustomInsecureChannelFromFd(address, pump->take_plain(), arguments);
    run(std::move(pump));
    return channel;
  }

  std::unique_ptr<TlsPump> dial_pump(int peer, std::byte role) {
    const std::string& address = addresses_.at(static_cast<std::size_t>(peer));
    auto pump = TlsPump::start(wire::begin_connect(address), identity_.contexts, true);
    if (!pump.ok() || !(*pump)->tell(role).ok()) return nullptr;
    if (role == kAcceptorCalls && !(*pump)->tell(static_cast<std::byte>(place_.rank)).ok()) {
      return nullptr;
    }
    return std::move(pump).value();
  }

  // A connection on which the peer calls us.
  bool dial_back(int peer) {
    auto pump = dial_pump(peer, kAcceptorCalls);
    if (!pump) return false;
    grpc::AddInsecureChannelFromFd(server_.get(), pump->take_plain());
    run(std::move(pump));
    return true;
  }

  void accept_pump(int fd) {
    auto started = TlsPump::start(fd, identity_.contexts, false);
    if (!started.ok()) return;
    auto pump = std::move(started).value();
    const auto role = pump->hear();
    if (!role.ok()) return;
    if (*role == kDialerCalls) {
      grpc::AddInsecureChannelFromFd(server_.get(), pump->take_plain());
      return run(std::move(pump));
    }
    const auto peer = pump->hear();
    if (!peer.ok()) return;
    grpc::ChannelArguments arguments = channel_arguments();
    auto channel = grpc::CreateCustomInsecureChannelFromFd("peer", pump->take_plain(), arguments);
    run(std::move(pump));
    keep(std::to_integer<int>(*peer), std::move(channel));
  }

  void run(std::unique_ptr<TlsPump> pump) {
    pump->begin();
    const MutexLock lock(mutex_);
    pumps_.push_back(std::move(pump));
  }

  void keep(int peer, std::shared_ptr<grpc::Channel> channel) {
    const MutexLock lock(mutex_);
    channels_[peer] = std::move(channel);
    changed_.notify_all();
  }

  const Place place_;
  const Identity& identity_;
  const GrpcWay way_;
  std::vector<std::string> addresses_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<TlsPump>> pumps_ SHOAL_GUARDED_BY(mutex_);
  std::map<int, std::shared_ptr<grpc::Channel>> channels_ SHOAL_GUARDED_BY(mutex_);
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<TcpListener> listener_;
};

}  // namespace

std::unique_ptr<Contender> make_grpc(Place place, const Identity& identity, GrpcWay way,
                                     Accept accept) {
  return std::make_unique<GrpcContender>(std::move(place), identity, way, std::move(accept));
}

}  // namespace shoal::bench
