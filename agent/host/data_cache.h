// Contents on this host's disk under their SHA-256, so that what a job reads again is not fetched
// again: chunks of datasets, their manifests and lists of hashes. One file each, in
// <folder>/<first two digits>/<hash>. Together they are never larger than the limit; what was used
// longest ago goes first.
//
// Nothing is trusted: a content is compared with its hash whenever it is read, and a file that was
// cut or changed is as good as none. So files are not synced, and a torn one costs one fetch.
//
// Threads: all methods may be called by any thread.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "threads/mutex.h"

namespace shoal::agent {

class DataCache {
 public:
  // Takes over what is in the folder, the newest files first, as far as the limit goes; the rest is
  // removed. A limit of 0 keeps nothing.
  static Result<std::unique_ptr<DataCache>> open(std::string folder, Bytes limit);

  // None: it is not here, or no longer what it was.
  std::optional<std::string> get(const std::string& sha256);
  // `content` has this hash. What the disk does not take is not kept.
  void put(const std::string& sha256, const std::string& content);

  Bytes used() const;
  std::int64_t damaged() const;  // files that were found to be damaged since the start

 private:
  struct Entry {
    Bytes size;
    std::list<std::string>::iterator place;  // in uses_
  };

  DataCache(std::string folder, Bytes limit) : folder_(std::move(folder)), limit_(limit) {}
  Status take_stock() SHOAL_EXCLUDES(mutex_);
  std::string path_of(const std::string& sha256) const {
    return folder_ + "/" + sha256.substr(0, 2) + "/" + sha256;
  }
  bool make_room(Bytes wanted) SHOAL_REQUIRES(mutex_);
  void forget(const std::string& sha256) SHOAL_REQUIRES(mutex_);
  void remember(const std::string& sha256, Bytes size) SHOAL_REQUIRES(mutex_);

  const std::string folder_;
  const Bytes limit_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ SHOAL_GUARDED_BY(mutex_);
  std::list<std::string> uses_ SHOAL_GUARDED_BY(mutex_);  // the latest last
  Bytes used_ SHOAL_GUARDED_BY(mutex_);
  std::int64_t damaged_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal::agent
