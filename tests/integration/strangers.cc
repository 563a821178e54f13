#include "tests/integration/strangers.h"

#include <array>
#include <chrono>

#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "coordinator/service/machines/server_files.h"
#include "identity/asio_ssl.h"
#include "identity/tls_context.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "proto/logs.grpc.pb.h"
#include "threads/clock.h"
#include "wire/tcp_socket.h"

namespace shoal::integration {
namespace {

constexpr int kLimitMs = 10'000;

Instant now() { return UnixClock().now(); }

int connect_to(const std::string& address) {
  const auto numbers = wire::numbers_of(address);
  const int fd = numbers.empty() ? -1 : wire::begin_connect(numbers.front());
  pollfd writable{fd, POLLOUT, 0};
  if (fd < 0 || poll(&writable, 1, kLimitMs) != 1) return -1;
  return fd;
}

// False: it could not be sent whole.
bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd writable{fd, POLLOUT, 0};
    if (poll(&writable, 1, kLimitMs) != 1) return false;
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// What is there now; empty: the end.
std::string take_some(int fd) {
  std::array<char, 16 << 10> buffer;
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
}

}  // namespace

// ---- sockets

Heard say_raw(const std::string& address, const std::string& bytes, double limit_s) {
  Heard heard;
  const int fd = connect_to(address);
  if (fd < 0) return {{}, true};
  send_all(fd, bytes);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  while (!heard.closed && std::chrono::steady_clock::now() < end) {
    pollfd readable{fd, POLLIN, 0};
    if (poll(&readable, 1, 50) != 1) continue;
    const std::string some = take_some(fd);
    heard.closed = some.empty();
    heard.bytes += some;
  }
  close(fd);
  return heard;
}

Answer ask(const std::string& address, const std::string& method, const std::string& path,
           const std::string& headers, const std::string& body) {
  const bool names_host = headers.find("Host:") != std::string::npos;
  std::string request = method + " " + path + " HTTP/1.1\r\n" +
                        (names_host ? "" : "Host: " + address + "\r\n") + headers +
                        "Connection: close\r\n";
  if (!body.empty()) {
    request +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  const Heard heard = say_raw(address, request + "\r\n" + body);
  Answer answer;
  if (!heard.bytes.starts_with("HTTP/1.1 ")) return answer;
  answer.status = std::stoi(heard.bytes.substr(9, 3));
  const std::size_t head = heard.bytes.find("\r\n\r\n");
  if (head != std::string::npos) answer.body = heard.bytes.substr(head + 4);
  return answer;
}

Tape::Tape(const std::string& address) {
  const auto listening = wire::listen_at("127.0.0.1:0");
  SHOAL_CHECK(listening.ok(), "no port");
  listener_ = *listening;
  port_ = wire::port_of_listener(listener_);
  thread_ = std::thread([this, address] { run(address); });
}

Tape::~Tape() {
  if (thread_.joinable()) thread_.join();
  close(listener_);
}

std::string Tape::recorded() {
  if (thread_.joinable()) thread_.join();
  return said_;
}

void Tape::run(const std::string& to) {
  pollfd waiting{listener_, POLLIN, 0};
  if (poll(&waiting, 1, kLimitMs) != 1) return;
  const int client = accept(listener_, nullptr, nullptr), server = connect_to(to);
  std::array<pollfd, 2> both = {pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
  while (client >= 0 && server >= 0 && poll(both.data(), both.size(), kLimitMs) > 0) {
    if (both[0].revents != 0) {
      const std::string said = take_some(client);
      said_ += said;
      if (said.empty() || !send_all(server, said)) break;
    }
    if (both[1].revents != 0) {
      const std::string answered = take_some(server);
      if (answered.empty() || !send_all(client, answered)) break;
    }
  }
  close(client);
  close(server);
}

// ---- certificates

Forger::Forger(const Cluster& cluster) : foreign_(identity::Authority::make({"elsewhere"}, now())) {
  const auto list = cluster.api().get("/authorities");
  SHOAL_CHECK(list.ok(), "the cluster does not name its CA");
  const identity::ClusterName name{cli::text_at(list->at("items").at(0), "cluster")};
  auto own = identity::Authority::load(cluster.state().data_dir + "/coordinator/ca.pem", name);
  SHOAL_CHECK(own.ok(), own.ok() ? "" : to_string(own.error()));
  own_.emplace(std::move(own).value());
  foreign_ = identity::Authority::make(name, now());
}

identity::Credentials Forger::agent(const identity::Authority& ca, AgentId id,
                                    Duration life) const {
  const auto key = identity::PrivateKey::make();
  const auto request = identity::SigningRequest::parse(identity::make_request(key));
  return {key, *ca.issue_agent(*request, id, now(), life), ca.chain(now())};
}

identity::Credentials Forger::replica(const identity::Authority& ca,
                                      const identity::ReplicaName& name, Duration ahead) const {
  const auto key = identity::PrivateKey::make();
  const auto request = identity::SigningRequest::parse(identity::make_request(key));
  return {key, *ca.issue_replica(*request, name, now() + ahead), ca.chain(now())};
}

wire::stream::TlsContexts Forger::contexts(std::optional<identity::Credentials> shown) const {
  const auto trust = std::make_shared<identity::Trust>(identity::Beliefs{own_->roots(now()), {}});
  const identity::ExpectedPeer any{.cluster = own_->cluster()};
  const auto client = identity::make_tls_context(identity::Client{shown, trust, any}, now);
  const auto server = identity::make_tls_context(
      identity::OpenServer{shown ? *shown : agent(foreign_, AgentId(1))}, now);
  return {*server, *client};
}

std::string Forger::roots() const { return own_->certificate().pem(); }

// ---- the port for agents

namespace {

std::shared_ptr<grpc::Channel> channel_to(const std::string& address, const Forger& forger,
                                          const std::optional<identity::Credentials>& shown) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = forger.roots();
  if (shown) {
    tls.pem_private_key = shown->key.pem();
    tls.pem_cert_chain = shown->certificate.pem();
  }
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(coordinator::kServerName);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(tls), arguments);
}

void limit(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(kLimitMs));
}

// A stream on which the other end may say something before it ends; that would be an answer.
template <typename Stream, typename Message>
Ended end_of(Stream& stream, Message message) {
  const bool answered = stream.Read(&message);
  stream.WritesDone();
  while (stream.Read(&message)) {
  }
  const grpc::Status status = stream.Finish();
  if (answered) return {0, "it has answered"};
  return {status.error_code(), status.error_message()};
}

}  // namespace

