#include "coordinator/service/http/server.h"

#include <chrono>
#include <optional>
#include <thread>

#include <spdlog/spdlog.h>

#include "coordinator/service/http/asio.h"
#include "coordinator/service/http/client_limits.h"
#include "coordinator/service/http/connection.h"
#include "coordinator/service/http/guard.h"
#include "coordinator/service/http/service.h"

namespace shoal::coordinator {
namespace {

namespace net = http_io::net;
using http_io::tcp;
using ErrorCode = boost::system::error_code;
using rest::BindAddress;
using rest::ClientLimits;
using rest::Connection;
using rest::Service;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // after "too many open files"

std::optional<ClientLimits::Visit> enter(Service& service, const tcp::socket& socket) {
  ErrorCode error;
  const std::string address = socket.remote_endpoint(error).address().to_string();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return service.clients.enter(rest::client_of(address, rest::is_from_this_host(socket)),
                               now / std::chrono::nanoseconds(1));
}

// For a connection over the limit, which gets no Connection of its own.
std::string full_response() {
  const std::string body =
      "{\"type\":\"/problems/overloaded\",\"title\":\"A limit is reached\",\"status\":503,"
      "\"detail\":\"too many connections\",\"code\":\"overloaded\"}\n";
  return "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
         "Retry-After: 2\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

void check(std::vector<FieldError>& errors, bool good, const char* pointer, const char* detail) {
  if (!good) errors.push_back({pointer, detail});
}

Error bind_error(const std::string& bind, const ErrorCode& error) {
  if (error == net::error::address_in_use) {
    return Error{Code::kConflict, bind + " is in use by another program", "http.bind",
                 "stop that program, or choose another address; port 0 picks a free one"};
  }
  if (error == net::error::access_denied)
    return Error{Code::kPermissionDenied, bind + " may not be bound", "http.bind",
                 "ports below 1024 need a privilege; choose a higher one"};
  return Error{Code::kUnavailable, bind + " cannot be bound: " + error.message(), "http.bind",
               "choose an address of this host"};
}

}  // namespace

std::vector<FieldError> validate(const HttpOptions& options) {
  std::vector<FieldError> errors;
  check(errors, options.threads >= 1 && options.threads <= 64, "/threads", "must be from 1 to 64");
  check(errors, options.workers >= 1 && options.workers <= 64, "/workers", "must be from 1 to 64");
  check(errors, options.body_max.count() >= 1024, "/body_max", "must be at least 1 KiB");
  check(errors, options.header_max.count() >= 1024 && options.header_max.count() <= (1 << 20),
        "/header_max", "must be from 1 KiB to 1 MiB");
  check(errors, options.connections_max >= 1, "/connections_max", "must be at least 1");
  check(errors, options.streams_max >= 0 && options.streams_max <= options.connections_max,
        "/streams_max", "must be from 0 to connections_max");
  check(errors, options.questions_max >= 1, "/questions_max", "must be at least 1");
  for (const Duration limit : {options.read_limit, options.idle_limit, options.write_limit,
                               options.answer_limit, options.heartbeat_every, options.drain_limit})
    check(errors, limit > Duration{}, "/limits", "every time limit must be above 0");
  return errors;
}

struct HttpServer::Impl {
  Impl(HttpOptions options, Cluster& cluster)
      : service(std::make_shared<Service>(std::move(options), cluster)),
        acceptor(net::make_strand(service->io)),
        pause(acceptor.get_executor()),
        work(net::make_work_guard(service->io)) {}

  Status listen(const BindAddress& bind);
  void accept();
  void on_accept(ErrorCode error, tcp::socket socket);
  void stop();

  std::shared_ptr<Service> service;
  tcp::acceptor acceptor;
  net::steady_timer pause;
  net::executor_work_guard<net::io_context::executor_type> work;
  std::vector<std::thread> threads;
  std::string address;
  bool stopped = false;
};

Status HttpServer::Impl::listen(const BindAddress& bind) {
  const tcp::endpoint endpoint(net::ip::make_address(bind.host), bind.port);
  const std::string& text = service->options.bind;
  ErrorCode error;
  if (acceptor.open(endpoint.protocol(), error)) return bind_error(text, error);
  acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (error) return bind_error(text, error);
  const tcp::endpoint bound = acceptor.local_endpoint(error);
  if (error) return bind_error(text, error);
  const std::string host = bound.address().to_string();
  address =
      (bound.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(bound.port());
  return Status();
}

// The acceptor and its timer are used on their strand only; every socket gets one of its own.
void HttpServer::Impl::accept() {
  acceptor.async_accept(net::make_strand(service->io), [this](ErrorCode error, tcp::socket socket) {
    on_accept(error, std::move(socket));
  });
}

void HttpServer::Impl::on_accept(ErrorCode error, tcp::socket socket) {
  if (service->stopping || error == net::error::operation_aborted) return;
  if (error == net::error::no_descriptors || error == net::error::no_buffer_space) {
    spdlog::warn("http: cannot accept: {}", error.message());
    pause.expires_after(kAcceptPause);
    pause.async_wait([this](ErrorCode cancelled) {
      if (!cancelled) accept();
    });
    return;
  }
  auto visit = error ? std::nullopt : enter(*service, socket);
  if (visit) {
    const auto connection =
        std::make_shared<Connection>(std::move(socket), *service, std::move(*visit));
    service->track(connection);
    connection->run();
  } else if (!error) {
    service->refusals().count(Port::kHttp, RefusalReason::kLimits);
    ErrorCode ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(net::buffer(full_response()), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }
  accept();
}

void HttpServer::Impl::stop() {
  if (std::exchange(stopped, true)) return;
  service->stopping = true;
  net::post(acceptor.get_executor(), [this] {
    ErrorCode ignored;
    acceptor.close(ignored);
    pause.cancel();
  });
  service->stop_peers();
  if (!service->wait_until_empty(service->options.drain_limit))
    spdlog::warn("http: {} connections were closed before their answer",
                 service->connections.load());
  service->subscription.reset();
  service->workers->stop();
  service->files->stop();
  work.reset();
  service->io.stop();
  for (std::thread& thread : threads) thread.join();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { stop(); }
Result<std::vector<prometheus::MetricFamily>> HttpServer::collect_metrics(Reader& reader) {
  rest::Service& service = *impl_->service;
  return service.metrics.collect(service.cluster, reader, rest::outside_of(service.options));
}

std::string HttpServer::address() const { return impl_->address; }
void HttpServer::stop() { impl_->stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, Cluster& cluster) {
  if (const auto errors = validate(options); !errors.empty())
    return Error{Code::kValidation, errors[0].detail, "http" + errors[0].pointer, ""};
  const auto bind = rest::parse_bind(options.bind);
  if (!bind.ok()) return bind.error();
  if (!options.public_origin.empty()) {
    options.host_names.push_back(rest::host_of_origin(options.public_origin));
  }
  if (!bind.value().loopback) options.host_names.push_back(net::ip::host_name());
  auto impl = std::make_unique<Impl>(std::move(options), cluster);
  if (const Status status = impl->listen(bind.value()); !status.ok()) {
    impl->stopped = true;  // nothing runs yet
    return status.error();
  }
  impl->service->start_threads();
  impl->accept();
  for (int i = 0; i < impl->service->options.threads; ++i)
    impl->threads.emplace_back([io = &impl->service->io] { io->run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace shoal::coordinator
