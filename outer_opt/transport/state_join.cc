// See state_join.h.
#include "outer_opt/transport/state_join.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "outer_opt/core/round/topology.h"
#include "outer_opt/transport/state_wire.h"
#include "outer_opt/transport/stream_messages.h"
#include "proto/peer.pb.h"
#include "threads/clock.h"

namespace shoal::outer_opt {
namespace {

constexpr std::chrono::nanoseconds kLookAtNews = std::chrono::milliseconds(100);
// The session ends an ask that takes too long for it; this ends one that it forgot.
constexpr Duration kAskLimit = seconds(3600), kReadLimit = seconds(10);

using wire::stream::ByteVector;
using wire::stream::Pair;
using wire::stream::Stream;

// By its number, too: behind two routers there may be the same address.
using SourceKey = std::pair<ReplicaId, std::string>;

struct Call {
  JoinSession::AskId id = 0;
  PeerAddress from;
  SourceKey key() const { return {from.replica, from.address}; }
  std::shared_ptr<const ByteVector> request;
  std::shared_ptr<Stream> stream;  // once the source is dialed
  ByteVector raw;                  // the answer as it came
  Result<StateAnswer> answer = Error{};
  std::size_t bytes = 0;
};
using CallPtr = std::shared_ptr<Call>;

// What happens in the node's thread, for the one that drives the session.
class CallNews {
 public:
  struct Dialed {
    SourceKey source;
    Result<Reached> reached;
  };
  void ended(CallPtr call) {
    const MutexLock lock(mutex_);
    ended_.push_back(std::move(call));
    changed_.notify_all();
  }
  void dialed(const SourceKey& source, Result<Reached> reached) {
    const MutexLock lock(mutex_);
    dialed_.push_back({source, std::move(reached)});
    changed_.notify_all();
  }
  // Until there is either, for at most so long.
  std::vector<Dialed> wait(std::chrono::nanoseconds limit) {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, limit, [this]() SHOAL_REQUIRES(mutex_) {
      return !ended_.empty() || !dialed_.empty();
    });
    return std::exchange(dialed_, {});
  }
  CallPtr take_ended() {
    const MutexLock lock(mutex_);
    if (ended_.empty()) return nullptr;
    CallPtr first = std::move(ended_.front());
    ended_.pop_front();
    return first;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<CallPtr> ended_ SHOAL_GUARDED_BY(mutex_);
  std::vector<Dialed> dialed_ SHOAL_GUARDED_BY(mutex_);
};

// The answer's message. Whatever comes, the call ends once, with closed().
class AnswerEvents final : public wire::stream::StreamEvents {
 public:
  AnswerEvents(CallPtr call, std::shared_ptr<CallNews> news, std::shared_ptr<Stream> stream)
      : call_(std::move(call)), news_(std::move(news)), stream_(std::move(stream)) {}

  std::optional<std::span<std::byte>> place(std::span<const std::byte>, std::size_t size) override {
    if (has_come_) return std::nullopt;
    has_come_ = true;
    body_.resize(size);
    return std::span(body_);
  }
  void arrived(std::span<const std::byte>, std::span<std::byte> body) override {
    stream_->release(body.size());
    is_whole_ = true;
  }
  void ended() override { stream_->end(); }
  // Parsing and hashing an answer is nothing for this thread: take() does it.
  void closed(const std::optional<Error>& error) override {
    stream_.reset();
    call_->bytes = body_.size();
    if (error)
      call_->answer = *error;
    else if (!is_whole_)
      call_->answer = no_message();
    else
      call_->raw = std::move(body_);
    news_->ended(std::move(call_));
  }

 private:
  CallPtr call_;
  const std::shared_ptr<CallNews> news_;
  std::shared_ptr<Stream> stream_;
  ByteVector body_;
  bool has_come_ = false, is_whole_ = false;
};

// The calls that are on their way. Nothing of them is left when this is gone.
class Calls {
 public:
  explicit Calls(const JoinDrive& drive) : drive_(drive) {}
  ~Calls() {
    for (const auto& [id, call] : running_) stop(*call);
    for (const Reached& each : reached_) each.let_go();
  }

