// Where a bucket of an S3 API is, as people write it:
// s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION&style=path|host&part_mib=N. Without
// an endpoint it is Amazon's, of the region. Pure.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"

namespace shoal::objects {

struct Location {
  std::string bucket;
  std::string prefix;    // "a/b/", or empty
  std::string endpoint;  // "https://s3.eu-central-1.amazonaws.com"
  std::string region = "us-east-1";
  bool in_path = true;         // ENDPOINT/BUCKET/KEY; else BUCKET.ENDPOINT/KEY
  Bytes part = mebibytes(16);  // of multipart uploads; larger where 10,000 would not do
  bool operator==(const Location&) const = default;
};

// kValidation, with `field`: what is wrong, and what would do.
Result<Location> read_location(const std::string& text, const std::string& field);

// One object: s3://BUCKET/KEY?endpoint=…, as above.
struct ObjectPlace {
  Location location;  // of the bucket, without a prefix
  std::string key;
};
bool is_object(const std::string& text);  // begins as one
Result<ObjectPlace> read_object(const std::string& text, const std::string& field);

// "s3://bucket/prefix/key": what logs and messages say.
std::string shown(const Location& location, const std::string& key);

// The URL of an object, or of the bucket for an empty key, without a query; everything is encoded.
std::string url_of(const Location& location, const std::string& key);

// As RFC 3986 has it: letters, digits and "-._~" stay, and "/" where `slashes` says so.
std::string percent_encoded(const std::string& text, bool slashes);

}  // namespace shoal::objects
