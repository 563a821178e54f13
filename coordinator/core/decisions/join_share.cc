// See join_share.h.
#include "coordinator/core/decisions/join_share.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

constexpr Duration kRateOver = seconds(2);  // a rate of less is noise

double value_of(Bytes bytes) { return static_cast<double>(bytes.count()); }

// A load from a checkpoint brings the state and nothing else.
double received_between(const JoinReport& from, const JoinReport& to) {
  const double all = value_of(to.received) - value_of(from.received);
  return all > 0 ? all : std::max(0.0, value_of(to.done) - value_of(from.done));
}

bool is_long_enough(const JoinShare& measured, Duration over, RoundNumber rounds) {
  return measured.over >= over && measured.rounds >= rounds;
}

JoinPace pace_of(const JoinShare& measured, bool further) {
  const bool never = measured.share >= 1 && !further;
  if (never && is_long_enough(measured, kNeverOver, kNeverRounds)) return JoinPace::kNever;
  if (!is_long_enough(measured, kSlowOver, kSlowRounds)) return JoinPace::kMeasuring;
  return measured.share > kSlowShare ? JoinPace::kSlow : JoinPace::kSteady;
}

}  // namespace

JoinShare decide_join_share(const JoinReport& from, const JoinReport& to) {
  JoinShare measured;
  measured.over = to.at - from.at;
  measured.rounds = std::max<RoundNumber>(0, to.round - from.round);
  if (measured.over < kRateOver) return measured;
  const double received = received_between(from, to);
  measured.rate = received / measured.over.seconds();
  if (received <= 0) return measured;
  measured.share = value_of(to.per_round) * static_cast<double>(measured.rounds) / received;
  const double missing = std::max(0.0, value_of(to.total) - value_of(to.done));
  if (measured.share < 1 && to.total.count() > 0) {
    measured.left = seconds_f(missing / measured.rate / (1 - measured.share));
  }
  const bool further = value_of(to.done) - value_of(from.done) >= kFurther * value_of(to.total);
  measured.pace = pace_of(measured, further);
  return measured;
}

// The window is long enough at any time, and forgets: it begins in the middle of the last one.
void JoinWatch::heard(const JoinReport& report) {
  const bool first = !has_heard();
  const bool other = report.received < last_.received || report.round < last_.round;
  if (first || report.done > furthest_.done) furthest_ = report;
  if (first || other || report.at - last_.at > kJoinPause) begin_anew(report);
  last_ = report;
  const JoinShare half = decide_join_share(middle_, last_);
  if (!is_long_enough(half, kNeverOver, kNeverRounds)) return;
  begin_ = middle_;
  middle_ = last_;
}

JoinShare JoinWatch::share() const { return decide_join_share(begin_, last_); }

}  // namespace shoal::coordinator
