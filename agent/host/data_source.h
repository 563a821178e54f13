// What trainers read of datasets: out of the cache, or fetched from where the coordinator has it
// and verified by the hashes that the dataset's manifest lists. Errors name shard and byte.
//
// A manifest is trusted by its hash, which is the job's; a list of hashes by that of the manifest,
// and a chunk by that of the list. So nothing in between, the disk included, is believed.
//
// Threads: read() waits for the network. What two threads want at the same time is fetched once.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "agent/host/data_cache.h"
#include "base/ids.h"
#include "base/result.h"
#include "data/manifest.h"
#include "threads/mutex.h"

namespace shoal::agent {

// A part of a file for a replica of this agent.
struct FileRange {
  ReplicaId replica;
  std::string sha256;                // of the whole file
  std::int64_t from = 0, count = 0;  // count 0: to its end
  std::string url = {};              // where it is read; empty: the coordinator has it
  std::int64_t whole = 0;            // with a URL: bytes of the whole file
};
// kUnavailable: try again later.
using FetchRange = std::function<Result<std::string>(const FileRange&)>;

class DataSource {
 public:
  // In place of a shard: the manifest, and the tokenizer that it names.
  static constexpr std::int64_t kManifest = -1, kTokenizer = -2;

  // `cache` must outlive it.
  DataSource(DataCache& cache, FetchRange fetch) : cache_(cache), fetch_(std::move(fetch)) {}

  // The manifest itself, its tokenizer, or a chunk of a shard of it. kNotFound: the manifest has
  // none.
  // kDataLoss: what came has another hash than was promised.
  Result<std::string> read(ReplicaId replica, const std::string& manifest, std::int64_t shard,
                           std::int64_t chunk);

  std::int64_t fetched_bytes() const;  // since the start

 private:
  using Manifest = std::shared_ptr<const data::Manifest>;

  Result<Manifest> manifest_of(ReplicaId replica, const std::string& sha256) SHOAL_EXCLUDES(mutex_);
  // Out of the cache, or fetched as `range` says; `where` begins the errors.
  Result<std::string> content(const std::string& sha256, const FileRange& range,
                              const std::string& where) SHOAL_EXCLUDES(mutex_);
  void begin(const std::string& sha256) SHOAL_EXCLUDES(mutex_);
  void end(const std::string& sha256, Bytes fetched) SHOAL_EXCLUDES(mutex_);

  DataCache& cache_;
  const FetchRange fetch_;
  mutable Mutex mutex_;
  CondVar ended_;
  std::set<std::string> under_way_ SHOAL_GUARDED_BY(mutex_);
  std::list<std::pair<std::string, Manifest>> manifests_ SHOAL_GUARDED_BY(mutex_);  // in use
  Bytes fetched_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::agent
