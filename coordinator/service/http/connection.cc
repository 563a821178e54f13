#include "coordinator/service/http/connection.h"

#include <algorithm>
#include <chrono>

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/text.h"
#include "coordinator/service/http/audit.h"
#include "coordinator/service/http/client_limits.h"
#include "coordinator/service/http/gate.h"
#include "coordinator/service/http/guard.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/refusal.h"
#include "coordinator/service/http/stream.h"
#include "coordinator/service/http/url.h"

namespace shoal::coordinator::rest {
namespace {

namespace http = http_io::http;
namespace net = http_io::net;
namespace beast = http_io::beast;

constexpr std::int64_t kFileChunk = 256 << 10;
constexpr std::size_t kLingerMax = 16 << 20;  // bytes of an unwanted body that are thrown away
constexpr Duration kLingerLimit = seconds(2);
constexpr Duration kProbeLimit = seconds(2);  // of a connection that is for a probe alone

std::chrono::nanoseconds chrono(Duration duration) { return std::chrono::nanoseconds(duration.ns); }

std::int64_t steady_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

std::string text_of(beast::string_view view) { return {view.data(), view.size()}; }

std::string label_of(http::verb verb) {
  switch (verb) {
    case http::verb::get:
    case http::verb::head:
    case http::verb::post:
    case http::verb::put:
    case http::verb::delete_:
    case http::verb::patch:
    case http::verb::options:
      return text_of(http::to_string(verb));
    default:
      return "other";
  }
}

// The handler's answer; what it should never throw ends here instead of ending the process.
template <typename Call>
Response guarded(const Request& request, Call call) {
  try {
    Result<Response> result = call();
    if (result.ok()) return std::move(result).value();
    if (problem_of(result.error().code) == Problem::kInternal)
      spdlog::error("{} {}: {}", request.id, request.path, to_string(result.error()));
    return problem_response(result.error(), request);
  } catch (const std::exception& error) {
    spdlog::error("{} {}: {}", request.id, request.path, error.what());
    return problem_response(Problem::kInternal, request, error.what());
  }
}

}  // namespace

Connection::Connection(http_io::tcp::socket socket, Service& service, ClientLimits::Visit visit)
    : executor_(socket.get_executor()),
      stream_(std::make_unique<EitherStream>(std::move(socket))),
      service_(service),
      slot_(service, service.connections),
      visit_(std::move(visit)),
      buffer_(static_cast<std::size_t>(service.options.header_max.count()) + 4096),
      answer_timer_(executor_) {}

void Connection::run() {
  net::dispatch(executor_, [self = shared_from_this()] {
    ErrorCode ignored;
    self->stream_->socket().set_option(http_io::tcp::no_delay(true), ignored);
    self->detect();
  });
}

// An idle connection may be stopped here as between two requests.
void Connection::detect() {
  if (service_.stopping) return close();
  idle_ = true;
  stream_->lowest().expires_after(chrono(read_limit()));
  Machines* machines = service_.options.machines;
  stream_->detect(machines == nullptr ? nullptr : machines->open_tls(), buffer_,
                  [self = shared_from_this()](ErrorCode error) {
                    self->idle_ = false;
                    if (error.category() == net::error::get_ssl_category())
                      self->service_.refusals().count(Port::kHttp, RefusalReason::kMalformed);
                    if (error) return self->close();
                    self->read_next();
                  });
}

void Connection::stop() {
  net::post(executor_, [self = shared_from_this()] {
    self->keep_alive_ = false;
    if (self->idle_) self->close();
  });
}

void Connection::read_next() {
  if (service_.stopping) return close();
  request_.reset();
  visit_.release_body();
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(service_.options.header_max.count()));
  parser_->body_limit(static_cast<std::uint64_t>(service_.options.body_max.count()));
  idle_ = true;
  stream_->lowest().expires_after(chrono(first_ ? read_limit() : service_.options.idle_limit));
  first_ = false;
  http::async_read_header(*stream_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, std::size_t) {
                            self->idle_ = false;
                            self->on_header(error);
                          });
}

