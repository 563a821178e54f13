// A fixed number of threads that work on items and give the results in the order of the items. The
// owner pushes and pops on one thread of its own and keeps in_flight() within its bound.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "threads/mutex.h"

namespace shoal::corpus {

template <typename In, typename Out>
class OrderedWorkers {
 public:
  // `work` is called on every thread with the thread's number; it throws nothing.
  using Work = std::function<Out(int worker, In item)>;

  OrderedWorkers(int threads, Work work) : work_(std::move(work)) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i); });
  }
  // Items that no thread has begun are dropped.
  ~OrderedWorkers() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  void push(In item) {
    auto task = std::make_shared<Task>();
    task->in = std::move(item);
    {
      MutexLock lock(mutex_);
      order_.push_back(task);
      waiting_.push_back(std::move(task));
    }
    changed_.notify_all();
  }
  std::size_t in_flight() const {
    MutexLock lock(mutex_);
    return order_.size();
  }
  // Waits for the oldest item, which a thread works on or will. There must be one.
  Out pop() {
    MutexLock lock(mutex_);
    SHOAL_CHECK(!order_.empty());
    const auto task = order_.front();
    order_.pop_front();
    changed_.wait(mutex_, [&] { return task->out.has_value(); });
    return std::move(*task->out);
  }

 private:
  struct Task {
    In in{};
    std::optional<Out> out;  // set under the mutex
  };

  void run(int worker) {
    while (auto task = take()) {
      Out out = work_(worker, std::move(task->in));
      {
        MutexLock lock(mutex_);
        task->out.emplace(std::move(out));
      }
      changed_.notify_all();
    }
  }
  std::shared_ptr<Task> take() {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) { return closed_ || !waiting_.empty(); });
    if (closed_) return nullptr;
    auto task = std::move(waiting_.front());
    waiting_.pop_front();
    return task;
  }

  const Work work_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Task>> order_ SHOAL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Task>> waiting_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace shoal::corpus
