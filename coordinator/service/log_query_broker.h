// Questions to agents about their logs. Each agent that has joined holds one stream open
// (proto/logs.proto); a question waits for its answer there, with a deadline. A stream that says
// anything but an answer to what it was asked is ended.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "base/log_lines.h"
#include "base/result.h"
#include "proto/logs.grpc.pb.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

using LogDone = std::function<void(Result<LogPage>)>;

class LogQueryBroker {
 public:
  static constexpr std::size_t kStreamsMax = 20'000;
  static constexpr std::size_t kWaitingMax = 32;  // questions to one agent

  // A question waits that long for its answer.
  explicit LogQueryBroker(std::chrono::milliseconds answer_max) : answer_max_(answer_max) {}

  using Reactor = grpc::ServerBidiReactor<v1::LogAnswer, v1::LogQuestion>;
  // For a call of this machine; none: of whichever it says.
  Reactor* open(AgentId machine);

  // `done` runs once, on any thread: the page, kUnavailable (no stream, or it ended),
  // kResourceExhausted (too many questions) or kDeadlineExceeded.
  void ask(AgentId agent, const LogQuery& query, LogDone done);

  void watch();  // ends what waited too long; call about once a second
  void stop();   // ends all streams

 private:
  class Stream;
  std::shared_ptr<Stream> find(AgentId agent) SHOAL_EXCLUDES(mutex_);
  void greeted(AgentId agent, const Stream* stream)
      SHOAL_EXCLUDES(mutex_);  // replaces an older stream of the agent
  void forget(const Stream* stream) SHOAL_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<Stream>> all() SHOAL_EXCLUDES(mutex_);

  const std::chrono::milliseconds answer_max_;
  Mutex mutex_;
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::map<const Stream*, std::shared_ptr<Stream>> streams_ SHOAL_GUARDED_BY(mutex_);
  std::map<AgentId, std::shared_ptr<Stream>> by_agent_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::coordinator
