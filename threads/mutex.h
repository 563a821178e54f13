// Locks whose use clang checks (annotations.h): std::mutex and std::condition_variable with
// attributes, at their price. No other folder names those; the lint holds it.
//
// A wait has an end that somebody assures: there is none without a predicate, and the one without a
// deadline is for what the class itself ends, a queue that closes or a thread that is joined. No
// timed, shared or recursive mutex: nothing needs one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "threads/annotations.h"

namespace shoal {

class SHOAL_CAPABILITY("mutex") Mutex {
 public:
  void lock() SHOAL_ACQUIRE() { mutex_.lock(); }
  void unlock() SHOAL_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds the mutex as long as it lives, except between unlock() and lock().
class SHOAL_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SHOAL_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() SHOAL_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() SHOAL_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() SHOAL_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Releases a held mutex as long as it lives: for a method that is called with it held and calls
// somebody who may block or take it himself.
class SHOAL_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) SHOAL_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() SHOAL_RELEASE() { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

// Predicates are called with the mutex held.
class CondVar {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  template <typename Predicate>
  void wait(Mutex& mutex, Predicate done) SHOAL_REQUIRES(mutex) {
    Adopted held(mutex.mutex_);
    changed_.wait(held.lock, std::move(done));
  }
  // What the predicate says at the end: false when `when` passed before.
  template <typename Clock, typename Time, typename Predicate>
  bool wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Time>& when, Predicate done)
      SHOAL_REQUIRES(mutex) {
    Adopted held(mutex.mutex_);
    return changed_.wait_until(held.lock, when, std::move(done));
  }
  template <typename Number, typename Unit, typename Predicate>
  bool wait_for(Mutex& mutex, const std::chrono::duration<Number, Unit>& limit, Predicate done)
      SHOAL_REQUIRES(mutex) {
    Adopted held(mutex.mutex_);
    return changed_.wait_for(held.lock, limit, std::move(done));
  }

 private:
  // The caller's lock as the standard wants it; it stays the caller's.
  struct Adopted {
    explicit Adopted(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };
  std::condition_variable changed_;
};

}  // namespace shoal
