// The envelopes: which body goes into which case of a oneof, and back. The bodies are in
// the convert_*.cc beside this one.
#include "proto/convert.h"

#include "proto/convert_parts.h"

namespace shoal::proto {
namespace {

// What the envelope calls the body of a type, for writing. The replica id of FromReplica and
// ToReplica is a field of the envelope.
template <typename Envelope>
struct Writer {
  Envelope& out;

  void operator()(const Heartbeat& b) { put(b, *out.mutable_heartbeat()); }
  void operator()(const DeviceMeasured& b) { put(b.device, *out.mutable_device_measured()); }
  void operator()(const Loaded& b) { put(b, *out.mutable_loaded()); }
  void operator()(const LoadProgress& b) { put(b, *out.mutable_load_progress()); }
  void operator()(const ReplicaFailed& b) { put(b, *out.mutable_replica_failed()); }
  void operator()(const Progress& b) { put(b, *out.mutable_progress()); }
  void operator()(const PipelineStats& b) { put(b, *out.mutable_pipeline_stats()); }
  void operator()(const CheckpointWritten& b) { put(b, *out.mutable_checkpoint_written()); }
  void operator()(const CheckpointFailed& b) { put(b, *out.mutable_checkpoint_failed()); }
  void operator()(const Goodbye& b) { put(b, *out.mutable_goodbye()); }
  void operator()(const RoundReport& b) { put(b, *out.mutable_report()); }
  void operator()(const Vote& b) { put(b, *out.mutable_vote()); }
  void operator()(const ReduceFailed& b) { put(b, *out.mutable_reduce_failed()); }
  void operator()(const Applied& b) { put(b, *out.mutable_applied()); }
  void operator()(const Evaluated& b) { put(b, *out.mutable_evaluated()); }

  void operator()(const Welcome& b) { put(b, *out.mutable_welcome()); }
  void operator()(const Refused& b) { put(b.error, *out.mutable_refused()); }
  void operator()(const Assign& b) { put(b, *out.mutable_assign()); }
  void operator()(const Release& b) { put(b, *out.mutable_release()); }
  void operator()(const ForgetCheckpoint& b) { put(b, *out.mutable_forget_checkpoint()); }
  void operator()(const PipelineView& b) { put(b, *out.mutable_view()); }
  void operator()(const OpenRound& b) { put(b, *out.mutable_open()); }
  void operator()(const CloseRound& b) { put(b, *out.mutable_close()); }
  void operator()(const ReducePlan& b) { put(b, *out.mutable_reduce()); }
  void operator()(const CommitRound& b) { put(b, *out.mutable_commit()); }
  void operator()(const AbortRound& b) { put(b, *out.mutable_abort()); }
  void operator()(const ResumeAt& b) { put(b, *out.mutable_resume()); }
  void operator()(const Evaluate& b) { put(b, *out.mutable_evaluate()); }
  void operator()(const WriteCheckpoint& b) { put(b, *out.mutable_write_checkpoint()); }

  void operator()(const TrainerReady& b) { put(b, *out.mutable_ready()); }
  void operator()(const CheckpointReady& b) { put(b, *out.mutable_checkpoint_ready()); }
  void operator()(const LoadReplica& b) { put(b, *out.mutable_load()); }
  void operator()(const WriteCheckpointTo& b) { put(b, *out.mutable_write_checkpoint()); }
  void operator()(const StopTrainer&) { out.mutable_stop(); }

  template <typename Body>
  void operator()(const FromReplica<Body>& message) {
    addressed(message);
  }
  template <typename Body>
  void operator()(const ToReplica<Body>& message) {
    addressed(message);
  }

