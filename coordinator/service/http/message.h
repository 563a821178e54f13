// A request and its answer as plain values: what handlers see. No socket and no Beast in here, so a
// handler can be read and tested without either. An answer has a body, or a part of a file, or
// turns its connection into an event stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "coordinator/service/people/people.h"
#include "coordinator/store/reader.h"

namespace shoal::coordinator::rest {

using Json = nlohmann::ordered_json;

struct Request {
  std::string method;                                      // "GET"; HEAD arrives as GET
  std::string path;                                        // as sent, without the query
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order
  std::vector<std::pair<std::string, std::string>>
      parts;  // of the route template: {"job", "job_7"}
  std::string content_type, accept, accept_encoding, range, if_range, if_none_match, last_event_id;
  std::string authorization, cookie;
  std::string body;
  std::string id;         // X-Request-Id
  Principal principal;    // who asks; without a name on a route that needs no login
  bool is_secure = true;  // the connection is TLS: the cookie may say so

  // Empty when absent.
  const std::string& part(std::string_view name) const;
  const std::string* query_value(std::string_view name) const;  // the last one; null when absent
};

// Bytes [offset, offset + length) of an open file. The descriptor closes with its last owner.
struct FilePart {
  std::shared_ptr<const int> descriptor;
  std::int64_t offset = 0, length = 0;
};

struct StreamStart {
  EventFilter filter;
  std::int64_t after = 0;                // seq of the last event that the client has
  bool reset = false;                    // tell it that events between were lost
  bool ndjson = false;                   // else SSE
  std::function<bool()> may_go_on = {};  // false: the login of the reader has ended; null: always
};

// The entry of the audit trail for a request that changed something (audit.h) or was refused
// (refusal.h). The rest follows from the route and the principal.
struct Audited {
  std::string object;            // id of what was changed; empty: the parts of the path
  std::string before, after;     // of a refused one `after` is the reason
  std::string principal, token;  // empty: those of the request
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<FilePart> file;
  std::optional<StreamStart> stream;
  Audited audited;
  // Objects that the request names and that exist, but that the principal may not use: "ckpt_3 of
  // ada". The body answers as if they did not exist; note_refusal() counts and tells them.
  std::string forbidden = {};
};

// Text that is not UTF-8 (a detail from a foreign process) is replaced, never thrown; NaN becomes
// null.
std::string to_text(const Json& json, bool pretty = false);
Response json_response(const Json& json, int status = 200);

}  // namespace shoal::coordinator::rest
