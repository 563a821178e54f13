// Threads for the arithmetic of reduces: the events of their streams come from the node's one I/O
// thread, which must not be held up.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "threads/mutex.h"

namespace shoal::outer_opt {

// Thread-safe.
class Workers {
 public:
  explicit Workers(int threads);
  ~Workers() { stop(); }

  int threads() const { return count_; }
  // Runs it soon, in the order of the calls; after stop(), never. The caller bounds how much waits.
  void post(std::function<void()> work);
  void stop();  // waits for what has begun

 private:
  void run();

  const int count_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ SHOAL_GUARDED_BY(mutex_);
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// As many as there are cores, at least two, at most eight.
int reduce_threads();

}  // namespace shoal::outer_opt
