// How long an interrupted transfer is tried again: as long as it makes progress. It is given up
// when nothing has moved for `stall`, however often it was interrupted and however long it took
// until then. Only bytes beyond the furthest point reached so far count as progress.
#pragma once

#include <algorithm>
#include <optional>

#include "base/backoff.h"
#include "base/fields.h"
#include "base/time.h"
#include "base/units.h"

namespace shoal {

class TransferPatience {
 public:
  TransferPatience(Duration stall, Duration first_wait, Duration longest_wait)
      : stall_(stall), backoff_(first_wait, longest_wait) {}

  // The clock starts or restarts: what happened until now counts against nobody.
  void begin(Instant now) {
    moved_at_ = now;
    backoff_.reset();
  }

  // It could not move during `waited`, because others had their turn.
  void forgive(Duration waited) { moved_at_ = moved_at_ + waited; }

  // True: it came further.
  bool moved(Instant now, Bytes done) {
    if (done <= done_) return false;
    done_ = done;
    begin(now);
    return true;
  }

  // It broke: when to try again; none: it is to be given up.
  std::optional<Instant> broke(Instant now, Prng& prng) {
    if (now >= gives_up_at()) return std::nullopt;
    return std::min(now + backoff_.next(prng), gives_up_at());
  }

  Instant gives_up_at() const { return moved_at_ + stall_; }
  Bytes done() const { return done_; }
  int breaks() const { return backoff_.attempts(); }  // since it last moved

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<TransferPatience>) {
    using T = TransferPatience;
    return fields<&T::stall_, &T::backoff_, &T::moved_at_, &T::done_>();
  }

  Duration stall_;
  Backoff backoff_;
  Instant moved_at_;
  Bytes done_;
};

// How long something may stand still that works on `size` meanwhile where nobody sees it (it reads,
// hashes, digests): `floor`, plus the time at a speed that any disk has.
constexpr Duration stall_for(Duration floor, Bytes size) {
  constexpr double kUnseenBytesPerSecond = 20e6;
  return floor + seconds_f(static_cast<double>(size.count()) / kUnseenBytesPerSecond);
}

}  // namespace shoal
