// See state_join.h.
#include "outer_opt/transport/state_join.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "outer_opt/core/round/topology.h"
#include "outer_opt/transport/state_wire.h"
#include "proto/peer.grpc.pb.h"
#include "threads/clock.h"

namespace shoal::outer_opt {
namespace {

constexpr auto kLookAtNews = std::chrono::milliseconds(100);

struct Call {
  JoinSession::AskId id = 0;
  std::string address;
  grpc::ClientContext context;
  grpc::Status status;
  v1::StateAnswer answer;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::StateAnswer>> reader;
};

// The calls that are on their way. All of them end before this does.
class Calls {
 public:
  explicit Calls(const JoinDrive& drive) : drive_(drive) {}
  ~Calls() {
    for (auto& [id, call] : running_) call->context.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) delete static_cast<Call*>(tag);
  }

  void send(const JoinSession::Ask& ask) {
    v1::StateAsk request;
    to_wire(ask.ask, is_slow_, request);
    auto call = std::make_unique<Call>();
    call->id = ask.id;
    call->address = ask.source.address;
    auto& stub = stubs_[ask.source.address];
    if (!stub) stub = v1::PeerService::NewStub(drive_.dial(ask.source.address));
    call->reader = stub->AsyncAskState(&call->context, request, &queue_);
    Call* tag = call.release();
    running_[tag->id] = tag;
    tag->reader->Finish(&tag->answer, &tag->status, tag);
  }
  void cancel(JoinSession::AskId id) {
    const auto call = running_.find(id);
    if (call != running_.end()) call->second->context.TryCancel();
  }
  // The next one that ended, if one does in time.
  std::unique_ptr<Call> ended(std::chrono::system_clock::time_point until) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, until) != grpc::CompletionQueue::GOT_EVENT) return nullptr;
    std::unique_ptr<Call> call(static_cast<Call*>(tag));
    running_.erase(call->id);
    if (!call->status.ok()) stubs_.erase(call->address);
    count(static_cast<double>(call->answer.ByteSizeLong()));
    return call;
  }

 private:
  // Entropy coding pays on lines below a rate, once that has shown itself.
  void count(double bytes) {
    const std::chrono::duration<double> over = std::chrono::steady_clock::now() - begun_;
    bytes_ += bytes;
    if (over.count() < 1) return;
    is_slow_ = bytes_ > 0 && bytes_ < kEntropyBelow * over.count();
    bytes_ = 0;
    begun_ = std::chrono::steady_clock::now();
  }

  const JoinDrive& drive_;
  grpc::CompletionQueue queue_;
  std::map<JoinSession::AskId, Call*> running_;
  std::map<std::string, std::unique_ptr<v1::PeerService::Stub>> stubs_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  double bytes_ = 0;
  bool is_slow_ = false;
};

void hand_over(const Call& call, JoinSession& session) {
  const Instant now = steady_now();
  if (!call.status.ok()) {
    return session.failed(
        call.id,
        {Code::kUnavailable,
         "the state could not be fetched from " + call.address + ": " + call.status.error_message(),
         "", ""},
        now);
  }
  const auto answer = from_wire(call.answer);
  answer ? session.answered(call.id, *answer, now) : session.failed(call.id, answer.error(), now);
}

std::chrono::system_clock::time_point wake_at(const JoinSession& session) {
  const Instant now = steady_now();
  auto wait = std::chrono::nanoseconds(kLookAtNews);
  if (const auto look = session.wakeup_at(now)) {
    wait = std::clamp(std::chrono::nanoseconds((*look - now).ns),
                      std::chrono::nanoseconds(std::chrono::milliseconds(1)), wait);
  }
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(wait);
}

}  // namespace

void JoinNews::aim(RoundNumber round, std::vector<PeerAddress> sources) {
  const MutexLock lock(mutex_);
  round_ = round;
  sources_ = std::move(sources);
}

void JoinNews::tell(JoinSession& session, Instant now) {
  const MutexLock lock(mutex_);
  if (!round_) return;
  session.set_sources(sources_, now);
  session.aim(*round_);
  round_.reset();
}

Status run_join(JoinSession& session, JoinNews& news, const JoinDrive& drive,
                std::stop_token stop) {
  Calls calls(drive);
  while (!stop.stop_requested()) {
    news.tell(session, steady_now());
    const JoinSession::Next next = session.next(steady_now());
    for (const std::string& complaint : session.take_complaints()) drive.complain(complaint);
    if (session.state() == JoinSession::State::kLevel) return {};
    if (session.state() == JoinSession::State::kGivenUp) return session.error();
    for (const JoinSession::AskId id : next.cancel) calls.cancel(id);
    for (const JoinSession::Ask& ask : next.send) calls.send(ask);
    const auto call = calls.ended(wake_at(session));
    if (!call) continue;
    hand_over(*call, session);
    drive.moved(session);
  }
  return Error{Code::kCancelled, "joining was stopped", "", ""};
}

}  // namespace shoal::outer_opt
