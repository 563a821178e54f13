// The envelopes: which body goes into which case of a oneof, and back. The bodies follow from the
// lists of fields (reflect.h).
#include "proto/convert.h"

#include "proto/reflect.h"

namespace shoal::proto {
namespace {

// What every envelope that has such a body calls it.
constexpr const char* case_of(Of<Hello>) { return "hello"; }
constexpr const char* case_of(Of<Heartbeat>) { return "heartbeat"; }
constexpr const char* case_of(Of<DeviceMeasured>) { return "device_measured"; }
constexpr const char* case_of(Of<Loaded>) { return "loaded"; }
constexpr const char* case_of(Of<LoadProgress>) { return "load_progress"; }
constexpr const char* case_of(Of<ReplicaFailed>) { return "replica_failed"; }
constexpr const char* case_of(Of<Progress>) { return "progress"; }
constexpr const char* case_of(Of<PipelineStats>) { return "pipeline_stats"; }
constexpr const char* case_of(Of<PortRefusals>) { return "port_refusals"; }
constexpr const char* case_of(Of<RoundReport>) { return "report"; }
constexpr const char* case_of(Of<Vote>) { return "vote"; }
constexpr const char* case_of(Of<ReduceFailed>) { return "reduce_failed"; }
constexpr const char* case_of(Of<Applied>) { return "applied"; }
constexpr const char* case_of(Of<Evaluated>) { return "evaluated"; }
constexpr const char* case_of(Of<CheckpointWritten>) { return "checkpoint_written"; }
constexpr const char* case_of(Of<CheckpointFailed>) { return "checkpoint_failed"; }
constexpr const char* case_of(Of<CopiesHeld>) { return "copies_held"; }
constexpr const char* case_of(Of<Goodbye>) { return "goodbye"; }
constexpr const char* case_of(Of<BlockMeasured>) { return "block_measured"; }
constexpr const char* case_of(Of<LineMeasured>) { return "line_measured"; }

constexpr const char* case_of(Of<Welcome>) { return "welcome"; }
constexpr const char* case_of(Of<Refused>) { return "refused"; }
constexpr const char* case_of(Of<Assign>) { return "assign"; }
constexpr const char* case_of(Of<Release>) { return "release"; }
constexpr const char* case_of(Of<PipelineView>) { return "view"; }
constexpr const char* case_of(Of<OpenRound>) { return "open"; }
constexpr const char* case_of(Of<CloseRound>) { return "close"; }
constexpr const char* case_of(Of<ReducePlan>) { return "reduce"; }
constexpr const char* case_of(Of<CommitRound>) { return "commit"; }
constexpr const char* case_of(Of<AbortRound>) { return "abort"; }
constexpr const char* case_of(Of<ResumeAt>) { return "resume"; }
constexpr const char* case_of(Of<Evaluate>) { return "evaluate"; }
constexpr const char* case_of(Of<WriteCheckpoint>) { return "write_checkpoint"; }
constexpr const char* case_of(Of<KeepCopies>) { return "keep_copies"; }
constexpr const char* case_of(Of<ForgetCheckpoint>) { return "forget_checkpoint"; }

constexpr const char* case_of(Of<Relays>) { return "relays"; }
constexpr const char* case_of(Of<KeepRecord>) { return "keep_record"; }
constexpr const char* case_of(Of<MeasureBlock>) { return "measure_block"; }
constexpr const char* case_of(Of<MeasureLine>) { return "measure_line"; }

constexpr const char* case_of(Of<TrainerReady>) { return "ready"; }
constexpr const char* case_of(Of<CheckpointReady>) { return "checkpoint_ready"; }
constexpr const char* case_of(Of<LoadReplica>) { return "load"; }
constexpr const char* case_of(Of<WriteCheckpointTo>) { return "write_checkpoint"; }
constexpr const char* case_of(Of<StopTrainer>) { return "stop"; }

template <typename Envelope, typename T>
const FieldDescriptor* field_for() {
  using Body = typename BodyOf<T>::Type;
  static const FieldDescriptor* const kField =
      Envelope::descriptor()->FindFieldByName(case_of(Of<Body>{}));
  SHOAL_CHECK(kField != nullptr, case_of(Of<Body>{}));
  return kField;
}

template <typename Envelope, typename T>
Envelope envelope_of(const T& message) {
  Envelope out;
  Message& body = *out.GetReflection()->MutableMessage(&out, field_for<Envelope, T>());
  if constexpr (requires { message.body; }) {
    out.set_replica(message.replica.n);
    write_fields(message.body, body);
  } else {
    write_fields(message, body);
  }
  return out;
}

template <typename Envelope, typename Variant>
Envelope written(const Variant& message) {
  return std::visit([](const auto& m) { return envelope_of<Envelope>(m); }, message);
}

template <typename T, typename Envelope>
Result<T> read_as(const Envelope& envelope) {
  const FieldDescriptor* const field = field_for<Envelope, T>();
  const Message& body = envelope.GetReflection()->GetMessage(envelope, field);
  if constexpr (!requires(T t) { t.body; }) {
    return read_fields<T>(body, field->name());
  } else {
    if (envelope.replica() == 0) {
      return Error{Code::kInvalidArgument, "must not be 0", "replica", ""};
    }
    auto read = read_fields<typename BodyOf<T>::Type>(body, field->name());
    if (!read.ok()) return read.error();
    return T{ReplicaId(envelope.replica()), std::move(*read)};
  }
}

// The alternative whose case the envelope has.
template <typename Envelope, typename... Bodies>
Result<std::variant<Bodies...>> read_one(const Envelope& envelope, const char* what,
                                         std::type_identity<std::variant<Bodies...>>) {
  using Variant = std::variant<Bodies...>;
  const auto* oneof = Envelope::descriptor()->oneof_decl(0);
  const FieldDescriptor* given = envelope.GetReflection()->GetOneofFieldDescriptor(envelope, oneof);
  Result<Variant> result =
      Error{Code::kInvalidArgument, std::string(what) + " without a known body", "body",
            "use the same version on both sides"};
  const auto try_as = [&]<typename T>(std::type_identity<T>) {
    if (given != field_for<Envelope, T>()) return;
    Result<T> read = read_as<T>(envelope);
    if (read.ok()) {
      result = Variant(std::move(*read));
    } else {
      result = read.error();
    }
  };
  (try_as(std::type_identity<Bodies>{}), ...);
  return result;
}

}  // namespace

v1::AgentMessage to_wire(const Hello& hello) { return envelope_of<v1::AgentMessage>(hello); }
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
  write_fields(entry, out);
  return out;
}

Result<FileEntry> read(const v1::FileEntry& entry) {
  return read_fields<FileEntry>(entry, "files");
}

Result<Hello> read_hello(const v1::AgentMessage& message) {
  if (message.has_hello()) return read_as<Hello>(message);
  return Error{Code::kInvalidArgument, "the first message of a session must be hello", "body", ""};
}

Result<FromAgent> read(const v1::AgentMessage& message) {
  if (message.has_hello()) {
    return Error{Code::kInvalidArgument, "hello may only be the first message of a session",
                 "hello", ""};
  }
  return read_one(message, "a message of an agent", std::type_identity<FromAgent>{});
}
Result<ToAgent> read(const v1::CoordinatorMessage& message) {
  return read_one(message, "a message of the coordinator", std::type_identity<ToAgent>{});
}
Result<FromTrainer> read(const v1::TrainerMessage& message) {
  return read_one(message, "a message of a trainer", std::type_identity<FromTrainer>{});
}
Result<ToTrainer> read(const v1::TrainerCommand& message) {
  return read_one(message, "a command to a trainer", std::type_identity<ToTrainer>{});
}

}  // namespace shoal::proto
