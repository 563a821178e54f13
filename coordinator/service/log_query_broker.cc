#include "coordinator/service/log_query_broker.h"

#include <deque>
#include <optional>

#include "proto/convert_logs.h"

namespace shoal::coordinator {
namespace {

using Clock = std::chrono::steady_clock;

Error not_connected() {
  return {Code::kUnavailable, "the agent is not connected", "",
          "its lines are on its host, in logs/agent.log of its data folder"};
}

class RefusedLogs final : public LogQueryBroker::Reactor {
 public:
  explicit RefusedLogs(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

// The stream of one agent. Answers come in the order of the questions.
class LogQueryBroker::Stream final : public LogQueryBroker::Reactor {
 public:
  Stream(LogQueryBroker& broker, AgentId machine) : broker_(broker), machine_(machine) {}

  void begin() { StartRead(&incoming_); }

  void ask(const LogQuery& query, LogDone done) {
    const auto refusal = place(query, done);
    if (refusal) done(*refusal);
  }

  void expire(Clock::time_point now) {
    std::vector<LogDone> late;
    {
      const MutexLock guard(mutex_);
      while (!waiting_.empty() && waiting_.front().until <= now) {
        late.push_back(std::move(waiting_.front().done));
        waiting_.pop_front();
      }
    }
    for (const LogDone& done : late)
      done(Error{Code::kDeadlineExceeded, "the agent did not answer in time", "",
                 "try again; a host that is busy with its disk is slow to read its logs"});
  }

  void end(const grpc::Status& status) SHOAL_EXCLUDES(mutex_) {
    const MutexLock guard(mutex_);
    finish(status);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return end(grpc::Status::OK);
    if (!take(incoming_)) {
      return end({grpc::StatusCode::INVALID_ARGUMENT, "the answer does not match the query"});
    }
    {
      const MutexLock guard(mutex_);
      if (finished_) return;
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    const MutexLock guard(mutex_);
    writing_ = false;
    if (finished_) return;
    if (!ok) return finish(grpc::Status::OK);
    if (!questions_.empty()) write_next();
  }

  void OnDone() override {
    std::deque<Waiting> left;
    {
      const MutexLock guard(mutex_);
      left.swap(waiting_);
    }
    for (const Waiting& one : left) one.done(not_connected());
    broker_.forget(this);  // may be the last reference
  }

 private:
  struct Waiting {
    std::uint64_t id;
    Clock::time_point until;
    LogDone done;
  };

  bool take(const v1::LogAnswer& message) SHOAL_EXCLUDES(mutex_) {
    if (!named_) {
      named_ = true;
      const AgentId agent(message.agent());
      if (agent.n == 0 || (machine_.n != 0 && machine_ != agent)) return false;
      broker_.greeted(agent, this);
      return true;
    }
    LogDone done;
    {
      const MutexLock guard(mutex_);
      if (message.id() == 0 || message.id() > last_id_) return false;
      // An answer that came too late is dropped: no request waits for it.
      if (waiting_.empty() || waiting_.front().id != message.id()) return true;
      done = std::move(waiting_.front().done);
      waiting_.pop_front();
    }
    done(proto::read(message));
    return true;
  }

  // None: the question is on its way, and has taken `done`.
  std::optional<Error> place(const LogQuery& query, LogDone& done) SHOAL_EXCLUDES(mutex_) {
    const MutexLock guard(mutex_);
    if (finished_) return not_connected();
    if (waiting_.size() >= kWaitingMax || questions_.size() >= kWaitingMax) {
      return Error{Code::kResourceExhausted, "too many log queries wait for this agent", "",
                   "try again in a few seconds"};
    }
    const std::uint64_t id = ++last_id_;
    waiting_.push_back({id, Clock::now() + broker_.answer_max_, std::move(done)});
    questions_.push_back(proto::to_wire(id, query));
    if (!writing_) write_next();
    return std::nullopt;
  }

  void write_next() SHOAL_REQUIRES(mutex_) {
    writing_ = true;
    outgoing_ = std::move(questions_.front());
    questions_.pop_front();
    StartWrite(&outgoing_);
  }

  void finish(const grpc::Status& status) SHOAL_REQUIRES(mutex_) {
    if (finished_) return;
    finished_ = true;
    Finish(status);
  }

  LogQueryBroker& broker_;
  const AgentId machine_;
  v1::LogAnswer incoming_;  // reading callback only
  bool named_ = false;      // reading callback only
  Mutex mutex_;
  std::deque<Waiting> waiting_ SHOAL_GUARDED_BY(mutex_);
  std::deque<v1::LogQuestion> questions_ SHOAL_GUARDED_BY(mutex_);
  v1::LogQuestion outgoing_ SHOAL_GUARDED_BY(mutex_);
  std::uint64_t last_id_ SHOAL_GUARDED_BY(mutex_) = 0;
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool finished_ SHOAL_GUARDED_BY(mutex_) = false;
};

LogQueryBroker::Reactor* LogQueryBroker::open(AgentId machine) {
  const auto stream = std::make_shared<Stream>(*this, machine);
  {
    const MutexLock guard(mutex_);
    if (stopping_ || streams_.size() >= kStreamsMax) {
      return new RefusedLogs(
          {grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping or has too many agents"});
    }
    streams_.emplace(stream.get(), stream);
  }
  stream->begin();
  return stream.get();
}

void LogQueryBroker::ask(AgentId agent, const LogQuery& query, LogDone done) {
  if (const auto stream = find(agent)) return stream->ask(query, std::move(done));
  done(not_connected());
}

void LogQueryBroker::watch() {
  for (const auto& stream : all()) stream->expire(Clock::now());
}

void LogQueryBroker::stop() {
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
  }
  for (const auto& stream : all())
    stream->end({grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"});
}

std::shared_ptr<LogQueryBroker::Stream> LogQueryBroker::find(AgentId agent) {
  const MutexLock guard(mutex_);
  const auto found = by_agent_.find(agent);
  return found == by_agent_.end() ? nullptr : found->second;
}

void LogQueryBroker::greeted(AgentId agent, const Stream* stream) {
  std::shared_ptr<Stream> older;
  {
    const MutexLock guard(mutex_);
    const auto known = streams_.find(stream);
    if (known == streams_.end()) return;
    std::swap(older, by_agent_[agent]);
    by_agent_[agent] = known->second;
  }
  if (older) older->end({grpc::StatusCode::ABORTED, "a newer stream of the agent took its place"});
}

void LogQueryBroker::forget(const Stream* stream) {
  std::shared_ptr<Stream> dropped;  // destroyed outside the lock
  const MutexLock guard(mutex_);
  const auto known = streams_.find(stream);
  if (known == streams_.end()) return;
  dropped = std::move(known->second);
  streams_.erase(known);
  for (auto it = by_agent_.begin(); it != by_agent_.end();)
    it = it->second.get() == stream ? by_agent_.erase(it) : std::next(it);
}

std::vector<std::shared_ptr<LogQueryBroker::Stream>> LogQueryBroker::all() {
  const MutexLock guard(mutex_);
  std::vector<std::shared_ptr<Stream>> list;
  for (const auto& [key, stream] : streams_) list.push_back(stream);
  return list;
}

}  // namespace shoal::coordinator
