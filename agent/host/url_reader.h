// Shards of datasets that lie elsewhere: behind a URL of http or https, whose addresses the host's
// operator bounds (objects/reach.h), or in an object store (s3://…), read by a URL that the
// coordinator has signed and that is used until it ends.
//
// What is not what the dataset says is an error: another length, no ranges, a redirect to a private
// address. Whether the bytes are the right ones is for the caller, who has their hash.
//
// Threads: any; read() waits for the network.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "agent/host/data_source.h"
#include "base/time.h"
#include "objects/http.h"
#include "threads/mutex.h"

namespace shoal::agent {

struct SignedUrl {
  std::string url;
  Duration valid;
};
// Asks the coordinator where the file of a range is read.
using SignUrl = std::function<Result<SignedUrl>(const FileRange&)>;

class UrlReader {
 public:
  static constexpr std::size_t kSignedMax = 4'096;  // URLs that are kept

  // An object store is named by `sign`, so it is reached in whatever network it is.
  UrlReader(const objects::Reach& reach, SignUrl sign, const objects::Patience& patience = {});

  // kUnavailable: it may work later. Other errors are those of objects/http.h.
  Result<std::string> read(const FileRange& range) SHOAL_EXCLUDES(mutex_);
  void stop();  // ends what is under way, and later reads at once

 private:
  struct Kept {
    std::string url;
    Instant until;
  };
  Result<std::string> read_signed(const FileRange& range) SHOAL_EXCLUDES(mutex_);
  Result<std::string> signed_url(const FileRange& range) SHOAL_EXCLUDES(mutex_);
  static Result<std::string> get(const objects::Client& client, const std::string& url,
                                 const FileRange& range);

  const SignUrl sign_;
  objects::Client web_, stores_;
  Mutex mutex_;
  std::map<std::string, Kept> kept_ SHOAL_GUARDED_BY(mutex_);  // by the SHA-256 of the file
};

}  // namespace shoal::agent
