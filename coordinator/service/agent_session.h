// One open stream of one agent: a gRPC bidi reactor. It reads Hello first, then messages, and hands
// them to the runtime as they come; what is to be sent waits in a bounded queue. A malformed
// message, an overflow of that queue or of the runtime's input ends the stream with a status that
// says why; the agent comes back by itself. A machine that says more than its budget is read later.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>

#include <grpcpp/grpcpp.h>

#include "coordinator/service/agent_door.h"
#include "coordinator/service/agent_port.h"
#include "coordinator/service/line_ladder.h"
#include "proto/agent.pb.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class AgentSession final
    : public grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage> {
 public:
  static constexpr std::size_t kQueueMax = 1024;  // messages to this agent

  // `ended` is the last thing the session does; it may drop the last reference.
  // Its Hello must come from the folder of `caller`, which `door` knows. `may_read` is asked before
  // each message after the first: false holds the session back until read_on() is called.
  // `held_back`: that has happened.
  AgentSession(ConnectionId id, grpc::CallbackServerContext* context, InputPort& inputs,
               Caller caller, std::shared_ptr<AgentDoor> door, std::function<bool()> may_read,
               std::function<void(ConnectionId)> held_back,
               std::function<void(ConnectionId)> ended);

  AgentId machine() const { return caller_.machine; }

  void begin();                               // starts to read; once
  void send(v1::CoordinatorMessage message);  // thread-safe
  void close(grpc::Status status);            // after what was sent before; thread-safe
  void close_now(grpc::Status status)
      SHOAL_EXCLUDES(mutex_);  // drops what was not sent; thread-safe

  // Reads on if it is held back and may be read now. True: it stays held back. Thread-safe.
  bool read_on() SHOAL_EXCLUDES(mutex_);

  // Times messages both ways and posts HostLineMeasured, unless the stream ends before. The
  // payloads go no further than this class. Thread-safe, like the other.
  void measure_line() SHOAL_EXCLUDES(mutex_);
  void end_late_measurement() SHOAL_EXCLUDES(mutex_);  // if its time is over

  // Without a Hello, and opened then or before.
  bool is_late(std::chrono::steady_clock::time_point opened_before);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  bool accept(const v1::AgentMessage& message)
      SHOAL_EXCLUDES(mutex_);  // false: the stream was closed
  bool take(FromAgent message, LineLadder::Clock::time_point arrived) SHOAL_EXCLUDES(mutex_);
  bool go_on(const LineMeasured& answer, LineLadder::Clock::time_point arrived)
      SHOAL_EXCLUDES(mutex_);
  void send_next_step() SHOAL_REQUIRES(mutex_);
  std::optional<HostLine> finished_line() SHOAL_REQUIRES(mutex_);
  void refuse(const Error& error) SHOAL_EXCLUDES(mutex_);
  void start_next_write() SHOAL_REQUIRES(mutex_);
  void finish(const grpc::Status& status) SHOAL_REQUIRES(mutex_);

  const ConnectionId id_;
  grpc::CallbackServerContext* const context_;
  InputPort& inputs_;
  const Caller caller_;
  const std::shared_ptr<AgentDoor> door_;
  const std::function<bool()> may_read_;
  const std::function<void(ConnectionId)> on_held_back_;
  const std::function<void(ConnectionId)> ended_;
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();

  v1::AgentMessage incoming_;  // reading callback only
  Mutex mutex_;
  std::deque<v1::CoordinatorMessage> queue_ SHOAL_GUARDED_BY(mutex_);
  v1::CoordinatorMessage outgoing_ SHOAL_GUARDED_BY(mutex_);
  grpc::Status last_words_ SHOAL_GUARDED_BY(mutex_);
  bool greeted_ SHOAL_GUARDED_BY(mutex_) =
      false;  // Hello was handed on, so the hang-up must be too
  std::optional<LineLadder> ladder_ SHOAL_GUARDED_BY(mutex_);  // of a measurement
  std::int64_t dropped_ SHOAL_GUARDED_BY(mutex_) = 0;          // messages that no agent receives
  bool held_back_ SHOAL_GUARDED_BY(mutex_) = false;
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool finished_ SHOAL_GUARDED_BY(mutex_) = false;
};

// An error on the wire: the status code that stands for it, the sentence that people read, and the
// Error itself (v1::Error) as the status' details. The details tell an agent that the coordinator
// said this and not gRPC, which has the same codes for a broken line. An Error of over 2 KiB goes
// without them.
grpc::Status to_status(const Error& error);

}  // namespace shoal::coordinator
