// Streams between agents and the coordinator. A stream keeps its order and loses nothing while it
// lives; when it breaks, what was in flight is lost and each end hears of it in its own time. A
// partition holds messages back, and breaks the stream once it lasts longer than the keep-alive; so
// does a coordinator that stands still, which can be dialed meanwhile and says nothing.
// Messages are sometimes delivered twice, right after each other or again over the next stream of
// the same agent.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/core/io.h"
#include "coordinator/core/state/io.h"
#include "tests/sim/sim.h"

namespace shoal::sim {

// The two ends, as the network calls them.
class AgentEnd {
 public:
  virtual ~AgentEnd() = default;
  virtual int host() const = 0;
  // Which life of the daemon this is, dead or alive; links are numbered from 1 in each.
  virtual std::uint64_t life() const = 0;
  virtual void link_up(agent::LinkId link) = 0;
  virtual void link_down(agent::LinkId link, const Error& error) = 0;
  virtual void coordinator_said(agent::LinkId link, const ToAgent& message) = 0;
};

class CoordinatorEnd {
 public:
  virtual ~CoordinatorEnd() = default;
  virtual bool reachable() const = 0;
  virtual bool stopped() const = 0;  // it can be dialed, and does not answer
  virtual void agent_hello(coordinator::ConnectionId connection, const Hello& hello) = 0;
  virtual void agent_said(coordinator::ConnectionId connection, const FromAgent& message) = 0;
  virtual void agent_hung_up(coordinator::ConnectionId connection) = 0;
};

class Network {
 public:
  explicit Network(Sim& sim) : sim_(sim), prng_(sim.prng_for(0x4e7)) {}
  void set_coordinator(CoordinatorEnd* end) { coordinator_ = end; }

  // ---- by the agent ----
  void dial(AgentEnd& end, agent::LinkId link, const Hello& hello);
  void send_up(AgentEnd& end, agent::LinkId link, const FromAgent& message);
  void close_by_agent(AgentEnd& end, agent::LinkId link);  // what was sent is flushed first
  void agent_died(AgentEnd& end);

  // ---- by the coordinator ----
  void send_down(coordinator::ConnectionId connection, const ToAgent& message);
  void close_by_coordinator(coordinator::ConnectionId connection);
  void coordinator_died();
  void coordinator_stopped();  // breaks its streams if it still stands after the keep-alive
  // Since when a host is out of the coordinator's reach; zero: it has a stream that nothing holds
  // up, and has had it until it was heard. A stream too short to be heard counts for nothing.
  Instant out_since(int host) const;
  Duration settled() const;  // so long what an agent says at first takes at most
  int host_of(coordinator::ConnectionId connection) const;  // -1: the stream is gone

  // ---- faults ----
  bool break_stream(int host);  // false: there is none
  void partition(int host, bool up, bool down, Duration length);
  void heal();
  bool blocked(int host) const { return blocked_up(host) || blocked_down(host); }

 private:
  bool heard(int host) const;
  using Up = std::variant<Hello, FromAgent>;
  template <typename Message>
  struct Lane {
    struct Item {
      Message message;
      Instant sent_at;
    };
    Instant last;
    std::deque<Item> items;
  };
  struct Stream {
    coordinator::ConnectionId id;
    AgentEnd* end = nullptr;
    agent::LinkId link;
    bool closing = false;  // by the agent, after a flush
    Lane<Up> up;
    Lane<ToAgent> down;
  };

  Duration draw_delay();
  // Nothing when that life of the agent has ended by then.
  void after(Duration delay, AgentEnd& end, std::function<void()> run);
  bool blocked_up(int host) const;
  bool blocked_down(int host) const;
  void establish(AgentEnd& end, agent::LinkId link, const Hello& hello);
  void forget_dials(int host);
  void push_up(Stream& stream, Up message);
  void deliver_up(std::uint64_t id);
  void hand_up(Stream& stream, const Up& message);
  void deliver_down(std::uint64_t id);
  void replay_tail(Stream& stream);
  void drop(std::uint64_t id, bool tell_agent, bool tell_coordinator, const char* why);
  Stream* of(AgentEnd& end, agent::LinkId link);

  Sim& sim_;
  Prng prng_;
  CoordinatorEnd* coordinator_ = nullptr;
  std::uint64_t last_id_ = 0;
  std::set<std::pair<int, agent::LinkId>> dials_;  // by host; neither answered nor given up
  std::map<std::uint64_t, Stream> streams_;
  std::map<int, Instant> up_blocked_until_, down_blocked_until_;
  std::map<int, Instant> cut_at_, connected_at_, lost_at_;
  std::map<int, std::deque<FromAgent>> tails_;  // last messages of each host, for the next stream
  Instant newest_sent_;
  std::uint64_t newest_stream_ = 0;
};

}  // namespace shoal::sim
