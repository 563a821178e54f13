// The network between trainers: frames of a reduce and transfers of state. Two trainers have one
// ordered path in each direction; a path breaks when a process dies or freezes, when a partition
// outlasts the keep-alive, or when a fault says so, and both ends hear of it. A partition may hold
// up one direction only; then nothing new can be dialed either way. What it held up arrives, in
// order, when it ends.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "outer_opt/core/codec/frame.h"
#include "tests/sim/sim.h"

namespace shoal::sim {

struct PeerFrame {
  ReplicaId from;
  RoundKey key;
  std::int32_t attempt = 0;
  outer_opt::FrameHeader header;
  std::vector<std::byte> payload;
};

// A trainer as its peers see it.
class PeerEnd {
 public:
  virtual ~PeerEnd() = default;
  virtual int host() const = 0;
  virtual std::string address() const = 0;  // of this process; another one after each start
  virtual bool alive() const = 0;
  virtual bool frozen() const = 0;
  virtual void deliver(std::function<void()> work) = 0;  // runs it in the process, later if frozen
  virtual void take_frame(const PeerFrame& frame) = 0;
  virtual void peer_lost(const std::string& address, const std::string& detail) = 0;
};

class PeerNetwork {
 public:
  explicit PeerNetwork(Sim& sim) : sim_(sim), prng_(sim.prng_for(0x9ee5)) {}
  void add(PeerEnd* end) { ends_.push_back(end); }
  PeerEnd* find(const std::string& address) const;  // null: nobody listens there

  void send(PeerEnd& from, const std::string& to, PeerFrame frame);
  // Runs `work` in the process at `to` after a delay, or `failed` when it cannot be reached.
  void call(PeerEnd& from, const std::string& to, std::function<void(PeerEnd&)> work,
            std::function<void()> failed);
  // `from` begins to depend on `to`: when it cannot be reached, peer_lost follows.
  void watch(PeerEnd& from, const std::string& to);
  // `from` ends its streams to `to` of one attempt; `work` tells the other end, after all frames.
  void hang_up(PeerEnd& from, const std::string& to, std::function<void(PeerEnd&)> work);
  void died(const std::string& address, int host);
  void froze(PeerEnd& end);  // breaks its paths if it is still frozen after the keep-alive

  // ---- faults ----
  void break_paths(PeerEnd& a, PeerEnd& b);
  void partition(int host_a, int host_b, Duration length);
  void cut(int from, int to, Duration length);             // one way
  void flip_next_frame(int host) { flips_.insert(host); }  // that it sends
  void slow(int host, Duration length, int factor);
  void heal();

 private:
  using Path = std::pair<std::string, std::string>;  // from, to
  Duration draw_delay(int a, int b);
  bool blocked(int from, int to) const { return sim_.now() < blocked_until(from, to); }
  bool cut_off(int a, int b) const { return blocked(a, b) || blocked(b, a); }
  Instant blocked_until(int from, int to) const;
  void break_if_cut(int a, int b);
  void maybe_flip(PeerEnd& from, PeerFrame& frame);
  Instant slot(const Path& path, Duration delay);
  void arrive(PeerEnd* from, const std::string& to, int host, std::uint64_t epoch, Path path,
              std::function<void(PeerEnd&)> work);
  void release(int from, int to);

  Sim& sim_;
  Prng prng_;
  std::vector<PeerEnd*> ends_;
  std::map<Path, Instant> last_;
  std::map<Path, std::uint64_t> epochs_;
  std::map<std::pair<int, int>, Instant> blocked_until_;                   // from, to
  std::map<std::pair<int, int>, std::deque<std::function<void()>>> held_;  // up by a partition
  std::set<int> flips_;  // hosts whose next frame changes
  std::map<int, std::pair<Instant, int>> slow_until_;
};

}  // namespace shoal::sim
