// One HTTP/1.1 connection: reads a request within its limits, has it answered, writes the answer,
// and reads the next one. At most one request is in work; a pipelined one waits in the buffer. An
// idle connection holds no body, no parser results and a read buffer of half a kilobyte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/service/http/asio.h"
#include "coordinator/service/http/either_stream.h"
#include "coordinator/service/http/message.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/router.h"
#include "coordinator/service/http/service.h"

namespace shoal::coordinator::rest {

class Connection : public Peer, public std::enable_shared_from_this<Connection> {
 public:
  Connection(http_io::tcp::socket socket, Service& service, ClientLimits::Visit visit);

  void run();  // once, after track()
  void stop() override;

 private:
  using ErrorCode = boost::system::error_code;

  void detect();  // TLS or plain HTTP
  void read_next();
  void on_header(ErrorCode error);
  void read_body();
  void on_body(ErrorCode error);
  void refuse_unread(ErrorCode error);                    // the request could not be read
  void refuse_head(Problem problem, std::string detail);  // it is not read any further
  Duration read_limit() const;
  Bytes announced_body() const;
  void take_request();
  void answer_options();
  bool admitted();         // false: refused and answered
  bool within_share();     // the same: what this client may take (client_limits.h)
  bool line_admitted();    // the same: whether a secret may travel on this connection
  bool caller_admitted();  // the same: who asks
  void dispatch();
  void ask_worker();
  Replier make_reply();
  void on_answer(std::uint64_t number, Response response);
  void on_answer_late(std::uint64_t number);
  void respond(Response response);
  std::string client() const;  // client_of() it
  void start_stream(Response response);
  std::string head_of(const Response& response, bool closing) const;
  void write_file_chunk();
  void write(std::string text, void (Connection::*next)());
  void on_written();
  void linger();  // let the client read an answer that came before its whole body
  void close();

  const EitherStream::executor_type executor_;
  std::unique_ptr<EitherStream> stream_;  // moves on to the event stream
  Service& service_;
  Service::Slot slot_;         // moves on to the stream
  ClientLimits::Visit visit_;  // likewise
  http_io::beast::flat_buffer buffer_;
  std::optional<http_io::http::request_parser<http_io::http::string_body>> parser_;
  http_io::net::steady_timer answer_timer_;

  std::shared_ptr<Request> request_;
  const Route* route_ = nullptr;
  std::string host_, origin_;
  std::string verb_ = "other";  // label of the metrics
  bool head_only_ = false, keep_alive_ = false, unread_body_ = false;
  bool first_ = true, idle_ = false;
  std::uint64_t answer_number_ = 0;  // of the request in work
  bool awaiting_ = false;
  std::int64_t request_at_ns_ = 0;
  std::size_t lingered_ = 0;

  std::optional<FilePart> file_;  // what is left of it
  std::string out_;
};

}  // namespace shoal::coordinator::rest
