// The object stores that shards of datasets may lie in (--data-store). Only the coordinator has
// their key: agents read by URLs that are signed here, each for one object and a while. A URL of a
// shard is s3://BUCKET/KEY?endpoint=…, and only what lies beneath the prefix of one of these stores
// is signed, so that nobody reads more with our key than its operator meant.
//
// Threads: all methods may be called by any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "objects/credentials.h"
#include "objects/location.h"

namespace shoal::coordinator {

class DataStores {
 public:
  static constexpr Duration kLife = seconds(3'600);  // of what is signed

  DataStores() = default;  // none: no shard may lie in an object store
  DataStores(std::vector<objects::Location> stores,
             std::shared_ptr<objects::CredentialSource> credentials)
      : stores_(std::move(stores)), credentials_(std::move(credentials)) {}

  // A shard's URL, which may be one of http(s), too. kValidation: it lies in no store of ours.
  Status check(const std::string& url) const;
  // Signs one that check() takes, in a store. Errors are those of the credentials, too.
  Result<std::string> sign(const std::string& url) const;

 private:
  struct Found {
    const objects::Location& store;
    std::string key;
  };
  Result<Found> find(const std::string& url) const;

  std::vector<objects::Location> stores_;
  std::shared_ptr<objects::CredentialSource> credentials_;
};

}  // namespace shoal::coordinator
