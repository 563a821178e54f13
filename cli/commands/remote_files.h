// Shards that lie elsewhere, for `shoal dataset add`: behind a URL, or in a bucket of an S3 API
// (s3://BUCKET/KEY?endpoint=…), which the person's own key reads. They are read once, to be hashed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "objects/http.h"

namespace shoal::cli {

bool is_remote(const std::string& file);  // a URL of http(s) or s3

// "web-0.bin": the last part of a path or a URL, without its query.
std::string last_part(const std::string& file);

class RemoteFiles {
 public:
  // `credentials`: file with the key of buckets; empty: the environment.
  explicit RemoteFiles(std::string credentials) : credentials_(std::move(credentials)) {}

  // With s3://BUCKET/PREFIX/?… replaced by the objects beneath it, by their names. kNotFound: there
  // are none.
  Result<std::vector<std::string>> expanded(const std::vector<std::string>& files) const;
  // kValidation: the server does not say it.
  Result<std::int64_t> size(const std::string& file) const;
  // All of its `size` bytes, in order; kDataLoss: it has another length, or changed meanwhile.
  Status read(const std::string& file, std::int64_t size, const objects::Client::Sink& sink) const;

 private:
  std::string credentials_;
};

}  // namespace shoal::cli
