// See control.h.
#include "agent_channel/control.h"

#include <chrono>
#include <iostream>

#include <grpcpp/grpcpp.h>

#include "proto/convert.h"
#include "proto/outsize.h"
#include "proto/unreadable.h"
#include "wire/metadata.h"

namespace shoal::agent_channel {
namespace {

constexpr Duration kKeepalive = seconds(60);  // the agent permits a ping every 30 s
constexpr int kMessageBytesMax = 16 << 20;

std::chrono::nanoseconds wait_of(Duration duration) {
  return std::chrono::nanoseconds(duration.ns);
}

// A new channel each time, so that gRPC's back-off is not carried over.
std::shared_ptr<grpc::Channel> open_channel(const std::string& socket_path) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);  // the time that one attempt has
  // An agent that is frozen is noticed by its silence.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepalive.ms()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepalive.ms()));
  return grpc::CreateCustomChannel("unix:" + socket_path, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// A broken file of output stays broken for std::cerr, unless it is told.
void write_line(const std::string& line) {
  std::cerr.clear();
  std::cerr << line + "\n";
}

}  // namespace

// One stream. read() by one thread, write() by another, cancel() by any.
class Control::Session {
 public:
  // Null when nobody answers within the limit.
  static std::unique_ptr<Session> open(const ControlOptions& options, Duration limit) {
    std::unique_ptr<Session> session(new Session());
    session->channel_ = open_channel(options.socket_path);
    if (!session->channel_->WaitForConnected(std::chrono::system_clock::now() + wait_of(limit))) {
      return nullptr;
    }
    session->stub_ = v1::TrainerHost::NewStub(session->channel_);
    session->context_.AddMetadata(wire::kTrainerNonceName, options.nonce);
    session->stream_ = session->stub_->Attach(&session->context_);
    return session;
  }

  bool write(const FromTrainer& message) {
    const v1::TrainerMessage wire = proto::to_wire(message);
    if (const auto why = proto::outsize(wire, proto::kOnHostBytesMax)) {
      write_line("error: message_dropped count=" + std::to_string(++dropped_) + ": " + *why);
      return true;
    }
    return stream_->Write(wire);
  }
  bool read(v1::TrainerCommand& wire) { return stream_->Read(&wire); }
  void say_no_more() { stream_->WritesDone(); }
  void cancel() { context_.TryCancel(); }
  ~Session() {
    if (stream_ == nullptr) return;
    cancel();
    stream_->Finish();
  }

 private:
  Session() = default;
  std::int64_t dropped_ = 0;  // messages; the writer's
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TrainerHost::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::TrainerMessage, v1::TrainerCommand>> stream_;
};

Result<std::unique_ptr<Control>> Control::dial(ControlOptions options, ControlEvents events) {
  std::unique_ptr<Control> control(new Control(std::move(options), std::move(events)));
  control->session_ = Session::open(control->options_, kDialLimit);
  if (control->session_ != nullptr) return control;
  return Error{Code::kUnavailable, "no agent answers on " + control->options_.socket_path,
               "SHOAL_TRAINER_SOCKET", control->options_.program + " is started by shoal-agent"};
}

Control::Control(ControlOptions options, ControlEvents events)
    : options_(std::move(options)), events_(std::move(events)), log_(write_line) {}

Control::~Control() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  events_.closing();
  end_stream();
  if (thread_.joinable()) thread_.join();
}

// The agent ends it when it has read everything.
void Control::end_stream() {
  const MutexLock lock(mutex_);
  const auto written = [this]() SHOAL_REQUIRES(mutex_) {
    return !attached_ || (queue_.empty() && !writing_);
  };
  if (changed_.wait_for(mutex_, wait_of(kFlushLimit), written) && attached_) {
    session_->say_no_more();
    changed_.wait_for(mutex_, wait_of(kFlushLimit),
                      [this]() SHOAL_REQUIRES(mutex_) { return !attached_; });
  }
  if (session_ != nullptr) session_->cancel();
}

void Control::start(const TrainerReady& ready) {
  ready_ = ready;
  thread_ = std::thread([this] { live(); });
}

void Control::say(const FromTrainer& message) {
  log_.said(message);
  {
    const MutexLock lock(mutex_);
    work_.said(message);
    if (!attached_) return;
    if (queue_.size() >= kQueueMax) return session_->cancel();  // it does not read: frozen
    queue_.push_back(message);
  }
  changed_.notify_all();
}

