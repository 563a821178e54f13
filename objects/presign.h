// Requests to an S3 API that carry their own right in their query: AWS Signature Version 4, query
// parameters, of "UNSIGNED-PAYLOAD" (Amazon S3 API Reference, "Authenticating Requests: Using Query
// Parameters"). Everything that Shoal asks of a bucket is signed like this, by the coordinator or
// by agents to whom it hands such a URL.
//
// libcurl's CURLOPT_AWS_SIGV4 signs headers only, so it can hand out nothing; and that of 7.88
// does not sort the query, which the signature needs.
//
// Pure: the time is given.
#pragma once

#include <map>
#include <string>

#include "base/time.h"
#include "objects/location.h"

namespace shoal::objects {

struct Credentials {
  std::string key_id, secret, session_token;  // the last: only temporary ones have it
};

struct ToSign {
  std::string method;
  std::string key;                             // of the object; empty: the bucket
  std::map<std::string, std::string> query;    // as "partNumber"
  std::map<std::string, std::string> headers;  // in lower case; must be sent exactly like this
  Duration life;                               // from `now` on; at most 7 days
};

// The whole URL, with its signature.
std::string presign(const Location& location, const Credentials& credentials, const ToSign& request,
                    Instant now);

}  // namespace shoal::objects
