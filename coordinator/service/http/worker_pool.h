// A few threads with one bounded queue, each thread with a context of its own that it makes at its
// start (a store Reader, for example). Keeps slow work off the I/O threads.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "threads/mutex.h"

namespace shoal::coordinator::rest {

template <typename Context>
class WorkerPool {
 public:
  using Job = std::function<void(Context&)>;

  WorkerPool(int threads, std::size_t queue_max, std::function<std::unique_ptr<Context>()> make)
      : queue_max_(queue_max) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, make] { run(*make()); });
  }
  ~WorkerPool() { stop(); }

  // False when the queue is full or the pool is stopping; the job is dropped then.
  bool post(Job job) { return push(std::move(job), queue_max_); }

  // For the second half of a job that was accepted before: those are as many as the callers at
  // most.
  bool post_rest(Job job) { return push(std::move(job), static_cast<std::size_t>(-1)); }

  // Finishes the running jobs, drops the waiting ones.
  void stop() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      queue_.clear();
    }
    wake_.notify_all();
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }

 private:
  bool push(Job job, std::size_t limit) SHOAL_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (stopping_ || queue_.size() >= limit) return false;
      queue_.push_back(std::move(job));
    }
    wake_.notify_one();
    return true;
  }

  void run(Context& context) SHOAL_EXCLUDES(mutex_) {
    for (;;) {
      Job job;
      {
        const MutexLock lock(mutex_);
        wake_.wait(mutex_,
                   [this]() SHOAL_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
        if (stopping_) return;
        job = std::move(queue_.front());
        queue_.pop_front();
      }
      job(context);
    }
  }

  const std::size_t queue_max_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Job> queue_ SHOAL_GUARDED_BY(mutex_);
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace shoal::coordinator::rest