// A stream that ends at once was refused: the search continues.
void Control::live() {
  auto found_at = Clock::now(), lost_at = found_at;
  while (attend()) {
    if (Clock::now() - found_at >= wait_of(kSettled)) lost_at = Clock::now();
    if (!find_agent(lost_at)) break;
    found_at = Clock::now();
  }
  events_.ended();
}

bool Control::attend() {
  greet();
  std::thread writer([this] { write_all(); });
  read_all();
  {
    const MutexLock lock(mutex_);
    if (!closing_) attached_ = false, session_->cancel();
  }
  changed_.notify_all();
  writer.join();
  const MutexLock lock(mutex_);
  attached_ = false;
  queue_.clear();
  session_.reset();
  changed_.notify_all();
  return !closing_;
}

// Ready comes first; what is said from now on follows what is said again.
void Control::greet() {
  const MutexLock lock(mutex_);
  TrainerReady ready = ready_;
  ready.holds = work_.holds();
  queue_.push_back(std::move(ready));
  for (FromTrainer& message : work_.say_again()) queue_.push_back(std::move(message));
  attached_ = true;
}

void Control::write_all() {
  RefusalCounts told;  // on this stream: an agent that is new is told all
  auto next_count = Clock::now() + wait_of(kCountEvery);
  const MutexLock lock(mutex_);
  for (;;) {
    const auto has_work = [this]() SHOAL_REQUIRES(mutex_) {
      return !attached_ || closing_ || !queue_.empty();
    };
    (void)changed_.wait_until(mutex_, next_count, has_work);
    if (Clock::now() >= next_count) {  // also while there is always something to say
      tell_refusals(told);
      next_count = Clock::now() + wait_of(kCountEvery);
    }
    if (!attached_ || (closing_ && queue_.empty())) return;
    if (queue_.empty()) continue;
    const FromTrainer message = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    bool written = false;  // the stream ended; the reader sees it
    {
      const MutexUnlock meanwhile(mutex_);
      written = session_->write(message);
    }
    writing_ = false;
    changed_.notify_all();
    if (!written) return;
  }
}

void Control::tell_refusals(RefusalCounts& told) {
  if (!events_.refusals) return;
  const RefusalCounts now = events_.refusals();
  if (now == told) return;
  told = now;
  queue_.push_back(PortRefusals{to_list(now)});
}

void Control::read_all() {
  v1::TrainerCommand wire;
  while (session_->read(wire)) {
    auto command = proto::read(wire);
    if (!command) {
      if (const auto refused = proto::refusal_of(wire, command.error(), options_.program)) {
        say(*refused);
        continue;
      }
      write_line(options_.program +
                 ": the agent sent a message that cannot be read: " + to_string(command.error()));
      return;
    }
    log_.heard(*command);
    {
      const MutexLock lock(mutex_);
      work_.heard(*command);
    }
    tell_revoked(wire);
    if (!events_.command(std::move(*command))) return;
  }
}

void Control::tell_revoked(const v1::TrainerCommand& wire) {
  if (wire.revoked().empty() || !events_.revoked) return;
  std::vector<AgentId> agents;
  for (const std::uint64_t id : wire.revoked()) agents.emplace_back(id);
  events_.revoked(agents);
}

bool Control::find_agent(Clock::time_point lost_at) {
  const auto limit = wait_of(options_.orphan_limit);
  if (limit.count() == 0) return false;
  write_line("info: agent_lost limit_s=" + std::to_string(options_.orphan_limit.ms() / 1000));
  while (Clock::now() - lost_at < limit) {
    if (!pause()) return false;
    auto session = Session::open(options_, kDialAgainLimit);
    if (session == nullptr) continue;
    const MutexLock lock(mutex_);
    if (closing_) return false;
    session_ = std::move(session);
    write_line("info: agent_found");
    return true;
  }
  write_line(options_.program + ": no agent came back within " +
             std::to_string(options_.orphan_limit.ms() / 1000) + " s");
  return false;
}

bool Control::pause() {
  const MutexLock lock(mutex_);
  return !changed_.wait_for(mutex_, wait_of(kDialEvery),
                            [this]() SHOAL_REQUIRES(mutex_) { return closing_; });
}

}  // namespace shoal::agent_channel