Ended open_session(const std::string& address, const Forger& forger,
                   const std::optional<identity::Credentials>& shown, const std::string& uid) {
  const auto stub = v1::AgentService::NewStub(channel_to(address, forger, shown));
  grpc::ClientContext context;
  limit(context);
  const auto stream = stub->Session(&context);
  Hello hello;
  hello.uid = uid;
  hello.name = "stranger";
  hello.version = "test";
  hello.host = "127.0.0.1";
  stream->Write(proto::to_wire(hello));
  return end_of(*stream, v1::CoordinatorMessage());
}

Ended open_upload(const std::string& address, const Forger& forger,
                  const std::optional<identity::Credentials>& shown) {
  const auto stub = v1::AgentService::NewStub(channel_to(address, forger, shown));
  grpc::ClientContext context;
  limit(context);
  const auto stream = stub->PutCheckpoint(&context);
  v1::CheckpointUpload upload;
  upload.mutable_header()->set_checkpoint(1);
  stream->Write(upload);
  return end_of(*stream, v1::CheckpointReceived());
}

Ended open_logs(const std::string& address, const Forger& forger,
                const std::optional<identity::Credentials>& shown) {
  const auto stub = v1::LogService::NewStub(channel_to(address, forger, shown));
  grpc::ClientContext context;
  limit(context);
  const auto stream = stub->Answer(&context);
  return end_of(*stream, v1::LogQuestion());
}

// ---- the ports of peers

bool is_turned_away(const std::string& address, const wire::stream::TlsContexts& contexts,
                    const std::string& purpose) {
  wire::stream::Host stranger(
      {.bind = "", .tls = contexts, .local_sockets = false, .handshake_limit = seconds(10)});
  const auto pair = stranger.dial({.address = address});
  if (!pair.ok() || purpose.empty()) return !pair.ok();
  const auto stream = wire::stream::open(**pair, purpose);
  return stream->wait_closed() && stream->messages().empty();
}

}  // namespace shoal::integration
