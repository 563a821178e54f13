#include "coordinator/service/checkpoint_transfer.h"

#include <algorithm>
#include <regex>

#include <spdlog/spdlog.h>

#include "coordinator/service/agent_session.h"
#include "coordinator/service/checkpoint_carriage.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

Error invalid(std::string message, std::string field) {
  return {.code = Code::kInvalidArgument, .message = std::move(message), .field = std::move(field)};
}

// Not the fault of the caller, so an agent does not count it as a failure.
const grpc::Status kBusy{grpc::StatusCode::ABORTED, "too many transfers; try again later"};

// The checkpoint may have been this agent's until a moment ago. Its stream tells it to forget it.
const grpc::Status kOfAnother{grpc::StatusCode::ABORTED, "the checkpoint belongs to other agents"};

Error unknown(CheckpointId id) {
  return {.code = Code::kNotFound, .message = "there is no checkpoint " + to_string(id)};
}

Result<std::vector<FileEntry>> read_header(const v1::CheckpointHeader& header) {
  std::vector<FileEntry> files;
  for (const v1::FileEntry& wire : header.files()) {
    Result<FileEntry> file = proto::read(wire);
    if (!file) return file.error();
    files.push_back(std::move(file).value());
  }
  return files;
}

// The part that was announced with exactly these files; null: none yet.
const CheckpointPart* find_part(const CheckpointRecord& record,
                                const std::vector<FileEntry>& files) {
  for (const CheckpointPart& part : record.parts) {
    if (part.state != CheckpointState::kWriting && part.files == files) return &part;
  }
  return nullptr;
}

// "model-00002-of-00004.safetensors": the weights or the state of one stage.
bool is_shard(const std::string& path) {
  static const std::regex kShard("-[0-9]{5}-of-[0-9]{5}");
  return std::regex_search(path, kShard);
}

// A small file that says something of the whole checkpoint. Files without a role are of writers
// before 0.2.
bool is_of_all_stages(const FileEntry& file) {
  if (file.role.empty()) return !is_shard(file.path);
  return file.role == "description" || file.role == "part";
}

// What a replica loads: what these stages wrote, and the small files that belong to all.
std::vector<FileEntry> files_for_stages(const CheckpointRecord& record, StageIndex first,
                                        std::int32_t count) {
  std::vector<FileEntry> files;
  for (std::size_t i = 0; i < record.parts.size(); ++i) {
    const auto stage = static_cast<StageIndex>(i);
    const bool wanted = stage >= first && std::int64_t{stage} - first < count;
    for (const FileEntry& file : record.parts[i].files) {
      if (wanted || is_of_all_stages(file)) files.push_back(file);
    }
  }
  return files;
}

// Only a job that continues the checkpoint can use it.
bool is_state_of_training(const FileEntry& file) {
  if (file.role.empty()) return file.path.starts_with("shoal_state");
  const auto starts = [&](const char* prefix) { return file.role.starts_with(prefix); };
  return file.role == "data" || starts("outer/") || starts("inner/") || starts("object/") ||
         starts("file/");
}

// What a job begins from, whatever its cut: the weights of all stages.
void add_weights(const CheckpointRecord& record, std::vector<FileEntry>& files) {
  for (const FileEntry& file : all_files(record)) {
    if (is_state_of_training(file)) continue;
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  }
}

// Whether a failed upload will fail again, so that the coordinator must hear of it. A stream that
// broke is tried again by the agent.
bool is_final(const Error& error) {
  return error.code != Code::kCancelled && error.code != Code::kConflict &&
         error.code != Code::kUnavailable;
}

v1::PresignedRequest to_wire(const PresignedRequest& request) {
  v1::PresignedRequest wire;
  wire.set_file(static_cast<std::int32_t>(request.file));
  wire.set_part(request.part);
  wire.set_offset(request.offset.count());
  wire.set_size(request.size.count());
  wire.set_url(request.url);
  for (const auto& [name, value] : request.headers) {
    v1::Label* header = wire.add_headers();
    header->set_key(name);
    header->set_value(value);
  }
  return wire;
}

bool say_received(CheckpointTransfer::UploadStream* stream, Bytes received, bool stored) {
  v1::CheckpointReceived message;
  message.set_bytes(received.count());
  message.set_stored(stored);
  return stream->Write(message);
}

}  // namespace

