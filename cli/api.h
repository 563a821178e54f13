// The REST API of one coordinator as the commands use it: JSON in, JSON out, errors already worded.
// Objects are passed on as the server sent them; no command depends on a field that it does not
// show.
#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "cli/api_errors.h"
#include "cli/http_client.h"

namespace shoal::cli {

using Json = nlohmann::ordered_json;

// How one shows who one is.
struct Credentials {
  std::string token;           // empty: none
  std::string ca;              // file with the coordinator's CA; empty: the system's
  bool clear_allowed = false;  // the token may travel over plain HTTP to another host
  Status problem = {};         // why there are none; every call fails with it
};

class Api {
 public:
  // "http://host:port", "host:port" or ":port" (then 127.0.0.1). What check_origin() refuses is
  // refused by every call. With the version of this binary, refusals by a coordinator of another
  // one say so (versions.h).
  explicit Api(const std::string& address, std::string own_version = {},
               Credentials credentials = {});

  const std::string& origin() const { return origin_; }
  bool is_loopback() const;

  // Paths start with '/' and lie under /api/v1.
  Result<Json> get(const std::string& path) const;
  Result<Json> post(const std::string& path, const std::string& body,
                    const std::string& content_type, const Locate& locate = {}) const;
  Result<Json> remove(const std::string& path) const;  // DELETE
  Result<Json> put(const std::string& path, const std::string& bytes) const;
  Result<Json> patch(const std::string& path, const Json& change) const;
  // {"items": […]} of all pages, at most `max` items (0: all).
  Result<Json> list(const std::string& path, std::size_t max = 0) const;
  // Appends a file's bytes from `from` on to the sink.
  Status download(const std::string& path, std::int64_t from, const HttpSink& sink) const;
  // Server-sent events until the sink says stop or the connection ends: (id, data). Blocks.
  Status follow(
      const std::string& path, const std::string& last_id,
      const std::function<bool(const std::string& id, const std::string& data)>& sink) const;
  // A path outside /api/v1 (probes); true when the answer is 2xx.
  bool answers(const std::string& absolute_path) const;

 private:
  Result<Json> send_body(const char* method, const std::string& path, const std::string& body,
                         const std::string& content_type, const Locate& locate) const;
  Result<Json> parsed(const HttpResponse& response, const Locate& locate) const;
  Error with_versions(Error error) const;
  Result<HttpResponse> exchange(const HttpRequest& request, const HttpSink& sink = {}) const;
  std::string url(const std::string& path) const { return origin_ + "/api/v1" + path; }
  Status check_line() const;
  std::string origin_, own_version_;
  Credentials credentials_;
};

// "http://host:port": a host and a port have to be there. Port 80 is never meant by who leaves it
// out; of https, which only a proxy speaks, 443 is.
Status check_origin(const std::string& origin);

// Fields that may be missing, with control characters written down (base/wire_text.h): a text, a
// number, an object on the way "status/progress/inner_step".
const Json* at_path(const Json& object, std::string_view slashed_path);
std::string text_at(const Json& object, std::string_view slashed_path, std::string fallback = "-");
double number_at(const Json& object, std::string_view slashed_path, double fallback = 0);

}  // namespace shoal::cli
