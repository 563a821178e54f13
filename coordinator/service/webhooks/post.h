// One POST to a receiver of events, over libcurl. Redirects are not followed: what a receiver
// answers decides nothing but whether the event was taken.
//
// Threads: any; each call blocks for `limit` at most.
#pragma once

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace shoal::coordinator {

struct Post {
  std::string url, body;  // JSON
  std::vector<std::pair<std::string, std::string>> headers;
  Duration limit = seconds(10);
};

// kValidation: no URL of https, or of http while `clear_allowed`; with name and password in it.
// Plain http to loopback is always allowed.
Status check_webhook_url(const std::string& url, bool clear_allowed);

// Ok when the answer's status is 2xx. kUnavailable: another status, which is named, or no answer;
// also about a second after `stop` was requested.
Status send(const Post& post, const std::stop_token& stop = {});

}  // namespace shoal::coordinator