void Connection::on_header(ErrorCode error) {
  if (error) return refuse_unread(error);
  if (!visit_.hold_body(announced_body()))
    return refuse_head(Problem::kOverloaded, "too many bodies are being sent at once");
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return read_body();
  write("HTTP/1.1 100 Continue\r\n\r\n", &Connection::read_body);
}

Duration Connection::read_limit() const {
  const Duration limit = service_.options.read_limit;
  return visit_.for_probes() ? std::min(limit, kProbeLimit) : limit;
}

// What the client says, or the most that it may send without saying.
Bytes Connection::announced_body() const {
  if (parser_->chunked()) return service_.options.body_max;
  const auto length = parser_->content_length();
  return length ? Bytes(static_cast<std::int64_t>(*length)) : Bytes();
}

void Connection::read_body() {
  stream_->lowest().expires_after(chrono(read_limit()));
  http::async_read(
      *stream_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode error, std::size_t) { self->on_body(error); });
}

void Connection::on_body(ErrorCode error) {
  if (error) return refuse_unread(error);
  take_request();
  if (request_->method == "OPTIONS") return answer_options();
  if (admitted()) dispatch();
}

// Says why when the client can still hear it; a client that went away or took too long is just
// closed.
void Connection::refuse_unread(ErrorCode error) {
  const bool too_large = error == http::error::body_limit;
  const bool header = error == http::error::header_limit || error == http::error::buffer_overflow;
  const bool malformed = error.category() == make_error_code(http::error::body_limit).category() &&
                         error != http::error::end_of_stream &&
                         error != http::error::partial_message;
  if (!too_large && !header && !malformed) {
    const bool slow = error == beast::error::timeout;
    if (parser_->got_some())
      service_.refusals().count(Port::kHttp,
                                slow ? RefusalReason::kLimits : RefusalReason::kMalformed);
    return close();
  }
  const auto limit = too_large ? service_.options.body_max : service_.options.header_max;
  const std::string at_most = "at most " + std::to_string(limit.count()) + " bytes are accepted";
  if (too_large) return refuse_head(Problem::kBodyTooLarge, at_most);
  if (header) return refuse_head(Problem::kHeaderTooLarge, at_most);
  refuse_head(Problem::kInvalidRequest, "not HTTP/1.1: " + error.message());
}

void Connection::refuse_head(Problem problem, std::string detail) {
  route_ = nullptr;
  request_ = std::make_shared<Request>();
  request_->id = service_.next_request_id();
  verb_ = label_of(parser_->get().method());
  Request target;
  if (split_target(text_of(parser_->get().target()), target)) request_->path = target.path;
  head_only_ = keep_alive_ = false;
  unread_body_ = true;
  respond(problem_response(problem, *request_, std::move(detail)));
}

void Connection::take_request() {
  auto message = parser_->release();
  parser_.reset();
  request_at_ns_ = steady_ns();
  route_ = nullptr;
  unread_body_ = false;
  keep_alive_ = message.keep_alive() && !service_.stopping && !visit_.for_probes();
  head_only_ = message.method() == http::verb::head;
  verb_ = label_of(message.method());
  host_ = text_of(message[http::field::host]);
  origin_ = text_of(message[http::field::origin]);

  request_ = std::make_shared<Request>();
  Request& request = *request_;
  request.method = head_only_ ? "GET" : text_of(message.method_string());
  request.path = text_of(message.target());  // taken apart in admitted()
  request.content_type = text_of(message[http::field::content_type]);
  request.accept = text_of(message[http::field::accept]);
  request.accept_encoding = text_of(message[http::field::accept_encoding]);
  request.range = text_of(message[http::field::range]);
  request.if_range = text_of(message[http::field::if_range]);
  request.if_none_match = text_of(message[http::field::if_none_match]);
  request.last_event_id = text_of(message["Last-Event-ID"]);
  request.authorization = text_of(message[http::field::authorization]);
  request.cookie = text_of(message[http::field::cookie]);
  request.is_secure = stream_->is_tls() || (service_.options.public_origin.starts_with("https:") &&
                                            origin_ == service_.options.public_origin);
  request.id = usable_request_id(text_of(message["X-Request-Id"]));
  if (request.id.empty()) request.id = service_.next_request_id();
  request.body = std::move(message.body());
}

