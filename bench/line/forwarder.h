// Carries packets between the TUN devices of several hosts over the lines of core/network.h: one
// thread that waits for packets and for the next time that something is due. What it delivers late
// is counted, so that a measurement over it can be judged; where it may, it asks for real-time
// priority, without which the processes that it carries packets for keep it waiting.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/line/core/network.h"
#include "bench/line/tun_device.h"

namespace shoal::bench {

struct HostSetup {
  std::string name;
  TunOptions tun;
  HostLines lines;
};

struct LineSetup {
  std::vector<HostSetup> hosts;
  std::uint64_t seed = 1;
  Bytes held_max = mebibytes(512);
};

// How much later than due packets left, to 10 us and up to 10 ms.
class Lateness {
 public:
  void add(Duration late);
  Duration quantile(double share) const;  // as a bucket's upper bound
  Duration max() const { return max_; }

 private:
  std::array<std::int64_t, 1001> buckets_{};
  std::int64_t count_ = 0;
  Duration max_;
};

struct HostCounts {
  LineCounts up, down;
  std::int64_t unroutable = 0;      // sent to nobody, or no IPv4
  std::int64_t device_dropped = 0;  // sent faster than it was read
  std::int64_t refused = 0;         // by the host that it arrived at
};

struct ForwarderCounts {
  std::vector<HostCounts> hosts;
  std::int64_t dropped = 0;  // for want of memory
  Duration late_p50, late_p99, late_max;
  bool realtime = false;
};

class Forwarder {
 public:
  static Result<std::unique_ptr<Forwarder>> open(const LineSetup& setup);

  // A line of text that came over `control`, without its end.
  using Order = std::function<void(std::string_view)>;
  // Carries until `control` ends or `stop` can be read; either may be -1. A `control` that cannot
  // be waited for, such as a file, is not read. Orders are called in between: they may call set()
  // and counts().
  void run(int control, int stop, const Order& order);

  void set(int host, const HostLines& lines);
  ForwarderCounts counts() const;

 private:
  Forwarder(const LineSetup& setup, std::vector<TunDevice> devices);
  bool wait(int epoll, int control, int stop, const Order& order);
  void take(int host);
  void deliver();
  bool read_control(int control, const Order& order);
  std::optional<int> host_at(std::uint32_t address) const;

  const LineSetup setup_;
  std::vector<TunDevice> devices_;
  Network network_;
  std::vector<HostCounts> counts_;  // lines count for themselves
  Lateness lateness_;
  std::vector<Delivery> due_;
  std::string control_text_;  // since the last end of a line
  bool realtime_ = false;
};

}  // namespace shoal::bench
