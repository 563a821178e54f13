// Chunks of datasets in memory, by number: read by whoever asks first, or ahead by threads of its
// own. What was used longest ago goes when it gets too much. A chunk that could not be read ahead
// is read again when somebody asks for it, who then hears why.
//
// Threads: any thread may call any method.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "threads/mutex.h"

namespace shoal::data {

using Chunk = std::shared_ptr<const std::string>;

class ChunkMemory {
 public:
  using Read = std::function<Result<std::string>(std::int64_t number)>;
  static constexpr std::size_t kAheadMax =
      256;  // that wait to be read ahead; the oldest are dropped
  static constexpr int kThreads = 4;

  ChunkMemory(Read read, Bytes most);
  ~ChunkMemory();  // waits for the reads that are under way
  ChunkMemory(const ChunkMemory&) = delete;
  ChunkMemory& operator=(const ChunkMemory&) = delete;

  Result<Chunk> get(std::int64_t number) SHOAL_EXCLUDES(mutex_);
  bool has(std::int64_t number) const SHOAL_EXCLUDES(mutex_);  // or it is being read
  void read_ahead(const std::vector<std::int64_t>& numbers) SHOAL_EXCLUDES(mutex_);

 private:
  struct Entry {
    Chunk chunk;  // null: it is being read
    std::list<std::int64_t>::iterator place = {};
  };
  void run() SHOAL_EXCLUDES(mutex_);
  Result<Chunk> read_now(std::int64_t number) SHOAL_EXCLUDES(mutex_);
  void keep(std::int64_t number, Chunk chunk) SHOAL_REQUIRES(mutex_);

  const Read read_;
  const Bytes most_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::int64_t, Entry> entries_ SHOAL_GUARDED_BY(mutex_);
  std::list<std::int64_t> uses_ SHOAL_GUARDED_BY(mutex_);  // the latest last
  std::deque<std::int64_t> ahead_ SHOAL_GUARDED_BY(mutex_);
  Bytes kept_ SHOAL_GUARDED_BY(mutex_);
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace shoal::data
