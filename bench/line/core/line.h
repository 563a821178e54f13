// One direction of a line as times: what it does to packets that enter it one after another. They
// wait in a bounded queue for the rate (a token bucket), then take the delay; some are lost on the
// way, some take a detour and are passed by those behind them. Jitter alone does not reorder. No
// clock: its driver says when a packet enters and holds it back until the time that it is
// told. Two lines with one seed and the same packets do the same.
//
// A train of segments is cut where it would hold the line for longer than kTrainTime, so that it
// waits and is dropped much as single packets would, and each of its segments is lost on its own.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "bench/line/core/packet.h"

namespace shoal::bench {

inline constexpr Duration kTrainTime = microseconds(500);

struct LineOptions {
  double bytes_per_s = 0;             // 0: no limit
  Duration queue = milliseconds(50);  // who would wait longer for the rate is dropped
  Duration burst = milliseconds(1);   // of the rate that an idle line catches up on
  Duration delay;
  Duration jitter;                    // standard deviation of the delay
  double loss = 0;                    // of segments, a share
  double reorder = 0;                 // of trains, the share that takes the detour
  Duration detour = milliseconds(5);  // on top of the delay
  bool cut = false;                   // nothing enters; what is on its way arrives
  bool operator==(const LineOptions&) const = default;
};

// Segments.
struct LineCounts {
  std::int64_t entered = 0, passed = 0;
  std::int64_t overflowed = 0, lost = 0, refused = 0;  // by the queue, on the way, while it is cut
  std::int64_t detoured = 0;                           // among those that passed
  std::int64_t bytes_passed = 0;
};

struct Passage {
  Instant at;  // when it arrives
  Train train;
};

class Line {
 public:
  Line(const LineOptions& options, std::uint64_t seed) : options_(options), prng_(seed) {}

  const LineOptions& options() const { return options_; }
  // From now on; what has entered keeps its time.
  void set(const LineOptions& options) { options_ = options; }
  const LineCounts& counts() const { return counts_; }

  // Appends what will arrive of a train that enters at `now`; times of calls do not go back.
  void pass(Instant now, const Train& train, std::vector<Passage>& out);

 private:
  int segments_at_once(const Train& train) const;
  void pass_part(Instant now, const Train& part, std::vector<Passage>& out);
  void deliver(Instant leaves, const Train& part, std::vector<Passage>& out);
  Instant arrival(Instant leaves, int segments);

  LineOptions options_;
  Prng prng_;
  LineCounts counts_;
  Instant free_;          // when the last of the queue will have left
  Instant last_arrival_;  // of those that keep their order
};

}  // namespace shoal::bench
