// Performs the effects of the core in their order and never before what must be durable is durable.
// The core's thread hands in the effects of one step and continues at once; the records go to the
// store, the rest waits in a queue until the store has committed everything that came before it,
// and is then performed on the delivery thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "coordinator/core/state/io.h"
#include "coordinator/store/store.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class Delivery {
 public:
  static constexpr std::size_t kGroupsMax = 8192;  // waiting; push() then blocks

  // Records that became durable together, then the effects that had to wait for them.
  struct Group {
    std::vector<Record> records;
    std::vector<Effect> effects;
  };
  // Both are called one at a time; `failed` at most once, on the store's thread, and nothing is
  // performed after it.
  struct Hooks {
    std::function<void(Group)> perform;
    std::function<void(const Error&)> failed;
  };

  Delivery(Store& store, Hooks hooks);
  ~Delivery();  // halts, and waits for the writes that the store has taken

  void push(Effects effects);
  // Waits until everything that was pushed has been performed, or the limit is over: false then.
  bool drain(Duration limit);
  // Performs nothing from now on, and nothing is being performed when it returns.
  void halt() SHOAL_EXCLUDES(mutex_);

 private:
  struct Waiting {
    std::int64_t after_write = 0;  // performed when so many writes are durable
    Group group;
  };
  void enqueue(Group group) SHOAL_EXCLUDES(mutex_);
  void on_written(const Status& status) SHOAL_EXCLUDES(mutex_);
  void run() SHOAL_EXCLUDES(mutex_);

  Store& store_;
  const Hooks hooks_;
  Mutex mutex_;
  CondVar ready_, moved_;
  std::deque<Waiting> waiting_ SHOAL_GUARDED_BY(mutex_);
  std::int64_t writes_issued_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::int64_t writes_durable_ SHOAL_GUARDED_BY(mutex_) = 0;
  bool halted_ SHOAL_GUARDED_BY(mutex_) = false;
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool performing_ SHOAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shoal::coordinator