 private:
  template <typename Message>
  void addressed(const Message& message) {
    out.set_replica(message.replica.n);
    (*this)(message.body);
  }
};

template <typename Envelope, typename Variant>
Envelope written(const Variant& message) {
  Envelope out;
  std::visit(Writer<Envelope>{out}, message);
  return out;
}

void get(Reader& reader, const v1::Device& from, DeviceMeasured& to) {
  get(reader, from, to.device);
}
void get(Reader& reader, const v1::Error& from, Refused& to) { get(reader, from, to.error); }

// Reads a body under the name of its case.
template <typename Message, typename Body, typename Wire>
Result<Message> body(std::string_view name, const Wire& wire) {
  Reader reader;
  Body value;
  {
    const Reader::Inside inside(reader, name);
    get(reader, wire, value);
  }
  if (!reader.ok()) return reader.error();
  return Message(std::move(value));
}

// The same for a body that its envelope addresses to, or says for, a replica.
template <typename Message, typename Addressed, typename Wire>
Result<Message> addressed(std::string_view name, std::uint64_t replica, const Wire& wire) {
  Reader reader;
  Addressed value;
  value.replica = reader.id<ReplicaTag>("replica", replica);
  {
    const Reader::Inside inside(reader, name);
    get(reader, wire, value.body);
  }
  if (!reader.ok()) return reader.error();
  return Message(std::move(value));
}

Error no_body(const char* message) {
  return {Code::kInvalidArgument, std::string(message) + " without a known body", "body",
          "use the same version on both sides"};
}

}  // namespace

v1::AgentMessage to_wire(const Hello& hello) {
  v1::AgentMessage out;
  put(hello, *out.mutable_hello());
  return out;
}

v1::AgentMessage to_wire(const FromAgent& message) { return written<v1::AgentMessage>(message); }
v1::CoordinatorMessage to_wire(const ToAgent& message) {
  return written<v1::CoordinatorMessage>(message);
}
v1::TrainerMessage to_wire(const FromTrainer& message) {
  return written<v1::TrainerMessage>(message);
}
v1::TrainerCommand to_wire(const ToTrainer& message) {
  return written<v1::TrainerCommand>(message);
}

v1::FileEntry to_wire(const FileEntry& entry) {
  v1::FileEntry out;
  put(entry, out);
  return out;
}

Result<FileEntry> read(const v1::FileEntry& entry) {
  return body<FileEntry, FileEntry>("files", entry);
}

Result<Hello> read_hello(const v1::AgentMessage& message) {
  if (!message.has_hello()) {
    return Error{Code::kInvalidArgument, "the first message of a session must be hello", "body",
                 ""};
  }
  return body<Hello, Hello>("hello", message.hello());
}

Result<FromAgent> read(const v1::AgentMessage& m) {
  using Case = v1::AgentMessage;
  switch (m.body_case()) {
    case Case::kHeartbeat:
      return body<FromAgent, Heartbeat>("heartbeat", m.heartbeat());
    case Case::kDeviceMeasured:
      return body<FromAgent, DeviceMeasured>("device_measured", m.device_measured());
    case Case::kLoaded:
      return body<FromAgent, Loaded>("loaded", m.loaded());
    case Case::kLoadProgress:
      return body<FromAgent, LoadProgress>("load_progress", m.load_progress());
    case Case::kReplicaFailed:
      return body<FromAgent, ReplicaFailed>("replica_failed", m.replica_failed());
    case Case::kProgress:
      return body<FromAgent, Progress>("progress", m.progress());
    case Case::kPipelineStats:
      return body<FromAgent, PipelineStats>("pipeline_stats", m.pipeline_stats());
    case Case::kReport:
      return addressed<FromAgent, FromReplica<RoundReport>>("report", m.replica(), m.report());
    case Case::kVote:
      return addressed<FromAgent, FromReplica<Vote>>("vote", m.replica(), m.vote());
    case Case::kReduceFailed:
      return addressed<FromAgent, FromReplica<ReduceFailed>>("reduce_failed", m.replica(),
                                                             m.reduce_failed());
    case Case::kApplied:
      return addressed<FromAgent, FromReplica<Applied>>("applied", m.replica(), m.applied());
    case Case::kEvaluated:
      return addressed<FromAgent, FromReplica<Evaluated>>("evaluated", m.replica(), m.evaluated());
    case Case::kCheckpointWritten:
      return body<FromAgent, CheckpointWritten>("checkpoint_written", m.checkpoint_written());
    case Case::kCheckpointFailed:
      return body<FromAgent, CheckpointFailed>("checkpoint_failed", m.checkpoint_failed());
    case Case::kGoodbye:
      return body<FromAgent, Goodbye>("goodbye", m.goodbye());
    case Case::kHello:
      return Error{Code::kInvalidArgument, "hello may only be the first message of a session",
                   "hello", ""};
    case Case::BODY_NOT_SET:
      break;
  }
  return no_body("a message of an agent");
}

Result<ToAgent> read(const v1::CoordinatorMessage& m) {
  using Case = v1::CoordinatorMessage;
  const auto id = m.replica();
  switch (m.body_case()) {
    case Case::kWelcome:
      return body<ToAgent, Welcome>("welcome", m.welcome());
    case Case::kRefused:
      return body<ToAgent, Refused>("refused", m.refused());
    case Case::kAssign:
      return body<ToAgent, Assign>("assign", m.assign());
    case Case::kRelease:
      return body<ToAgent, Release>("release", m.release());
    case Case::kView:
      return addressed<ToAgent, ToReplica<PipelineView>>("view", id, m.view());
    case Case::kOpen:
      return addressed<ToAgent, ToReplica<OpenRound>>("open", id, m.open());
    case Case::kClose:
      return addressed<ToAgent, ToReplica<CloseRound>>("close", id, m.close());
    case Case::kReduce:
      return addressed<ToAgent, ToReplica<ReducePlan>>("reduce", id, m.reduce());
    case Case::kCommit:
      return addressed<ToAgent, ToReplica<CommitRound>>("commit", id, m.commit());
    case Case::kAbort:
      return addressed<ToAgent, ToReplica<AbortRound>>("abort", id, m.abort());
    case Case::kResume:
      return addressed<ToAgent, ToReplica<ResumeAt>>("resume", id, m.resume());
    case Case::kEvaluate:
      return addressed<ToAgent, ToReplica<Evaluate>>("evaluate", id, m.evaluate());
    case Case::kWriteCheckpoint:
      return addressed<ToAgent, ToReplica<WriteCheckpoint>>("write_checkpoint", id,
                                                            m.write_checkpoint());
    case Case::kForgetCheckpoint:
      return body<ToAgent, ForgetCheckpoint>("forget_checkpoint", m.forget_checkpoint());
    case Case::BODY_NOT_SET:
      break;
  }
  return no_body("a message of the coordinator");
}

Result<FromTrainer> read(const v1::TrainerMessage& m) {
  using Case = v1::TrainerMessage;
  const auto id = m.replica();
  switch (m.body_case()) {
    case Case::kReady:
      return body<FromTrainer, TrainerReady>("ready", m.ready());
    case Case::kLoaded:
      return body<FromTrainer, Loaded>("loaded", m.loaded());
    case Case::kLoadProgress:
      return body<FromTrainer, LoadProgress>("load_progress", m.load_progress());
    case Case::kReplicaFailed:
      return body<FromTrainer, ReplicaFailed>("replica_failed", m.replica_failed());
    case Case::kProgress:
      return body<FromTrainer, Progress>("progress", m.progress());
    case Case::kPipelineStats:
      return body<FromTrainer, PipelineStats>("pipeline_stats", m.pipeline_stats());
    case Case::kReport:
      return addressed<FromTrainer, FromReplica<RoundReport>>("report", id, m.report());
    case Case::kVote:
      return addressed<FromTrainer, FromReplica<Vote>>("vote", id, m.vote());
    case Case::kReduceFailed:
      return addressed<FromTrainer, FromReplica<ReduceFailed>>("reduce_failed", id,
                                                               m.reduce_failed());
    case Case::kApplied:
      return addressed<FromTrainer, FromReplica<Applied>>("applied", id, m.applied());
    case Case::kEvaluated:
      return addressed<FromTrainer, FromReplica<Evaluated>>("evaluated", id, m.evaluated());
    case Case::kCheckpointReady:
      return body<FromTrainer, CheckpointReady>("checkpoint_ready", m.checkpoint_ready());
    case Case::kCheckpointFailed:
      return body<FromTrainer, CheckpointFailed>("checkpoint_failed", m.checkpoint_failed());
    case Case::BODY_NOT_SET:
      break;
  }
  return no_body("a message of a trainer");
}

Result<ToTrainer> read(const v1::TrainerCommand& m) {
  using Case = v1::TrainerCommand;
  const auto id = m.replica();
  switch (m.body_case()) {
    case Case::kLoad:
      return body<ToTrainer, LoadReplica>("load", m.load());
    case Case::kRelease:
      return body<ToTrainer, Release>("release", m.release());
    case Case::kView:
      return addressed<ToTrainer, ToReplica<PipelineView>>("view", id, m.view());
    case Case::kOpen:
      return addressed<ToTrainer, ToReplica<OpenRound>>("open", id, m.open());
    case Case::kClose:
      return addressed<ToTrainer, ToReplica<CloseRound>>("close", id, m.close());
    case Case::kReduce:
      return addressed<ToTrainer, ToReplica<ReducePlan>>("reduce", id, m.reduce());
    case Case::kCommit:
      return addressed<ToTrainer, ToReplica<CommitRound>>("commit", id, m.commit());
    case Case::kAbort:
      return addressed<ToTrainer, ToReplica<AbortRound>>("abort", id, m.abort());
    case Case::kResume:
      return addressed<ToTrainer, ToReplica<ResumeAt>>("resume", id, m.resume());
    case Case::kEvaluate:
      return addressed<ToTrainer, ToReplica<Evaluate>>("evaluate", id, m.evaluate());
    case Case::kWriteCheckpoint:
      return body<ToTrainer, WriteCheckpointTo>("write_checkpoint", m.write_checkpoint());
    case Case::kStop:
      return ToTrainer(StopTrainer{});
    case Case::BODY_NOT_SET:
      break;
  }
  return no_body("a command to a trainer");
}

}  // namespace shoal::proto
