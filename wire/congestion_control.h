// Which congestion control a TCP connection of peers takes, by what its line is like.
//
// bbr keeps its rate where packets are lost; reno and cubic stop there on long lines. But bbr
// leaves a tenth of a short clean line unused, because it probes its rate (docs/transport.md). So a
// connection takes bbr when its round trip is long, or when segments are lost on and on, and cubic
// otherwise. A kernel without bbr or cubic keeps its own choice.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace shoal::wire {

inline constexpr std::string_view kForLongLines = "bbr", kForShortLines = "cubic";

// What a connection has seen since the last look, or since it began.
struct LineSeen {
  Duration round_trip;      // the least
  std::int64_t sent = 0;    // segments
  std::int64_t resent = 0;  // of these, sent again
};

// The rule, without a kernel.
class CongestionRule {
 public:
  std::string_view choose(const LineSeen& seen);

 private:
  bool has_started_ = false;  // a beginning loses what it needs to find the rate of the line
  int lossy_ = 0;             // looks in a row
  bool is_lossy_ = false;     // from then on
};

// The rule for a connected TCP socket, which outlives it. Does nothing for other sockets.
class CongestionControl {
 public:
  explicit CongestionControl(int fd) : fd_(fd) {}
  void look();  // once it is connected, and again every few seconds

 private:
  const int fd_;
  CongestionRule rule_;
  std::int64_t sent_ = 0, resent_ = 0;
};

}  // namespace shoal::wire
