#include "coordinator/service/agent_session.h"

#include <random>

#include <spdlog/spdlog.h>

#include "base/wire_text.h"
#include "proto/convert.h"
#include "proto/outsize.h"

namespace shoal::coordinator {
namespace {

// gRPC sends the details beside the sentence in a header block, which may have 8 KiB.
constexpr std::size_t kDetailsBytesMax = 2048;
constexpr const char* kOverloaded = "the coordinator is stopping or overloaded; come back later";

grpc::StatusCode status_code(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kValidation:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kConflict:
      return grpc::StatusCode::ABORTED;
    case Code::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case Code::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case Code::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case Code::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Code::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::kIncompatible:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Code::kDataLoss:
      return grpc::StatusCode::DATA_LOSS;
    case Code::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case Code::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::UNKNOWN;
}

}  // namespace

grpc::Status to_status(const Error& error) {
  v1::Error details;
  details.set_code(to_string(error.code));
  details.set_message(valid_text(error.message));
  details.set_field(valid_text(error.field));
  details.set_remedy(valid_text(error.remedy));
  std::string bytes;
  if (details.ByteSizeLong() <= kDetailsBytesMax) bytes = details.SerializeAsString();
  return {status_code(error.code), to_string(error), bytes};
}

AgentSession::AgentSession(ConnectionId id, grpc::CallbackServerContext* context, InputPort& inputs,
                           Caller caller, std::shared_ptr<AgentDoor> door,
                           std::function<bool()> may_read,
                           std::function<void(ConnectionId)> held_back,
                           std::function<void(ConnectionId)> ended)
    : id_(id),
      context_(context),
      inputs_(inputs),
      caller_(std::move(caller)),
      door_(std::move(door)),
      may_read_(std::move(may_read)),
      on_held_back_(std::move(held_back)),
      ended_(std::move(ended)) {}

void AgentSession::begin() { StartRead(&incoming_); }

// ---- reading

void AgentSession::OnReadDone(bool ok) {
  if (!ok) return close_now(grpc::Status::OK);  // the agent hung up, or the stream broke
  if (!accept(incoming_)) return;
  const bool may_read = may_read_();
  {
    const MutexLock guard(mutex_);
    held_back_ = !may_read;
    if (finished_) return;
  }
  if (may_read) return StartRead(&incoming_);
  on_held_back_(id_);
}

bool AgentSession::read_on() {
  {
    const MutexLock guard(mutex_);
    if (!held_back_ || finished_) return false;
  }
  if (!may_read_()) return true;
  {
    const MutexLock guard(mutex_);
    if (finished_) return false;
    held_back_ = false;
  }
  StartRead(&incoming_);
  return false;
}

bool AgentSession::accept(const v1::AgentMessage& message) {
  const auto arrived = LineLadder::Clock::now();
  bool taken = false, greeted = false;
  {
    const MutexLock guard(mutex_);
    greeted = greeted_;
  }
  if (!greeted) {
    Result<Hello> hello = proto::read_hello(message);
    if (!hello) return refuse(hello.error()), false;
    if (const Status folder = door_->admit_folder(caller_, hello->uid, hello->name); !folder.ok())
      return refuse(folder.error()), false;
    taken = inputs_.post(AgentHello{id_, std::move(hello).value(), caller_.machine});
    const MutexLock guard(mutex_);
    greeted_ = taken;
  } else {
    Result<FromAgent> said = proto::read(message);
    if (!said) return refuse(said.error()), false;
    taken = take(std::move(said).value(), arrived);
  }
  if (!taken) {
    close_now({grpc::StatusCode::UNAVAILABLE, kOverloaded});
  }
  return taken;
}

bool AgentSession::take(FromAgent message, LineLadder::Clock::time_point arrived) {
  if (const auto* answer = std::get_if<LineMeasured>(&message)) return go_on(*answer, arrived);
  return inputs_.post(AgentSaid{id_, std::move(message)});
}

void AgentSession::refuse(const Error& error) {
  inputs_.count_refused_message();
  close_now(to_status(error));
}

// ---- the line

void AgentSession::measure_line() {
  const auto draw = [] {
    std::random_device device;
    const std::uint64_t high = device();
    return high << 32 | device();
  };
  const MutexLock guard(mutex_);
  if (closing_ || finished_) return;
  ladder_.emplace(draw, LineLadder::Clock::now());
  send_next_step();
}

void AgentSession::send_next_step() {
  queue_.push_back(proto::to_wire(ToAgent(ladder_->next())));
  if (!writing_) start_next_write();
}

std::optional<HostLine> AgentSession::finished_line() {
  if (!ladder_ || !ladder_->is_over()) return std::nullopt;
  const HostLine line = ladder_->line();
  ladder_.reset();
  return line;
}

bool AgentSession::go_on(const LineMeasured& answer, LineLadder::Clock::time_point arrived) {
  std::optional<HostLine> line;
  {
    const MutexLock guard(mutex_);
    if (closing_ || finished_ || !ladder_ || !ladder_->answered(answer, arrived)) return true;
    line = finished_line();
    if (!line) send_next_step();
  }
  return !line || inputs_.post(HostLineMeasured{id_, *line});
}

void AgentSession::end_late_measurement() {
  std::optional<HostLine> line;
  {
    const MutexLock guard(mutex_);
    if (!ladder_) return;
    ladder_->look(LineLadder::Clock::now());
    line = finished_line();
  }
  if (line && !inputs_.post(HostLineMeasured{id_, *line})) {
    close_now({grpc::StatusCode::UNAVAILABLE, kOverloaded});
  }
}

// ---- writing

void AgentSession::send(v1::CoordinatorMessage message) {
  const auto dropped = proto::outsize(message, proto::kToAgentBytesMax);
  const MutexLock guard(mutex_);
  if (closing_ || finished_) return;
  if (dropped) {
    return spdlog::error("drops message {} of session {} to an agent: {}", ++dropped_, id_.n,
                         *dropped);
  }
  if (queue_.size() >= kQueueMax) {
    queue_.clear();
    // A write may be stuck behind a peer that does not read; only a cancel gets it back.
    context_->TryCancel();
    return finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "the agent does not read its messages"});
  }
  queue_.push_back(std::move(message));
  if (!writing_) start_next_write();
}

