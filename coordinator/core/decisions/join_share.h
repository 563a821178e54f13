// Whether a joiner can load its state while rounds continue, from what it says of its load. With r
// the share of its line that the averages of the rounds take, loading takes bare / (1 - r); with r
// of 1 and more it never ends. Both are measured: what the line brought in a window of time, and
// what the averages of the rounds of that time take for the whole state, so that
//
//   r = bytes of averages per round * rounds in the window / bytes received in the window
//
// A joiner asks for as much as its line carries, so what it received is what the line can do. After
// a long pause that is not so, and a new window begins.
//
// Pure. Not thread-safe.
#pragma once

#include <optional>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"

namespace shoal::coordinator {

// What is measured over less says nothing yet.
inline constexpr Duration kSlowOver = seconds(10), kNeverOver = seconds(30);
inline constexpr RoundNumber kSlowRounds = 2, kNeverRounds = 3;
inline constexpr double kSlowShare = 1.0 / 3;
inline constexpr double kFurther = 0.02;             // of the state: less is no progress
inline constexpr Duration kJoinPause = seconds(10);  // between two words: nothing was asked for

enum class JoinPace {
  kMeasuring,  // over too little to say more
  kSteady,
  kSlow,   // averages take more than kSlowShare of the line
  kNever,  // they take all of it, and the joiner comes no further
};
constexpr auto enumerators_of(Of<JoinPace>) {
  using enum JoinPace;
  return enumerators<JoinPace>(
      {{kMeasuring, "measuring"}, {kSteady, "steady"}, {kSlow, "slow"}, {kNever, "never"}});
}

// One report of a joiner, and the newest committed round of its job then.
struct JoinReport {
  Instant at;
  Bytes done, total;  // see LoadProgress
  Bytes received, per_round;
  RoundNumber round = 0;
};

struct JoinShare {
  JoinPace pace = JoinPace::kMeasuring;
  double share = 0;  // r; 0 before a round was committed
  double rate = 0;   // bytes per second that the line brings; 0: not known
  Duration over;     // that this was measured in
  RoundNumber rounds = 0;
  std::optional<Duration> left;  // until all is there; none: not known, or never
};

JoinShare decide_join_share(const JoinReport& from, const JoinReport& to);

// Keeps the words of one joiner that the decision needs.
class JoinWatch {
 public:
  void heard(const JoinReport& report);

  JoinShare share() const;
  const JoinReport& last() const { return last_; }
  bool has_heard() const { return last_.at.ns != 0; }
  // The report with which it had more of the state than ever before.
  const JoinReport& furthest() const { return furthest_; }

 private:
  void begin_anew(const JoinReport& report) { begin_ = middle_ = report; }

  JoinReport begin_, middle_, last_, furthest_;
};

}  // namespace shoal::coordinator
