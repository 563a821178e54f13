// Drives a JoinSession (outer_opt/core/joining) over streams: sends its asks to the sources, many
// at once, and hands it what they answer, from the one thread that runs it. An ask is a stream with
// the purpose kStatePurpose, one message (v1::StateAsk) and its answer, another one
// (v1::StateAnswer).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/time.h"
#include "outer_opt/core/joining/join_session.h"
#include "outer_opt/transport/ways.h"
#include "threads/mutex.h"
#include "wire/stream/blocking_stream.h"

namespace shoal::outer_opt {

// What becomes known while a session runs. Any thread.
class JoinNews {
 public:
  void aim(RoundNumber round, std::vector<PeerAddress> sources);
  // To the session, from its thread.
  void tell(JoinSession& session, Instant now);

 private:
  Mutex mutex_;
  std::optional<RoundNumber> round_ SHOAL_GUARDED_BY(mutex_);
  std::vector<PeerAddress> sources_ SHOAL_GUARDED_BY(mutex_);
};

struct JoinDrive {
  // A new connection to a source, begun for its first ask and after an ask that failed. Must not
  // block; `dialed` comes from any thread.
  std::function<void(const PeerAddress& source, Ways::Done dialed)> dial;
  std::function<void(const JoinSession&)> moved;  // after each answer
  std::function<void(const std::string&)> complain;
};

inline constexpr char kStatePurpose[] = "state";

// The other side: answers one ask, by `answer`, which may wait.
Status serve_state(wire::stream::BlockingStream& stream,
                   const std::function<StateAnswer(const StateAsk&)>& answer);

// Blocks until the session is level or has given up, or `stop` is requested. Ok: level.
Status run_join(JoinSession& session, JoinNews& news, const JoinDrive& drive, std::stop_token stop);

}  // namespace shoal::outer_opt