CheckpointTransfer::Active::Active(CheckpointTransfer& o, grpc::ServerContext* c, AgentId who)
    : owner(o), context(c), caller(who), last_moved(std::chrono::steady_clock::now()) {
  const MutexLock guard(owner.mutex_);
  const auto of_caller = std::ranges::count_if(
      owner.active_, [&](const auto& entry) { return who && entry.first->caller == who; });
  admitted = !owner.stopping_ && owner.active_.size() < kTransfersMax &&
             of_caller < static_cast<std::ptrdiff_t>(kTransfersPerAgent);
  if (admitted) owner.active_.emplace(this, std::nullopt);
}

CheckpointTransfer::Active::~Active() {
  const MutexLock guard(owner.mutex_);
  owner.active_.erase(this);
}

CheckpointTransfer::CheckpointTransfer(CheckpointFiles& files, CheckpointBucket* bucket,
                                       InputPort& inputs, std::chrono::milliseconds silence,
                                       const std::vector<CheckpointRecord>& known)
    : files_(files), bucket_(bucket), inputs_(inputs), silence_(silence) {
  for (const CheckpointRecord& checkpoint : known) changed(checkpoint);
}

void CheckpointTransfer::changed(const CheckpointRecord& checkpoint) {
  if (checkpoint.state == CheckpointState::kStored && is_in_bucket(checkpoint.id)) {
    bucket_->describe(checkpoint);
  } else if (checkpoint.state == CheckpointState::kStored) {
    const Status described = files_.describe(checkpoint);
    if (!described.ok()) spdlog::warn("{}", to_string(described.error()));  // the record is safe
  }
  const bool gone =
      checkpoint.state == CheckpointState::kDeleted || checkpoint.state == CheckpointState::kFailed;
  {
    const MutexLock guard(mutex_);
    if (gone) {
      known_.erase(checkpoint.id);
      for (const auto& [active, part] : active_) {
        if (part && part->first == checkpoint.id) active->context->TryCancel();
      }
    } else {
      known_.put(checkpoint.id, checkpoint);
    }
  }
  changed_.notify_all();
}

void CheckpointTransfer::remove(CheckpointId checkpoint) {
  // A folder that cannot be removed costs space only, and no record names it any more.
  if (is_in_bucket(checkpoint)) bucket_->remove(checkpoint);
  (void)files_.remove(checkpoint);
}

// CheckpointWritten travels on another stream and may come after the upload has begun.
Result<CheckpointTransfer::Announced> CheckpointTransfer::announced(
    CheckpointId id, const std::vector<FileEntry>& files) {
  const MutexLock guard(mutex_);
  const CheckpointRecord* record = nullptr;
  changed_.wait_for(mutex_, kAnnouncementMax, [&]() SHOAL_REQUIRES(mutex_) {
    record = known_.find(id);
    return stopping_ || record == nullptr || find_part(*record, files) != nullptr ||
           record->state != CheckpointState::kWriting;
  });
  record = known_.find(id);
  if (record == nullptr) return unknown(id);
  if (const CheckpointPart* part = find_part(*record, files)) {
    return Announced{id, static_cast<StageIndex>(part - record->parts.data()),
                     static_cast<StageIndex>(record->parts.size()), part->writer,
                     part->state == CheckpointState::kStored};
  }
  if (record->state == CheckpointState::kWriting) {
    return Error{.code = Code::kUnavailable,
                 .message = to_string(id) + " was not announced as written",
                 .remedy = "send CheckpointWritten on the session, then upload again"};
  }
  return invalid("the files are not those of CheckpointWritten", "header.files");
}

// A line that was cut shows late: the stream of an earlier try may still be there.
void CheckpointTransfer::end_others(const Active& self, const Announced& part) {
  const MutexLock guard(mutex_);
  for (const auto& [other, uploads] : active_) {
    const bool same = uploads == std::pair(part.checkpoint, part.stage);
    if (same && other != &self) other->context->TryCancel();
  }
}

Status CheckpointTransfer::acknowledge(const Announced& part, CheckpointFiles::Upload& upload,
                                       UploadStream* stream) {
  if (Status s = upload.sync(); !s.ok()) return s;
  inputs_.post(CheckpointMoved{part.checkpoint, part.stage, upload.received()});
  (void)say_received(stream, upload.received(), false);  // a broken stream shows when it is read
  return {};
}