  void send(const JoinSession::Ask& ask) {
    v1::StateAsk request;
    to_wire(ask.ask, is_slow_, request);
    const auto call = std::make_shared<Call>();
    call->id = ask.id;
    call->from = ask.source;
    call->request = body_of(request);
    running_[call->id] = call;
    Source& source = sources_[call->key()];
    if (source.pair) return start(call, *source.pair);
    source.waiting.push_back(call);
    if (std::exchange(source.is_dialed, true)) return;
    drive_.dial(call->from, [news = news_, key = call->key()](Result<Reached> reached) {
      news->dialed(key, std::move(reached));
    });
  }
  void cancel(JoinSession::AskId id) {
    const auto call = running_.find(id);
    if (call != running_.end()) stop(*call->second);
  }
  // The next one that ended, if one does in time.
  CallPtr ended(std::chrono::nanoseconds limit) {
    for (const auto& each : news_->wait(limit)) dialed(each.source, each.reached);
    const CallPtr call = news_->take_ended();
    if (!call) return nullptr;
    running_.erase(call->id);
    call->stream.reset();
    if (!call->raw.empty()) call->answer = read(call->raw);
    if (!call->answer.ok()) sources_.erase(call->key());
    count(static_cast<double>(call->bytes));
    return call;
  }

 private:
  struct Source {
    bool is_dialed = false;
    std::shared_ptr<Pair> pair;
    std::vector<CallPtr> waiting;  // for the pair
  };

  static Result<StateAnswer> read(const ByteVector& raw) {
    v1::StateAnswer answer;
    if (!parse(raw, answer)) return no_message();
    return from_wire(answer);
  }

  void dialed(const SourceKey& key, const Result<Reached>& reached) {
    if (reached.ok()) reached_.push_back(*reached);
    const auto source = sources_.find(key);
    if (source == sources_.end()) return;
    const std::vector<CallPtr> waiting = std::exchange(source->second.waiting, {});
    if (reached.ok()) source->second.pair = reached->pair;
    for (const CallPtr& call : waiting) {
      if (reached.ok()) {
        start(call, *reached->pair);
      } else {
        call->answer = reached.error();
        news_->ended(call);
      }
    }
  }

  void start(const CallPtr& call, Pair& pair) {
    call->stream = pair.open(
        kStatePurpose,
        [&](std::shared_ptr<Stream> stream) {
          return std::make_shared<AnswerEvents>(call, news_, std::move(stream));
        },
        kAskLimit);
    wire::stream::OutMessage message;
    message.body = {std::span(*call->request)};
    message.done = [request = call->request](bool) {};
    call->stream->send(std::move(message));
  }

  // It ends nevertheless, at once if it has not begun.
  void stop(Call& call) {
    if (call.stream) return call.stream->cancel({Code::kCancelled, "not wanted any more", "", ""});
    Source& source = sources_[call.key()];
    const auto waits = std::ranges::find_if(
        source.waiting, [&](const CallPtr& each) { return each.get() == &call; });
    if (waits == source.waiting.end()) return;
    call.answer = Error{Code::kCancelled, "not wanted any more", "", ""};
    news_->ended(*waits);
    source.waiting.erase(waits);
  }

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
  const std::shared_ptr<CallNews> news_ = std::make_shared<CallNews>();
  std::map<JoinSession::AskId, CallPtr> running_;
  std::map<SourceKey, Source> sources_;
  std::vector<Reached> reached_;  // all that were dialed
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  double bytes_ = 0;
  bool is_slow_ = false;
};

void hand_over(const Call& call, JoinSession& session) {
  const Instant now = steady_now();
  if (call.answer.ok()) return session.answered(call.id, *call.answer, now);
  Error error = call.answer.error();
  if (error.code != Code::kDataLoss) {
    error = {Code::kUnavailable,
             "the state could not be fetched from " + call.from.address + ": " + error.message, "",
             ""};
  }
  session.failed(call.id, error, now);
}

std::chrono::nanoseconds wait_of(const JoinSession& session) {
  const Instant now = steady_now();
  const auto look = session.wakeup_at(now);
  if (!look) return kLookAtNews;
  return std::clamp(std::chrono::nanoseconds((*look - now).ns),
                    std::chrono::nanoseconds(std::chrono::milliseconds(1)), kLookAtNews);
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

Status serve_state(wire::stream::BlockingStream& stream,
                   const std::function<StateAnswer(const StateAsk&)>& answer) {
  const auto message = stream.read(kReadLimit);
  if (!message.ok()) return message.error();
  v1::StateAsk request;
  if (!*message || !parse((*message)->body, request)) return no_message();
  const auto ask = from_wire(request);
  if (!ask) return ask.error();
  v1::StateAnswer reply;
  to_wire(answer(*ask), request.compact(), reply);
  stream.set_limit(kAskLimit);
  return stream.write({}, body_of(reply), kReadLimit);
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
    const auto call = calls.ended(wait_of(session));
    if (!call) continue;
    hand_over(*call, session);
    drive.moved(session);
  }
  return Error{Code::kCancelled, "joining was stopped", "", ""};
}

}  // namespace shoal::outer_opt
