// What a process believes at the moment: roots and revocations. Its owner replaces them as the
// coordinator tells; every handshake takes what is there when it begins.
//
// Threads: all methods may be called by any thread.
#pragma once

#include <memory>
#include <utility>

#include "identity/peer.h"
#include "identity/roots.h"
#include "threads/mutex.h"

namespace shoal::identity {

struct Beliefs {
  Roots roots;
  Revocations revoked;
};

class Trust {
 public:
  explicit Trust(Beliefs beliefs) { set(std::move(beliefs)); }

  void set(Beliefs beliefs) {
    auto next = std::make_shared<const Beliefs>(std::move(beliefs));
    const MutexLock lock(mutex_);
    beliefs_.swap(next);
  }
  std::shared_ptr<const Beliefs> get() const {
    const MutexLock lock(mutex_);
    return beliefs_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Beliefs> beliefs_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::identity