Status CheckpointTransfer::receive(Active& active, const Announced& part,
                                   const std::vector<FileEntry>& files, UploadStream* stream) {
  active.works_on(total_size(files));
  auto begun = files_.begin(part.checkpoint, part.stage, part.stages, files);
  if (!begun) {
    if (begun.error().code == Code::kConflict) end_others(active, part);
    return begun.error();
  }
  CheckpointFiles::Upload& upload = **begun;
  {
    const MutexLock guard(mutex_);
    active_.at(&active) = {part.checkpoint, part.stage};
  }
  active.alive();
  if (Status s = acknowledge(part, upload, stream); !s.ok()) return s;
  Bytes safe = upload.received();
  auto said_at = std::chrono::steady_clock::now();
  for (v1::CheckpointUpload message; stream->Read(&message);) {
    active.alive();
    if (!message.has_chunk()) return invalid("a chunk was expected", "chunk");
    const std::string& data = message.chunk().data();
    if (Status s = upload.write(std::as_bytes(std::span(data))); !s.ok()) return s;
    const bool due = active.last_moved.load() - said_at >= kAcknowledgeEvery;
    if (!due && upload.received() - safe < kAcknowledgeBytes) continue;
    if (Status s = acknowledge(part, upload, stream); !s.ok()) return s;
    safe = upload.received();
    said_at = std::chrono::steady_clock::now();
  }
  if (active.context->IsCancelled())
    return Error{.code = Code::kCancelled, .message = "the upload was interrupted"};
  const Result<Bytes> size = upload.finish();
  return size ? Status() : Status(size.error());
}

// Says how much the store has, and what to send next.
Status CheckpointTransfer::hand_out(const Announced& part, CheckpointBucket::Upload& upload,
                                    std::size_t most, UploadStream* stream) {
  const auto requests = upload.next(most);
  if (!requests) return requests.error();
  inputs_.post(CheckpointMoved{part.checkpoint, part.stage, upload.stored()});
  v1::CheckpointReceived message;
  message.set_bytes(upload.stored().count());
  for (const PresignedRequest& request : *requests) *message.add_requests() = to_wire(request);
  (void)stream->Write(message);  // a broken stream shows when it is read
  return {};
}

// What it has sent is known to the store part by part.
Status CheckpointTransfer::carry(Active& active, const Announced& part,
                                 CheckpointBucket::Upload& upload,
                                 const std::vector<FileEntry>& files, UploadStream* stream) {
  spdlog::info("carries {} to the object store, which {} does not reach",
               to_string(part.checkpoint), to_string(active.caller));
  const CarriageHooks hooks{.works_on = [&](Bytes size) { active.works_on(size); },
                            .is_at =
                                [&](Bytes now) {
                                  active.alive();
                                  inputs_.post(CheckpointMoved{part.checkpoint, part.stage, now});
                                }};
  return carry_to_store(upload, files, files_.root(), *stream, hooks);
}

Status CheckpointTransfer::receive_in_bucket(Active& active, const Announced& part,
                                             const std::vector<FileEntry>& files, bool by_requests,
                                             UploadStream* stream) {
  auto begun = bucket_->begin(part.checkpoint, part.stage, files);
  if (!begun) {
    if (begun.error().code == Code::kConflict) end_others(active, part);
    return begun.error();
  }
  CheckpointBucket::Upload& upload = **begun;
  {
    const MutexLock guard(mutex_);
    active_.at(&active) = {part.checkpoint, part.stage};
  }
  active.alive();
  if (!by_requests) return carry(active, part, upload, files, stream);
  if (Status s = hand_out(part, upload, kRequestsAhead, stream); !s.ok()) return s;
  Bytes sending;  // of a part that is under way
  for (v1::CheckpointUpload message; !upload.complete() && stream->Read(&message);) {
    active.alive();
    if (!message.has_moved()) return invalid("a part was expected", "moved");
    const v1::PartMoved& moved = message.moved();
    if (moved.etag().empty()) {
      sending = Bytes(std::max<std::int64_t>(0, moved.bytes()));
      inputs_.post(CheckpointMoved{part.checkpoint, part.stage, upload.stored() + sending});
      continue;
    }
    const auto file = static_cast<std::size_t>(std::max(0, moved.file()));
    if (Status s = upload.sent(file, moved.part()); !s.ok()) return s;
    active.alive();
    if (Status s = hand_out(part, upload, 1, stream); !s.ok()) return s;
  }
  if (upload.complete()) return {};
  return Error{.code = Code::kCancelled, .message = "the upload was interrupted"};
}

