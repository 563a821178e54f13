// The line of a process to the agent that started it: dials the Unix-domain socket, opens Attach,
// says TrainerReady and then hands on what the agent sends. Trainers and reducers use it.
//
// The process outlives its agent. When the stream ends, the same socket is dialed again until an
// agent answers or orphan_limit has passed; then TrainerReady says what the process works on, and
// the newest of what it said meanwhile is said again (messages/held_work.h).
//
// Both directions are written to the log (control_log.h), which is the standard error.
//
// say() may be called from any thread, and never waits for the agent: a thread of its own writes.
// What the agent sends and we cannot read ends the stream: the two are of different versions.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "agent_channel/control_log.h"
#include "base/result.h"
#include "messages/held_work.h"
#include "messages/trainer_messages.h"
#include "proto/trainer.grpc.pb.h"
#include "threads/mutex.h"

namespace shoal::agent_channel {

struct ControlOptions {
  std::string socket_path;
  std::string nonce;      // by which the agent knows this process
  std::string program;    // for complaints
  Duration orphan_limit;  // without an agent, until it is given up; 0: at once
};

// Called from the thread that reads, except `closing`, which the destructor calls before it
// waits for that thread: a command() that waits must give up then (false ends the reading).
struct ControlEvents {
  std::function<bool(ToTrainer)> command;
  std::function<void()> ended;  // no agent for longer than the limit: the process is to exit
  std::function<void()> closing;
  // Agents whose replicas are no longer trusted; before the command that they came with.
  std::function<void(const std::vector<AgentId>&)> revoked = nullptr;
  // How many the process's port has turned away; asked by the thread that writes, every few
  // seconds. Null: it has no port.
  std::function<RefusalCounts()> refusals = nullptr;
};

class Control {
 public:
  // kUnavailable when nobody answers on the socket within kDialLimit.
  static Result<std::unique_ptr<Control>> dial(ControlOptions options, ControlEvents events);
  ~Control();  // what was said last is on its way before the stream goes

  void start(const TrainerReady& ready);  // says it and begins to read
  void say(const FromTrainer& message);

 private:
  class Session;
  using Clock = std::chrono::steady_clock;
  static constexpr Duration kDialLimit = seconds(20);
  static constexpr Duration kDialAgainLimit = seconds(2);  // of one of many attempts
  static constexpr Duration kDialEvery = milliseconds(200);
  static constexpr Duration kSettled = seconds(5);  // a stream that lasted was not a refusal
  static constexpr Duration kFlushLimit = seconds(2);
  static constexpr Duration kCountEvery = seconds(2);  // refusals are told
  static constexpr std::size_t kQueueMax = 4096;

  Control(ControlOptions options, ControlEvents events);
  void live() SHOAL_EXCLUDES(mutex_);    // streams, one after another
  bool attend() SHOAL_EXCLUDES(mutex_);  // one stream, until it ends; false: this process ends
  void greet() SHOAL_EXCLUDES(mutex_);
  void end_stream() SHOAL_EXCLUDES(mutex_);
  void read_all() SHOAL_EXCLUDES(mutex_);
  void write_all() SHOAL_EXCLUDES(mutex_);
  // False: none within the limit, or this process ends.
  bool find_agent(Clock::time_point lost_at) SHOAL_EXCLUDES(mutex_);
  bool pause() SHOAL_EXCLUDES(mutex_);  // false: this process ends
  void tell_revoked(const v1::TrainerCommand& wire);
  void tell_refusals(RefusalCounts& told) SHOAL_REQUIRES(mutex_);

  const ControlOptions options_;
  const ControlEvents events_;
  ControlLog log_;
  TrainerReady ready_;

  Mutex mutex_;
  CondVar changed_;
  HeldWork work_ SHOAL_GUARDED_BY(mutex_);
  std::deque<FromTrainer> queue_ SHOAL_GUARDED_BY(mutex_);  // to be written on the open stream
  std::unique_ptr<Session> session_;  // set and reset by the thread that reads, with the lock
  bool attached_ SHOAL_GUARDED_BY(mutex_) = false;  // the stream is open and ready was said
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shoal::agent_channel