void Connection::answer_options() {
  Response response;
  response.status = 204;
  std::string allow = "GET, HEAD, POST, PATCH, OPTIONS";
  if (request_->path != "*") {
    split_target(std::string(request_->path), *request_);
    const Match match = match_route(route_table(), *request_);
    if (match.allowed.empty()) {
      return respond(
          problem_response(Problem::kNotFound, *request_, "there is nothing at " + request_->path));
    }
    allow = joined(match.allowed);
  }
  response.headers.emplace_back("Allow", allow);
  respond(std::move(response));
}

bool Connection::admitted() {
  const auto refuse = [this](Problem problem, std::string detail, std::string hint) {
    respond(problem_response(problem, *request_, std::move(detail), {}, std::move(hint)));
    return false;
  };
  const std::string target = std::move(request_->path);
  if (!split_target(target, *request_))
    return refuse(Problem::kInvalidRequest, "the request target is not a path with valid escapes",
                  "");
  if (!within_share()) return false;
  if (!host_allowed(host_, service_.options.host_names)) {
    return refuse(
        Problem::kHostNotAllowed, "\"" + host_ + "\" is not a name of this coordinator",
        "use its IP address or localhost, or start shoal-coordinator with --public-url and the "
        "address of the proxy in front, or with --host-name and this name");
  }
  if (request_->method != "GET" &&
      !origin_allowed(origin_, host_, service_.options.public_origin)) {
    return refuse(
        Problem::kOriginNotAllowed, "a page from \"" + origin_ + "\" may not change anything here",
        "if that is the proxy in front of this coordinator, start it with --public-url " + origin_);
  }
  const Match match = match_route(route_table(), *request_);
  if (match.route == nullptr && match.allowed.empty()) {
    return refuse(Problem::kNotFound, "there is nothing at " + request_->path,
                  "/api/v1/openapi.json lists every route of this coordinator, " SHOAL_VERSION);
  }
  if (match.route == nullptr) {
    const std::string allow = joined(match.allowed);
    Response response = problem_response(Problem::kMethodNotAllowed, *request_,
                                         request_->path + " does not take " + request_->method, {},
                                         "it takes " + allow);
    response.headers.emplace_back("Allow", allow);
    respond(std::move(response));
    return false;
  }
  route_ = match.route;
  if (!line_admitted() || !caller_admitted()) return false;
  if (route_->any_query) return true;
  const Status known = check_query_names(*request_, route_->query);
  if (known.ok()) return true;
  respond(problem_response(known.error(), *request_));
  return false;
}

// Probes are answered whatever else the client does.
bool Connection::within_share() {
  if (is_probe(request_->path)) return true;
  if (visit_.for_probes()) {
    respond(problem_response(Problem::kOverloaded, *request_,
                             "too many connections from this client, or in total", {},
                             "close some; until then only probes are answered"));
    return false;
  }
  if (visit_.take_request(steady_ns())) return true;
  respond(
      problem_response(Problem::kTooManyRequests, *request_, "too many requests from this client"));
  return false;
}

bool Connection::line_admitted() {
  const Status may = check_line({.from_this_host = stream_->is_from_this_host(),
                                 .over_tls = stream_->is_tls(),
                                 .for_proof = route_->access.door == Door::kProof,
                                 .clear_allowed = service_.options.clear_allowed});
  if (!may.ok()) respond(problem_response(may.error(), *request_));
  return may.ok();
}