void AgentSession::start_next_write() {
  writing_ = true;
  outgoing_ = std::move(queue_.front());
  queue_.pop_front();
  if (ladder_ && outgoing_.has_measure_line()) {
    ladder_->sent(outgoing_.measure_line().id(), LineLadder::Clock::now());
  }
  StartWrite(&outgoing_);
}

void AgentSession::OnWriteDone(bool ok) {
  const MutexLock guard(mutex_);
  writing_ = false;
  if (finished_) return;
  if (!ok) return finish(grpc::Status::OK);  // the stream is gone; nobody reads this status
  if (!queue_.empty()) return start_next_write();
  if (closing_) finish(last_words_);
}

void AgentSession::close(grpc::Status status) {
  const MutexLock guard(mutex_);
  if (closing_ || finished_) return;
  closing_ = true;
  last_words_ = std::move(status);
  if (!writing_) finish(last_words_);
}

void AgentSession::close_now(grpc::Status status) {
  const MutexLock guard(mutex_);
  queue_.clear();
  finish(status);
}

void AgentSession::finish(const grpc::Status& status) {
  if (finished_) return;
  finished_ = true;
  Finish(status);
}

void AgentSession::OnDone() {
  bool greeted = false;
  {
    const MutexLock guard(mutex_);
    greeted = greeted_;
  }
  if (greeted) inputs_.post(AgentHungUp{id_});
  const auto ended = ended_;  // this object may go while it runs
  ended(id_);
}

bool AgentSession::is_late(std::chrono::steady_clock::time_point opened_before) {
  const MutexLock guard(mutex_);
  return !greeted_ && !finished_ && opened_ <= opened_before;
}

}  // namespace shoal::coordinator
