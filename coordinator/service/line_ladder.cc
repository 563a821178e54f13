#include "coordinator/service/line_ladder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace shoal::coordinator {
namespace {

Duration between(LineLadder::Clock::time_point from, LineLadder::Clock::time_point to) {
  constexpr Duration kLeast = microseconds(1);
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
  return std::max(kLeast, Duration{ns});
}

double over(std::int64_t bytes, Duration time) {
  return static_cast<double>(bytes) / time.seconds();
}

}  // namespace

LineLadder::LineLadder(std::function<std::uint64_t()> draw, Clock::time_point now)
    : draw_(std::move(draw)), begun_(now) {}

MeasureLine LineLadder::next() {
  SHOAL_CHECK(!is_over() && !under_way_, "a step is under way, or none is left");
  MeasureLine message;
  id_ = message.id = draw_() >> 1;  // as a number on the wire is bounded
  if (phase_ == Phase::kDown) message.payload = line_payload(draw_(), bytes());
  if (phase_ == Phase::kUp) message.answer_bytes = bytes();
  answer_bytes_ = message.answer_bytes;
  under_way_ = true;
  sent_at_.reset();
  return message;
}

void LineLadder::sent(std::uint64_t id, Clock::time_point now) {
  if (under_way_ && id == id_) sent_at_ = now;
}

bool LineLadder::answered(const LineMeasured& answer, Clock::time_point now) {
  if (!under_way_ || answer.id != id_ || !sent_at_) return false;
  if (answer.payload != line_payload(id_, answer_bytes_)) return false;
  under_way_ = false;
  took(between(*sent_at_, now));
  if (!is_over() && between(begun_, now) >= kLimit) cut_short();
  return true;
}

void LineLadder::look(Clock::time_point now) {
  if (is_over() || between(begun_, now) < kLimit) return;
  if (under_way_) give_up(between(sent_at_.value_or(begun_), now));
  cut_short();
}

void LineLadder::cut_short() {
  phase_ = Phase::kOver;
  cut_short_ = true;
}

std::int64_t LineLadder::bytes() const {
  return kBytes[phase_ == Phase::kPing ? 0 : static_cast<std::size_t>(step_)];
}

void LineLadder::took(Duration time) {
  ++step_;
  if (phase_ == Phase::kPing) {
    round_trip_ = round_trip_.ns == 0 ? time : std::min(round_trip_, time);
    if (step_ == kPings || time >= kLongEnough) phase_ = Phase::kDown, step_ = 0;
    return;
  }
  const std::int64_t carried = kBytes[static_cast<std::size_t>(step_) - 1];
  const Duration trips{round_trip_.ns * kTrips};
  const bool at_least = time < trips;
  rate() = {over(carried, at_least ? time : time - round_trip_), at_least};
  const bool is_last = step_ == static_cast<int>(kBytes.size());
  if (is_last || time >= trips + kLongEnough) end_direction();
}

void LineLadder::end_direction() {
  phase_ = phase_ == Phase::kDown ? Phase::kUp : Phase::kOver;
  step_ = 0;
}

void LineLadder::give_up(Duration waited) {
  const double most = over(bytes(), waited);
  if (phase_ == Phase::kPing) {
    up_ = down_ = {most};
    return;
  }
  Rate& present = rate();
  const bool is_known = present.bytes_per_s > 0 && present.bytes_per_s <= most;
  present = {is_known ? present.bytes_per_s : most};
}

HostLine LineLadder::line() const {
  SHOAL_CHECK(is_over(), "it is still measured");
  HostLine line{.up = std::min(up_.bytes_per_s, kRateMax),
                .down = std::min(down_.bytes_per_s, kRateMax),
                .round_trip = cut_short_ ? Duration() : round_trip_};
  const bool up_is_slower = line.down <= 0 || (line.up > 0 && line.up <= line.down);
  line.at_least = up_is_slower ? up_.at_least : down_.at_least;
  return line;
}

}  // namespace shoal::coordinator