bool Connection::caller_admitted() {
  const Status may = admit_caller(service_.options.people, *route_, *request_);
  if (may.ok()) return true;
  Response response = problem_response(may.error(), *request_);
  if (may.error().code == Code::kUnauthenticated)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  respond(std::move(response));
  return false;
}

void Connection::dispatch() {
  if (!route_->on_io_thread) return ask_worker();
  respond(guarded(*request_,
                  [&] { return route_->answer(service_.io_context_of_handlers, *request_); }));
}

void Connection::ask_worker() {
  Replier reply = audited(service_.options.people, *route_, request_, make_reply());
  // The timer also keeps this connection alive while only weak references wait for the answer.
  answer_timer_.expires_after(chrono(service_.options.answer_limit));
  answer_timer_.async_wait([self = shared_from_this(), number = answer_number_](ErrorCode error) {
    if (!error) self->on_answer_late(number);
  });
  const bool accepted =
      service_.workers->post([route = route_, request = request_, reply](Context& context) {
        const Status may = check_owner(context, *route, *request);
        if (!may.ok()) return reply(problem_response(may.error(), *request));
        if (route->answer != nullptr)
          return reply(guarded(*request, [&] { return route->answer(context, *request); }));
        try {
          route->answer_later(context, *request, reply);
        } catch (const std::exception& error) {
          spdlog::error("{} {}: {}", request->id, request->path, error.what());
          reply(problem_response(Problem::kInternal, *request, error.what()));
        }
      });
  if (!accepted)
    on_answer(answer_number_, problem_response(Problem::kOverloaded, *request_,
                                               "too many requests wait for an answer"));
}

Replier Connection::make_reply() {
  awaiting_ = true;
  return [service = service_.weak_from_this(), weak = weak_from_this(),
          number = ++answer_number_](Response response) {
    const auto alive = service.lock();  // destroyed after the connection below
    const auto self = alive ? weak.lock() : nullptr;
    if (!self) return;
    net::post(self->executor_, [self, number, response = std::move(response)]() mutable {
      self->on_answer(number, std::move(response));
    });
  };
}

void Connection::on_answer(std::uint64_t number, Response response) {
  if (!awaiting_ || number != answer_number_) return;  // it came after its time limit
  awaiting_ = false;
  answer_timer_.cancel();
  respond(std::move(response));
}

// The answer may have come while this call was already queued.
void Connection::on_answer_late(std::uint64_t number) {
  if (!awaiting_ || number != answer_number_) return;
  const auto limit_s = static_cast<int>(service_.options.answer_limit.seconds());
  on_answer(number, problem_response(Problem::kTimedOut, *request_,
                                     "no answer within " + std::to_string(limit_s) + " s"));
}

void Connection::respond(Response response) {
  if (response.stream && service_.streams.load() >= service_.options.streams_max) {
    response = problem_response(
        Problem::kOverloaded, *request_,
        "all " + std::to_string(service_.options.streams_max) + " event streams are in use");
  }
  if (response.stream && !visit_.take_stream()) {
    response =
        problem_response(Problem::kOverloaded, *request_, "too many event streams for this client");
  }
  note_refusal(service_.refusals(), route_, *request_, response, client());
  service_.metrics.request_done(verb_, route_ != nullptr ? route_->path : "unmatched",
                                response.status);
  if (response.stream && !head_only_) return start_stream(std::move(response));
  std::string text = head_of(response, !keep_alive_);
  if (!head_only_ && response.status != 304) {
    text += response.body;
    file_ = std::move(response.file);
  }
  write(std::move(text), &Connection::on_written);
}

std::string Connection::client() const {
  ErrorCode error;
  const auto end = stream_->socket().remote_endpoint(error);
  return client_of(end.address().to_string(), stream_->is_from_this_host());
}

