// One measurement of a host's line over an agent's stream: which message to send next, and what
// the times of the answers say. Pure; times and random numbers come from outside. Not thread-safe.
//
// First come three small messages for the round trip. Then the payload to the agent grows, 64 KiB,
// 256 KiB, 1 MiB, and after that the payload of its answers. A direction ends early where a payload
// took kLongEnough beyond a few round trips, so that a slow line is not blocked for a second: small
// payloads understate a line, because TCP begins slowly, and the largest one counts. A rate is its
// bytes over its time less the round trip. Where the time is below kTrips round trips, it shows
// little but the distance: then the rate is bytes over time, and a lower bound.
//
// After kLimit, what is under way bounds the rate from above: its bytes over the time so far. An
// agent that answers late or never only makes its own line look slow, and the line has no round
// trip then, so that it counts for a short time (core/state/measured_lines.h). Whatever else the
// stream carries, and the agent's own delay, count as the line's: the rate is never overstated.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "coordinator/core/records/agent_record.h"
#include "messages/line_probe.h"

namespace shoal::coordinator {

class LineLadder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Duration kLimit = seconds(3);
  static constexpr Duration kLongEnough = milliseconds(200);
  static constexpr int kTrips = 4;
  static constexpr int kPings = 3;
  static constexpr std::array<std::int64_t, 3> kBytes{64 << 10, 256 << 10, 1 << 20};
  static constexpr double kRateMax = 1.25e9;  // 10 Gbit/s: a rate above it counts as this

  LineLadder(std::function<std::uint64_t()> draw, Clock::time_point now);

  // The next message; not after is_over(), nor while one is under way.
  MeasureLine next();
  // The message of this id begins to leave now. A later one may be waiting behind other messages.
  void sent(std::uint64_t id, Clock::time_point now);
  // False: it is no answer to what is under way.
  bool answered(const LineMeasured& answer, Clock::time_point now);
  // Ends the measurement if its time is over.
  void look(Clock::time_point now);

  bool is_over() const { return phase_ == Phase::kOver; }
  HostLine line() const;  // once it is over

 private:
  enum class Phase { kPing, kDown, kUp, kOver };
  struct Rate {
    double bytes_per_s = 0;
    bool at_least = false;
  };
  std::int64_t bytes() const;  // of the present step, in its direction
  Rate& rate() { return phase_ == Phase::kDown ? down_ : up_; }
  void took(Duration time);
  void give_up(Duration waited);
  void end_direction();
  void cut_short();

  const std::function<std::uint64_t()> draw_;
  const Clock::time_point begun_;
  Phase phase_ = Phase::kPing;
  int step_ = 0;  // of the phase
  std::uint64_t id_ = 0;
  std::int64_t answer_bytes_ = 0;
  bool under_way_ = false;
  bool cut_short_ = false;
  std::optional<Clock::time_point> sent_at_;
  Duration round_trip_;
  Rate up_, down_;
};

}  // namespace shoal::coordinator
