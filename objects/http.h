// Requests over HTTP, one at a time, over libcurl: what object stores, data sets behind a URL and
// collectors are reached with.
//
// Every request has a deadline for the connection and for silence, and is tried again while that
// can help (no connection, 408, 429, 5xx, an interrupted answer), with back-off and jitter. A
// GET continues behind what came; its bytes go to a sink, so that memory does not grow with the
// object. Redirects are followed for GET and HEAD only, a few, each checked (reach.h); the headers
// of the request go to the first host alone.
//
// What was asked for and how much came is in an error; a query never is, as it may be a secret.
//
// Threads: any number may use one client at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "objects/reach.h"

namespace shoal::objects {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Patience {
  Duration connect = seconds(10);
  Duration silence = seconds(30);  // a request in which nothing moves for so long has failed
  int tries = 5;                   // without movement in between
  Duration pause_first = milliseconds(200), pause_max = seconds(10);
};

struct ClientOptions {
  Reach reach;
  Patience patience;
  std::string user_agent = "shoal";
  std::string ca_file;  // of certificates to trust; empty: those of the system
  // What the body of a refusal says, in few words; null: its status has to do.
  std::function<std::string(std::string_view body)> reason = {};
  std::function<void()> on_retry = {};  // a request is tried again; on the thread that sends it
};

// What a request sends. `read` fills its span from byte `offset` on, whole but at the end; it is
// called again from the beginning when the request is tried again.
struct Body {
  Bytes size;
  std::function<Status(std::int64_t offset, std::span<std::byte> into)> read;
};
Body body_of(std::string text);
// `size` bytes of a file from `offset` on. The descriptor must stay open.
Body body_of_file(int descriptor, std::int64_t offset, Bytes size);

struct Request {
  std::string method = "GET";  // GET, HEAD, PUT, POST or DELETE
  std::string url;
  Headers headers;
  std::optional<Body> body;
  std::function<void(Bytes moved)> on_moved = {};  // about once a second, of the body sent
};

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // of at most kAnswerMax
  const std::string* header(const std::string& name) const;
};

// A 2xx is ok; other statuses are errors: kNotFound (404, 410), kPermissionDenied (401, 403),
// kConflict (409, 412), kResourceExhausted (413, 507), kUnavailable (408, 429, 5xx, no connection),
// kDeadlineExceeded (silence), kInvalidArgument (other 4xx), kIncompatible (a redirect that is not
// followed). kCancelled: stop(), or the sink said so.
class Client {
 public:
  static constexpr std::size_t kAnswerMax = std::size_t{4} << 20;
  static constexpr int kRedirectsMax = 5;
  static constexpr std::size_t kIdleMax = 16;  // connections kept for the next request

  using Sink = std::function<bool(std::span<const std::byte>)>;  // false: stop

  explicit Client(ClientOptions options);
  ~Client();

  // For small answers. Makes a new `request` for each try, because signatures age.
  Result<Answer> send(const std::function<Result<Request>()>& make) const;
  Result<Answer> send(const Request& request) const;

  // Bytes `from` to `from + size` of what lies there, in order. Without `size`: to the end.
  // kDataLoss: the object is shorter, or another length than `whole` says, where that is given; it
  // changed meanwhile (its ETag); or the server does not answer ranges. The answer is that of the
  // last part, without a body.
  struct Range {
    Bytes from;
    std::optional<Bytes> size = {}, whole = {};
  };
  Result<Answer> get(const std::function<Result<Request>()>& make, const Range& range,
                     const Sink& sink) const;
  Result<Answer> get(const Request& request, const Range& range, const Sink& sink) const;

  // Ends what is under way within a second, and every later request at once: kCancelled.
  void stop() { stop_.request_stop(); }

  const ClientOptions& options() const { return options_; }

 private:
  class Pool;
  class Exchange;
  Status try_again_while_it_helps(const std::function<Status()>& once,
                                  const std::function<Bytes()>& moved) const;

  const ClientOptions options_;
  const std::unique_ptr<Pool> pool_;
  std::stop_source stop_;
};

// None: the header is missing or no size.
std::optional<Bytes> content_length(const Answer& answer);

}  // namespace shoal::objects
