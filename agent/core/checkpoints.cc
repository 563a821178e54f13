// Checkpoints in both directions: fetched for replicas that load from one, and written here,
// hashed, announced and uploaded. An upload outlives the replica that wrote it.
#include <algorithm>

#include "agent/core/state.h"

namespace shoal::agent {

namespace {

bool loads_from(const Replica& replica, CheckpointPartId part) {
  const StateSource& source = replica.assign.source;
  return source.kind == SourceKind::kCheckpoint &&
         CheckpointPartId{source.checkpoint, replica.assign.stage} == part;
}

}  // namespace

std::string Agent::State::folder_of(const char* kind, CheckpointPartId part) const {
  return options.data_dir + "/" + kind + "/" + to_string(part.checkpoint) +
         (part.stage == 0 ? "" : "." + std::to_string(part.stage));
}

// The stage is that of the writer, which may have ended while its upload goes on.
CheckpointPartId Agent::State::part_of(ReplicaId writer, CheckpointId checkpoint) const {
  for (const auto& [part, upload] : uploads) {
    if (part.checkpoint == checkpoint && upload.replica == writer) return part;
  }
  const Replica* replica = replicas.find(writer);
  return {checkpoint, replica == nullptr ? 0 : replica->assign.stage};
}

// ---- fetching

void Agent::State::want_fetch(CheckpointPartId part) {
  if (fetches.contains(part)) return;
  const Fetch& fetch =
      fetches.put(part, {folder_of(kFetchedFolder, part), false, now + options.fetch_limit});
  emit(FetchCheckpoint{part, fetch.folder});
}

void Agent::State::fetched(CheckpointPartId part) {
  Fetch* fetch = fetches.find(part);
  if (fetch == nullptr || fetch->complete) return drop();
  fetch->complete = true;
  fetch->due.reset();
  load_what_is_ready();
}

void Agent::State::fetch_failed(CheckpointPartId part, const std::string& detail) {
  const Fetch* fetch = fetches.find(part);
  if (fetch == nullptr || fetch->complete) return drop();
  std::vector<ReplicaId> waiting;
  for (const auto& [id, replica] : replicas) {
    if (loads_from(replica, part)) waiting.push_back(id);
  }
  for (const ReplicaId id : waiting) {
    fail_replica(id, ReplicaFailure::kDonorLost,
                 "cannot fetch " + to_string(part.checkpoint) + ": " + detail);
  }
}

// A fetch serves the replicas that wait for it or load from it; after the last one its files go.
void Agent::State::drop_unused_fetches() {
  std::vector<CheckpointPartId> unused;
  for (const auto& [part, fetch] : fetches) {
    const bool used =
        std::any_of(replicas.begin(), replicas.end(), [wanted = part](const auto& entry) {
          return entry.second.state != ReplicaState::kServing && loads_from(entry.second, wanted);
        });
    if (!used) unused.push_back(part);
  }
  for (const CheckpointPartId part : unused) {
    emit(DeleteCheckpointFolder{fetches.at(part).folder});
    fetches.erase(part);
  }
}

// ---- writing

void Agent::State::write_checkpoint(ReplicaId replica, const WriteCheckpoint& command) {
  const CheckpointPartId part = part_of(replica, command.checkpoint);
  if (Upload* upload = uploads.find(part); upload != nullptr) {
    upload->replica = replica;  // of the same stage and round: the files are the same
    if (upload->state == UploadState::kWriting || upload->state == UploadState::kHashing) return;
    announce(part, *upload);
    if (upload->state != UploadState::kSending) send_upload(part, *upload);
    return;
  }
  const Replica* writer = replicas.find(replica);
  if (writer == nullptr || writer->state != ReplicaState::kServing) return drop();
  make_room_for_upload();
  const Upload& upload =
      uploads.put(part, {.replica = replica,
                         .key = command.key,
                         .folder = folder_of(kWrittenFolder, part),
                         .backoff = Backoff(options.upload_first, options.upload_cap)});
  forward(replica, WriteCheckpointTo{replica, command, upload.folder});
}

void Agent::State::checkpoint_ready(const CheckpointReady& message) {
  const CheckpointPartId part = part_of(message.replica, message.checkpoint);
  Upload* upload = uploads.find(part);
  if (upload == nullptr) return emit(DeleteCheckpointFolder{folder_of(kWrittenFolder, part)});
  if (upload->state != UploadState::kWriting || upload->replica != message.replica) return drop();
  upload->sample = message.sample;
  move(upload->state, UploadEvent::kWritten);
  emit(HashCheckpoint{part, upload->folder});
}

void Agent::State::checkpoint_failed(const CheckpointFailed& message) {
  const CheckpointPartId part = part_of(message.replica, message.checkpoint);
  const Upload* upload = uploads.find(part);
  if (upload == nullptr || upload->replica != message.replica) return drop();
  drop_upload(part);
  const auto said_at = say_now(message);
  outbox.keep_last_words(message.replica, message, said_at);
}

void Agent::State::hashed(const CheckpointHashed& input) {
  Upload* upload = uploads.find(input.part);
  if (upload == nullptr || upload->state != UploadState::kHashing) return drop();
  upload->files = input.files;
  announce(input.part, *upload);
  move(upload->state, UploadEvent::kHashed);
  ++upload->attempts;
  emit(UploadCheckpoint{input.part, upload->folder, upload->files});
}

void Agent::State::hash_failed(const CheckpointHashFailed& input) {
  const Upload* upload = uploads.find(input.part);
  if (upload == nullptr || upload->state != UploadState::kHashing) return drop();
  checkpoint_failed({upload->replica, input.part.checkpoint, to_string(input.error)});
}

// While the link is down this is said after the next Welcome (retry_uploads).
void Agent::State::announce(CheckpointPartId part, const Upload& upload) {
  say(CheckpointWritten{upload.replica, part.checkpoint, upload.key, upload.files, upload.sample});
}

void Agent::State::send_upload(CheckpointPartId part, Upload& upload) {
  upload.due.reset();
  if (link != LinkState::kActive) return;  // tried again after the next Welcome
  move(upload.state, UploadEvent::kRetry);
  ++upload.attempts;
  emit(UploadCheckpoint{part, upload.folder, upload.files});
}

void Agent::State::retry_uploads() {
  for (auto& [id, upload] : uploads) {
    if (upload.state == UploadState::kWriting || upload.state == UploadState::kHashing) continue;
    announce(id, upload);
    if (upload.state != UploadState::kRetrying) continue;
    upload.attempts = 0;
    upload.backoff.reset();
    send_upload(id, upload);
  }
}

void Agent::State::upload_done(CheckpointPartId part) {
  Upload* upload = uploads.find(part);
  if (upload == nullptr || upload->state != UploadState::kSending) return drop();
  move(upload->state, UploadEvent::kSent);
}

void Agent::State::upload_failed(const CheckpointUploadFailed& input) {
  Upload* upload = uploads.find(input.part);
  if (upload == nullptr || upload->state != UploadState::kSending) return drop();
  move(upload->state, UploadEvent::kFailed);
  if (upload->attempts >= options.uploads_max) {
    return checkpoint_failed({upload->replica, input.part.checkpoint,
                              "the upload failed " + std::to_string(upload->attempts) +
                                  " times; the last time: " + to_string(input.error)});
  }
  upload->due = now + wait(upload->backoff);
}

void Agent::State::drop_upload(CheckpointPartId part) {
  Upload& upload = uploads.at(part);
  move(upload.state, UploadEvent::kDrop);
  emit(DeleteCheckpointFolder{upload.folder});
  uploads.erase(part);
}

// Its writer is no more; that its replica ended tells the coordinator enough.
void Agent::State::drop_unfinished_uploads(ReplicaId writer) {
  std::vector<CheckpointPartId> unfinished;
  for (const auto& [id, upload] : uploads) {
    if (upload.replica == writer && upload.state == UploadState::kWriting) unfinished.push_back(id);
  }
  for (const CheckpointPartId id : unfinished) drop_upload(id);
}

void Agent::State::forget_checkpoint(CheckpointId checkpoint) {
  std::vector<CheckpointPartId> parts;
  for (const auto& [part, upload] : uploads) {
    if (part.checkpoint == checkpoint) parts.push_back(part);
  }
  for (const CheckpointPartId part : parts) drop_upload(part);
}

// The oldest goes; a coordinator that forgets what it stored never lets it come to that.
void Agent::State::make_room_for_upload() {
  if (uploads.size() < static_cast<std::size_t>(options.checkpoints_max)) return;
  drop_upload(uploads.begin()->first);
}

}  // namespace shoal::agent