void Connection::start_stream(Response response) {
  std::string head = head_of(response, true);
  visit_.release_body();
  stream_->lowest().expires_never();
  auto stream = std::make_shared<EventStream>(std::move(stream_), service_, std::move(slot_),
                                              std::move(visit_), std::move(*response.stream));
  service_.track(stream);
  if (service_.stopping) stream->stop();  // stop_peers() may have passed already
  stream->run(std::move(head));
}

std::string Connection::head_of(const Response& response, bool closing) const {
  const auto reason =
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " + text_of(reason) + "\r\n";
  const auto add = [&text](std::string_view name, std::string_view value) {
    text.append(name).append(": ").append(value).append("\r\n");
  };
  add("Server", "shoal");
  add("X-Request-Id", request_->id);
  add("X-Content-Type-Options", "nosniff");
  add("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'");
  add("Referrer-Policy", "no-referrer");
  bool caching = false;
  for (const auto& [name, value] : response.headers) {
    add(name, value);
    caching = caching || name == "Cache-Control";
  }
  if (!caching) add("Cache-Control", "no-store");
  if (response.status != 204 && response.status != 304) {
    add("Content-Type", response.content_type);
    if (!response.stream) {
      add("Content-Length",
          std::to_string(response.file ? response.file->length
                                       : static_cast<std::int64_t>(response.body.size())));
    }
  }
  add("Connection", closing ? "close" : "keep-alive");
  return text + "\r\n";
}

// The next chunk is read on the file thread, so that a slow disk stops nobody else.
void Connection::write_file_chunk() {
  if (file_->length == 0) {
    file_.reset();
    return on_written();
  }
  const bool accepted =
      service_.files->post([self = shared_from_this(), part = *file_](FileScratch&) {
        std::string chunk(static_cast<std::size_t>(std::min(part.length, kFileChunk)), '\0');
        const ssize_t got = ::pread(*part.descriptor, chunk.data(), chunk.size(), part.offset);
        chunk.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        net::post(self->executor_, [self, chunk = std::move(chunk)]() mutable {
          if (chunk.empty())
            return self->close();  // shorter than promised: the client sees a broken body
          self->file_->offset += static_cast<std::int64_t>(chunk.size());
          self->file_->length -= static_cast<std::int64_t>(chunk.size());
          self->write(std::move(chunk), &Connection::write_file_chunk);
        });
      });
  if (!accepted) close();
}

void Connection::write(std::string text, void (Connection::*next)()) {
  out_ = std::move(text);
  stream_->lowest().expires_after(chrono(service_.options.write_limit));
  net::async_write(*stream_, net::buffer(out_),
                   [self = shared_from_this(), next](ErrorCode error, std::size_t) {
                     self->out_ = std::string();
                     if (error) return self->close();
                     ((*self).*next)();
                   });
}

void Connection::on_written() {
  if (file_) return write_file_chunk();
  if (request_at_ns_ != 0 && route_ != nullptr)
    service_.metrics.request_took(verb_, route_->path, nanoseconds(steady_ns() - request_at_ns_));
  request_at_ns_ = 0;
  if (keep_alive_) return read_next();
  if (!unread_body_) return close();
  stream_->shutdown_send();
  stream_->lowest().expires_after(chrono(kLingerLimit));
  linger();
}

void Connection::linger() {
  buffer_.consume(buffer_.size());
  stream_->async_read_some(buffer_.prepare(4096),
                           [self = shared_from_this()](ErrorCode error, std::size_t n) {
                             self->lingered_ += n;
                             if (error || self->lingered_ > kLingerMax) return self->close();
                             self->linger();
                           });
}

void Connection::close() {
  awaiting_ = false;
  answer_timer_.cancel();
  if (!stream_) return;
  ErrorCode ignored;
  stream_->socket().shutdown(http_io::tcp::socket::shutdown_both, ignored);
  stream_->socket().close(ignored);
  parser_.reset();
}

}  // namespace shoal::coordinator::rest
