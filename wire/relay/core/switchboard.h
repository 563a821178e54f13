// What a relay decides: who may wait, who is called, which two connections become one. It knows no
// sockets and no bytes; those who ask have proven their names before (wire/relay/relay.h).
//
//   a replica that nobody can dial  ─ wait ─►  stands, until somebody calls
//   a peer of its job               ─ call ─►  the one that waits is told the number of the call
//   the one that was called       ─ answer ─►  a new connection; the two are joined
//
// Bounds. Waiting connections, open calls and joined pairs have a quota for all and one for each
// agent, so that one agent cannot take what is there for others. A call that nobody answers ends
// after `answer_limit`, a waiting connection that says nothing after `silence_limit`.
//
// Pure: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"

namespace shoal::wire::relay {

// A replica, as its certificate has it. Its stage and epoch do not matter here: the two ends look
// at them, since TLS is between them.
struct Member {
  AgentId agent;
  JobId job;
  ReplicaId replica;
  auto operator<=>(const Member&) const = default;
};

using ConnectionId = std::uint64_t;  // of one TCP connection to this relay, never used again

// Numbers a call. Random, so that nobody answers a call that it was not told of.
struct CallId {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const CallId&) const = default;
};

struct Limits {
  int waiting_max = 1024, waiting_per_agent_max = 64;
  int calls_max = 256, calls_per_agent_max = 32;    // that wait for an answer
  int joined_max = 512, joined_per_agent_max = 64;  // by the agent that called
  Duration answer_limit = seconds(5);
  Duration silence_limit = seconds(10);
  bool operator==(const Limits&) const = default;
};
// Error: validation, with the field's name.
Status check_limits(const Limits& limits);

struct Grant {  // its connection stands
  ConnectionId to = 0;
  bool operator==(const Grant&) const = default;
};
struct Tell {  // somebody calls
  ConnectionId to = 0;
  CallId call;
  bool operator==(const Tell&) const = default;
};
struct Join {  // both are granted; from now on the bytes of one go to the other
  ConnectionId caller = 0, answerer = 0;
  bool operator==(const Join&) const = default;
};
struct Refuse {  // and close
  ConnectionId to = 0;
  Error why;
  bool operator==(const Refuse&) const = default;
};
struct Close {  // the other half of a joined pair
  ConnectionId what = 0;
  bool operator==(const Close&) const = default;
};
using Effect = std::variant<Grant, Tell, Join, Refuse, Close>;
using Effects = std::vector<Effect>;

class Switchboard {
 public:
  explicit Switchboard(Limits limits) : limits_(limits) {}

  // A second connection of the same replica takes the place of the first one.
  Effects wait(ConnectionId id, const Member& who, Instant now);
  // Refused: nobody of that number waits here, it is of another job, or a quota is full. A call of
  // a number that is in use is refused, too.
  Effects call(ConnectionId id, const Member& who, ReplicaId whom, CallId call, Instant now);
  // Refused: the call is over, or it was another one that was called.
  Effects answer(ConnectionId id, const Member& who, CallId call);
  void heard(ConnectionId id, Instant now);  // a waiting connection lives
  Effects gone(ConnectionId id);
  Effects tick(Instant now);  // about once a second

  std::size_t waiting() const { return waiting_.size(); }
  std::size_t calls() const { return calls_.size(); }
  std::size_t joined() const { return joined_.size() / 2; }

 private:
  struct Waiting {
    Member who;
    Instant heard_at;
  };
  struct Call {
    ConnectionId caller = 0;
    Member from, to;
    Instant until;
  };
  struct Half {
    ConnectionId other = 0;
    AgentId agent;  // that called
    bool is_caller = false;
  };
  std::optional<Error> full_for_waiting(AgentId agent) const;
  std::optional<Error> full_for_call(AgentId agent) const;
  std::map<ConnectionId, Waiting>::iterator find_waiting(ReplicaId replica);

  const Limits limits_;
  std::map<ConnectionId, Waiting> waiting_;
  std::map<CallId, Call> calls_;
  std::map<ConnectionId, Half> joined_;
};

}  // namespace shoal::wire::relay
