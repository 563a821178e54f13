// Hosts around a point in the middle: a packet takes the uplink of its sender, then the downlink of
// its receiver. Pure: packets and times in, packets and times out, in the order of their times. The
// same seed and the same input give the same output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "bench/line/core/line.h"

namespace shoal::bench {

enum class Direction { kUp, kDown };

struct HostLines {
  LineOptions up, down;
};

struct Delivery {
  Instant due;
  int host = 0;
  Train train;
};

class Network {
 public:
  // What would make it hold more than `held_max` is dropped.
  Network(const std::vector<HostLines>& hosts, std::uint64_t seed, Bytes held_max);

  // A packet of `from` to `to` enters at `now`. Everything before has been advanced.
  void send(Instant now, int from, int to, Packet packet);

  // When it has something to do next; nothing: when it is empty.
  std::optional<Instant> next() const;
  // Appends what has arrived by `now`, in the order of arrival.
  void advance(Instant now, std::vector<Delivery>& out);

  const Line& line(int host, Direction direction) const;
  void set(int host, Direction direction, const LineOptions& options);
  std::int64_t dropped() const { return dropped_; }  // segments, for want of memory

 private:
  struct Event {
    Instant at;
    std::uint64_t order = 0;  // of entry, among equal times
    int to = 0;
    bool arrives = false;  // out of the downlink; otherwise out of the uplink
    Train train;
  };
  static bool later(const Event& a, const Event& b);
  static std::size_t index_of(int host, Direction direction);
  void push(int to, bool arrives);

  std::vector<Line> lines_;        // up and down of each host
  std::vector<Event> events_;      // a heap, the earliest first
  std::vector<Passage> passages_;  // of one call
  std::uint64_t order_ = 0;
  std::int64_t held_ = 0, dropped_ = 0;
  const std::int64_t held_max_;
};

}  // namespace shoal::bench