grpc::Status CheckpointTransfer::put(grpc::ServerContext* context, AgentId caller,
                                     UploadStream* stream) {
  Active active(*this, context, caller);
  if (!active.admitted) return kBusy;
  v1::CheckpointUpload first;
  if (!stream->Read(&first) || !first.has_header()) {
    return to_status(invalid("the first message must be the header", "header"));
  }
  const CheckpointId id(first.header().checkpoint());
  const Result<std::vector<FileEntry>> files = read_header(first.header());
  if (!files) return to_status(files.error());
  const Result<Announced> part = announced(id, *files);
  if (!part) return to_status(part.error());
  if (caller && !part->stored && !inputs_.has_replica(caller, part->writer)) return kOfAnother;
  const auto take = [&]() -> Status {
    if (bucket_ == nullptr) return receive(active, *part, *files, stream);
    return receive_in_bucket(active, *part, *files, first.header().takes_requests(), stream);
  };
  // Stored: the answer to an earlier upload was lost.
  const Status received = part->stored ? Status() : take();
  if (!received.ok()) {
    if (is_final(received.error()))
      inputs_.post(CheckpointUploadFailed{id, part->stage, to_string(received.error())});
    return to_status(received.error());
  }
  if (!part->stored && !inputs_.post(CheckpointUploaded{id, part->stage, *files})) {
    return {grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping; upload again later"};
  }
  (void)say_received(stream, total_size(*files), true);
  return grpc::Status::OK;
}

grpc::Status CheckpointTransfer::get(grpc::ServerContext* context, AgentId caller,
                                     const v1::GetCheckpointRequest* request,
                                     grpc::ServerWriter<v1::CheckpointUpload>* writer) {
  Active active(*this, context, caller);
  if (!active.admitted) return kBusy;
  const CheckpointId id(request->checkpoint());
  std::vector<FileEntry> files;
  {
    const MutexLock guard(mutex_);
    const CheckpointRecord* record = known_.find(id);
    if (record == nullptr || record->state != CheckpointState::kStored)
      return to_status(unknown(id));
    const JobId job = record->key.job;
    const bool continues =
        !caller || inputs_.works_for(caller, job) || inputs_.continues_from(caller, id);
    const bool begins = caller && inputs_.begins_from(caller, id, job);
    if (!continues && !begins) return kOfAnother;
    if (continues) {
      files = files_for_stages(*record, request->stage(), std::max(1, request->parts()));
    }
    if (begins) add_weights(*record, files);
  }
  // Received bytes of other files are of no use.
  const bool resumes = request->from() > 0 && request->list() == list_digest(files);
  const Bytes from = resumes ? std::min(Bytes(request->from()), total_size(files)) : Bytes();
  v1::CheckpointUpload message;
  message.mutable_header()->set_checkpoint(id.n);
  message.mutable_header()->set_from(from.count());
  for (const FileEntry& file : files) *message.mutable_header()->add_files() = proto::to_wire(file);
  if (is_in_bucket(id) && request->takes_requests())
    return send_requests(id, message, files, from, writer);
  if (!writer->Write(message)) return grpc::Status::CANCELLED;
  if (is_in_bucket(id)) {
    const CarriageHooks hooks{.works_on = {}, .is_at = [&](Bytes) { active.alive(); }};
    const Status carried = carry_from_store(*bucket_, id, files, from, *writer, hooks);
    return carried.ok() ? grpc::Status::OK : to_status(carried.error());
  }
  const Status sent = files_.read(id, files, from, [&](std::span<const std::byte> bytes) {
    active.alive();
    message.mutable_chunk()->set_data(bytes.data(), bytes.size());
    return writer->Write(message);
  });
  return sent.ok() ? grpc::Status::OK : to_status(sent.error());
}

grpc::Status CheckpointTransfer::send_requests(CheckpointId id, v1::CheckpointUpload& header,
                                               const std::vector<FileEntry>& files, Bytes from,
                                               grpc::ServerWriter<v1::CheckpointUpload>* writer) {
  const auto requests = bucket_->requests_to_get(id, files, from);
  if (!requests) return to_status(requests.error());
  header.mutable_header()->set_by_requests(true);
  if (!writer->Write(header)) return grpc::Status::CANCELLED;
  for (const PresignedRequest& one : *requests) {
    v1::CheckpointUpload message;
    *message.mutable_request() = to_wire(one);
    if (!writer->Write(message)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

void CheckpointTransfer::watch() {
  const auto silent_since = std::chrono::steady_clock::now() - silence_;
  const MutexLock guard(mutex_);
  for (const auto& [active, part] : active_) {
    if (active->last_moved.load() < silent_since) active->context->TryCancel();
  }
}

void CheckpointTransfer::stop() {
  if (bucket_ != nullptr) bucket_->stop();
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
    for (const auto& [active, part] : active_) active->context->TryCancel();
  }
  changed_.notify_all();
}

}  // namespace shoal::coordinator
