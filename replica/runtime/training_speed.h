// Tokens per second of one replica, for people: what it trained since the last reading over the
// time that it was training. It counts what is added, never the difference of totals, which
// restart with every round and shrink when passes are void; the clock stands still while there is
// nothing to train or other work is done.
#pragma once

#include <chrono>

#include "base/units.h"

namespace shoal::replica {

class TrainingSpeed {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void go_on(Time now);  // the clock runs from here; a running one runs on
  bool pause(Time now);  // whether it ran
  void trained(Tokens tokens) { tokens_ += tokens; }

  bool due(Time now) const;  // a second of training has passed, and something came of it
  double read(Time now);     // tokens per second since the last reading; due() only

 private:
  std::chrono::steady_clock::duration elapsed(Time now) const;

  bool runs_ = false;
  Time since_;                                    // while it runs
  std::chrono::steady_clock::duration before_{};  // of earlier stretches since the last reading
  Tokens tokens_;
};

}  // namespace shoal::replica
