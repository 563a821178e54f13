// The code of jobs on this host, each bundle unpacked in a folder of its hash (program_launch.h).
// It is fetched from the coordinator piece by piece on one thread, and compared with its hash
// before anything is unpacked; the unpacked files are read-only. An interrupted fetch continues
// behind what was received, even after a restart of the agent.
//
// The kKeptMax newest bundles stay, even when no replica needs them any more.
#pragma once

#include <deque>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "agent/core/io.h"
#include "agent/host/coordinator_link.h"
#include "threads/mutex.h"

namespace shoal::agent {

class CodeStore {
 public:
  using Post = std::function<void(Input)>;  // any thread
  // Bytes of a file of the coordinator's store from an offset on, of at most `count`; empty: it
  // ends there.
  using Read = std::function<Result<std::string>(const FetchCode& effect, Bytes from, Bytes count,
                                                 const std::stop_token& stop)>;

  static constexpr std::size_t kKeptMax = 8;
  static constexpr std::size_t kQueueMax = 64;  // the core asks once for each code
  // Asked for at a time: 26 s at 10 kB/s. More where the line is fast.
  static constexpr Bytes kPieceMin = Bytes(256 << 10), kPieceMax = mebibytes(8);

  // `folder` belongs to the agent. The store's thread calls `read`, which must end within a bounded
  // time, and at once when it is told to stop.
  CodeStore(std::string folder, Read read, Post post);
  ~CodeStore();  // cancels what runs

  // Answered by CodeFetched or CodeFetchFailed, with CodeFetchMoved before.
  void fetch(const FetchCode& effect) SHOAL_EXCLUDES(mutex_);

 private:
  void run(const std::stop_token& stop) SHOAL_EXCLUDES(mutex_);
  Status provide(const FetchCode& effect, const std::stop_token& stop);
  Status receive(const FetchCode& effect, const std::string& file, const std::stop_token& stop);
  Status unpack(const FetchCode& effect, const std::string& file);
  void remove_others(const FetchCode& effect) const;

  const std::string folder_;
  const Read read_;
  const Post post_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<FetchCode> queue_ SHOAL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the others
};

// What asks the coordinator. A piece that takes longer than `limit` has failed.
CodeStore::Read read_from(CoordinatorEndpoint endpoint, Duration limit);

}  // namespace shoal::agent
