// How many tokens per second a job trains, over wall time: what its committed rounds and its open
// round have now, beside what they had a while ago. A replica that waits for the others of its
// round, or that averages, counts with what it has done, not with how fast it was. Pure.
#pragma once

#include <deque>
#include <optional>

#include "base/time.h"
#include "base/units.h"

namespace shoal::coordinator {

class TokenMeter {
 public:
  // Whether a second has passed since the last one that was heard.
  bool is_due(Instant now) const;

  // `tokens`: of all rounds of the job, the open one included. To be called when it is due, and at
  // every commit.
  void heard(Instant now, Tokens tokens, bool at_commit);

  // Since the newest commit that is at least 30 s old, so that whole rounds are compared. Where the
  // rounds are longer than five minutes, or none was committed yet, over the last minute. None
  // before two seconds have passed.
  std::optional<double> per_second(Instant now) const;

 private:
  struct Mark {
    Instant at;
    Tokens tokens;
    bool at_commit = false;
  };
  const Mark& since(Instant now) const;

  std::deque<Mark> marks_;  // of the last five minutes, oldest first
};

}  // namespace shoal::coordinator
