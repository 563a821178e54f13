// HTTP for the command line: one request at a time over libcurl, with a deadline on everything. A
// response of any status is a success here; api.h knows what the statuses mean. A 307 is followed
// once, to the object store that has a checkpoint's file. Ctrl-C ends a
// request early with kCancelled once terminal.h catches it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shoal::cli {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::string body;
  std::string content_type;  // of the body, empty ones too; none: without a body
  std::string accept = "application/json";
  std::int64_t range_from = 0;  // above 0: ask for the rest of the file
  std::string last_event_id;
  std::string token;            // shown as "Authorization: Bearer"; empty: none
  std::string ca;               // file with the CAs that are believed, PEM; empty: the system's
  std::string proxy;            // http(s)://host:port; empty: none, whatever the environment says
  double silence_limit_s = 30;  // no byte for that long ends the request
};

struct HttpResponse {
  int status = 0;
  std::string body;  // at most 64 MiB; empty when a sink took it
  std::string content_type;
};

// Takes bytes as they come; false ends the request without an error.
using HttpSink = std::function<bool(int status, std::string_view bytes)>;

// kUnavailable: nobody answers there. kDeadlineExceeded: silence. kCancelled: Ctrl-C.
Result<HttpResponse> send(const HttpRequest& request, const HttpSink& sink = {});

// SHOAL_OUTBOUND_PROXY: towards object stores and URLs of datasets; empty: none.
std::string outbound_proxy();

// "%2F" and friends, for one path segment or query value.
std::string url_escape(std::string_view text);

}  // namespace shoal::cli
