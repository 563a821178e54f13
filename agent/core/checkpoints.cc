// Checkpoints in both directions: fetched for replicas that load from one, and written here,
// hashed, announced and uploaded. An upload outlives the replica that wrote it.
#include <algorithm>

#include "agent/core/state.h"

namespace shoal::agent {

std::string Agent::State::folder_of(const char* kind, CheckpointId checkpoint) const {
  return options.data_dir + "/" + kind + "/" + to_string(checkpoint);
}

// ---- fetching

void Agent::State::want_fetch(CheckpointId checkpoint) {
  if (fetches.contains(checkpoint)) return;
  const Fetch& fetch = fetches.put(
      checkpoint, {folder_of(kFetchedFolder, checkpoint), false, now + options.fetch_limit});
  emit(FetchCheckpoint{checkpoint, fetch.folder});
}

void Agent::State::fetched(CheckpointId checkpoint) {
  Fetch* fetch = fetches.find(checkpoint);
  if (fetch == nullptr || fetch->complete) return drop();
  fetch->complete = true;
  fetch->due.reset();
  load_what_is_ready();
}

void Agent::State::fetch_failed(CheckpointId checkpoint, const std::string& detail) {
  const Fetch* fetch = fetches.find(checkpoint);
  if (fetch == nullptr || fetch->complete) return drop();
  std::vector<ReplicaId> waiting;
  for (const auto& [id, replica] : replicas) {
    const StateSource& source = replica.assign.source;
    if (source.kind == SourceKind::kCheckpoint && source.checkpoint == checkpoint)
      waiting.push_back(id);
  }
  for (const ReplicaId id : waiting) {
    fail_replica(id, ReplicaFailure::kDonorLost,
                 "cannot fetch " + to_string(checkpoint) + ": " + detail);
  }
}

// A fetch serves the replicas that wait for it or load from it; after the last one its files go.
void Agent::State::drop_unused_fetches() {
  std::vector<CheckpointId> unused;
  for (const auto& [checkpoint, fetch] : fetches) {
    const bool used =
        std::any_of(replicas.begin(), replicas.end(), [wanted = checkpoint](const auto& entry) {
          const Replica& replica = entry.second;
          return replica.state != ReplicaState::kServing &&
                 replica.assign.source.kind == SourceKind::kCheckpoint &&
                 replica.assign.source.checkpoint == wanted;
        });
    if (!used) unused.push_back(checkpoint);
  }
  for (const CheckpointId checkpoint : unused) {
    emit(DeleteCheckpointFolder{fetches.at(checkpoint).folder});
    fetches.erase(checkpoint);
  }
}

// ---- writing

void Agent::State::write_checkpoint(ReplicaId replica, const WriteCheckpoint& command) {
  if (Upload* upload = uploads.find(command.checkpoint); upload != nullptr) {
    if (upload->state == UploadState::kWriting || upload->state == UploadState::kHashing) return;
    announce(command.checkpoint, *upload);
    if (upload->state != UploadState::kSending) send_upload(command.checkpoint, *upload);
    return;
  }
  const Replica* writer = replicas.find(replica);
  if (writer == nullptr || writer->state != ReplicaState::kServing) return drop();
  make_room_for_upload();
  const Upload& upload = uploads.put(
      command.checkpoint, {.replica = replica,
                           .key = command.key,
                           .folder = folder_of(kWrittenFolder, command.checkpoint),
                           .backoff = Backoff(options.upload_first, options.upload_cap)});
  forward(replica, WriteCheckpointTo{replica, command, upload.folder});
}

void Agent::State::checkpoint_ready(const CheckpointReady& message) {
  Upload* upload = uploads.find(message.checkpoint);
  if (upload == nullptr)
    return emit(DeleteCheckpointFolder{folder_of(kWrittenFolder, message.checkpoint)});
  if (upload->state != UploadState::kWriting || upload->replica != message.replica) return drop();
  move(upload->state, UploadEvent::kWritten);
  emit(HashCheckpoint{message.checkpoint, upload->folder});
}

void Agent::State::checkpoint_failed(const CheckpointFailed& message) {
  const Upload* upload = uploads.find(message.checkpoint);
  if (upload == nullptr || upload->replica != message.replica) return drop();
  drop_upload(message.checkpoint);
  const auto said_at = say_now(message);
  outbox.keep_last_words(message.replica, message, said_at);
}

void Agent::State::hashed(const CheckpointHashed& input) {
  Upload* upload = uploads.find(input.checkpoint);
  if (upload == nullptr || upload->state != UploadState::kHashing) return drop();
  upload->files = input.files;
  announce(input.checkpoint, *upload);
  move(upload->state, UploadEvent::kHashed);
  ++upload->attempts;
  emit(UploadCheckpoint{input.checkpoint, upload->folder, upload->files});
}

void Agent::State::hash_failed(const CheckpointHashFailed& input) {
  const Upload* upload = uploads.find(input.checkpoint);
  if (upload == nullptr || upload->state != UploadState::kHashing) return drop();
  checkpoint_failed({upload->replica, input.checkpoint, to_string(input.error)});
}

// While the link is down this is said after the next Welcome (retry_uploads).
void Agent::State::announce(CheckpointId checkpoint, const Upload& upload) {
  say(CheckpointWritten{upload.replica, checkpoint, upload.key, upload.files});
}

void Agent::State::send_upload(CheckpointId checkpoint, Upload& upload) {
  upload.due.reset();
  if (link != LinkState::kActive) return;  // tried again after the next Welcome
  move(upload.state, UploadEvent::kRetry);
  ++upload.attempts;
  emit(UploadCheckpoint{checkpoint, upload.folder, upload.files});
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

void Agent::State::upload_done(CheckpointId checkpoint) {
  Upload* upload = uploads.find(checkpoint);
  if (upload == nullptr || upload->state != UploadState::kSending) return drop();
  move(upload->state, UploadEvent::kSent);
}

void Agent::State::upload_failed(const CheckpointUploadFailed& input) {
  Upload* upload = uploads.find(input.checkpoint);
  if (upload == nullptr || upload->state != UploadState::kSending) return drop();
  move(upload->state, UploadEvent::kFailed);
  if (upload->attempts >= options.uploads_max) {
    return checkpoint_failed({upload->replica, input.checkpoint,
                              "the upload failed " + std::to_string(upload->attempts) +
                                  " times; the last time: " + to_string(input.error)});
  }
  upload->due = now + wait(upload->backoff);
}

void Agent::State::drop_upload(CheckpointId checkpoint) {
  Upload& upload = uploads.at(checkpoint);
  move(upload.state, UploadEvent::kDrop);
  emit(DeleteCheckpointFolder{upload.folder});
  uploads.erase(checkpoint);
}

// Its writer is no more; that its replica ended tells the coordinator enough.
void Agent::State::drop_unfinished_uploads(ReplicaId writer) {
  std::vector<CheckpointId> unfinished;
  for (const auto& [id, upload] : uploads) {
    if (upload.replica == writer && upload.state == UploadState::kWriting) unfinished.push_back(id);
  }
  for (const CheckpointId id : unfinished) drop_upload(id);
}

void Agent::State::forget_checkpoint(CheckpointId checkpoint) {
  if (uploads.contains(checkpoint)) drop_upload(checkpoint);
}

// The oldest goes; a coordinator that forgets what it stored never lets it come to that.
void Agent::State::make_room_for_upload() {
  if (uploads.size() < static_cast<std::size_t>(options.checkpoints_max)) return;
  drop_upload(uploads.begin()->first);
}

}  // namespace shoal::agent
