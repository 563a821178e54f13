// Threads that answer streams which peers open: each stream has one for as long as it is answered.
// Threads are begun when they are needed and stay; streams wait for one, and too many are refused.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/result.h"
#include "threads/mutex.h"
#include "wire/stream/blocking_stream.h"

namespace shoal::outer_opt {

// Thread-safe.
class StreamServers {
 public:
  // Answers a stream; may wait. An error goes to the other end, behind what was written,
  // and ends the stream.
  using Serve = std::function<Status(wire::stream::BlockingStream& stream)>;

  StreamServers(std::size_t threads_max, std::size_t waiting_max);
  ~StreamServers() { stop(); }

  // For the node's I/O thread: the events of a stream that was just opened. Null: too many wait, or
  // stop() was called.
  std::shared_ptr<wire::stream::StreamEvents> take(std::shared_ptr<wire::stream::Stream> stream,
                                                   Serve serve);
  // Cancels all streams and waits for the threads that answer them. Before the end of the node.
  void stop();

 private:
  using StreamPtr = std::shared_ptr<wire::stream::BlockingStream>;
  struct Job {
    StreamPtr stream;
    Serve serve;
  };
  void run();
  bool next(Job& job);

  const std::size_t threads_max_, waiting_max_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> waiting_ SHOAL_GUARDED_BY(mutex_);
  std::set<StreamPtr> answered_ SHOAL_GUARDED_BY(mutex_);
  std::size_t idle_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ SHOAL_GUARDED_BY(mutex_);
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::outer_opt
