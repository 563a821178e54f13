// See held_parameters.h.
#include "replica/runtime/held_parameters.h"

#include <algorithm>

namespace shoal::replica {

// A reader needs no one to end.
void HeldParameters::wait_for(const Readers& readers) {
  changed_.wait(mutex_, [&] { return readers.count == 0; });
}

void HeldParameters::put_aside(std::span<const float> others) {
  aside_.resize(static_cast<std::size_t>(where_.value_count()));
  where_.read_parameters(aside_);
  {
    const MutexLock lock(mutex_);
    is_aside_ = true;
    wait_for(in_place_);
  }
  where_.write_parameters(others);
}

void HeldParameters::put_back() {
  where_.write_parameters(aside_);
  {
    const MutexLock lock(mutex_);
    is_aside_ = false;
    wait_for(of_aside_);
  }
  aside_ = std::vector<float>();  // "= {}" would keep the memory
}

void HeldParameters::read_part(std::int64_t first, std::span<float> out) const {
  MutexLock lock(mutex_);
  const bool is_aside = is_aside_;
  Readers& readers = is_aside ? of_aside_ : in_place_;
  ++readers.count;
  lock.unlock();
  if (is_aside) {
    std::copy_n(aside_.begin() + first, out.size(), out.begin());
  } else {
    where_.read_part(first, out);
  }
  lock.lock();
  if (--readers.count == 0) changed_.notify_all();
}

}  // namespace shoal::replica
