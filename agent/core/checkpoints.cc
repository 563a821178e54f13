// Checkpoints in both directions: fetched for replicas that load from one, and written here,
// hashed, announced and uploaded. An upload outlives the replica that wrote it.
#include <algorithm>

#include "agent/core/state.h"
#include "base/number_text.h"
#include "outer_opt/core/round/groups.h"

namespace shoal::agent {

namespace {

bool loads_from(const Replica& replica, CheckpointPartId part) {
  return replica.assign.source.kind == SourceKind::kCheckpoint && source_of(replica.assign) == part;
}

// True for a broken line or an absent coordinator. False where another try gives the same result,
// such as files with wrong hashes.
bool is_worth_a_retry(const Error& error) {
  switch (error.code) {
    case Code::kNotFound:
    case Code::kDataLoss:
    case Code::kInvalidArgument:
    case Code::kUnauthenticated:
    case Code::kPermissionDenied:
    case Code::kResourceExhausted:  // the disk of this host
      return false;
    default:
      return true;
  }
}

std::string name_of(CheckpointPartId part) {
  if (part.parts > 0) {
    return to_string(part.checkpoint) + "." + std::to_string(part.stage) + "+" +
           std::to_string(part.parts);
  }
  return to_string(part.checkpoint) + (part.stage == 0 ? "" : "." + std::to_string(part.stage)) +
         (part.weights ? ".weights" : "");
}

}  // namespace

// A job that continues a checkpoint is at the checkpoint's round. A job that only begins with its
// weights is at round 0.
CheckpointPartId source_of(const Assign& assign) {
  const bool other_cut = assign.checkpoint_parts > 0;
  return {assign.source.checkpoint, other_cut ? assign.checkpoint_first : assign.stage,
          assign.source.key.round == 0, assign.job, assign.checkpoint_parts};
}

std::optional<Instant> Agent::State::break_off(TransferPatience& patience) {
  return patience.broke(now, prng);
}

std::string Agent::State::fetched_folder(CheckpointPartId part) const {
  return options.data_dir + "/" + kFetchedFolder + "/" + to_string(part.reader) + "/" +
         name_of(part);
}

std::string Agent::State::written_folder(ReplicaId writer, CheckpointPartId part) const {
  return options.data_dir + "/" + kWrittenFolder + "/" + to_string(writer) + "/" + name_of(part);
}

// The stage is that of the writer, which may have ended while its upload continues.
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
  Fetch& fetch = fetches.put(part, {.folder = fetched_folder(part), .patience = new_patience()});
  fetch.patience.begin(now);
  start_fetch(part, fetch);
}

// The fetch may have to wait for other fetches of this host, however long they take.
void Agent::State::start_fetch(CheckpointPartId part, Fetch& fetch) {
  fetch.running = true;
  fetch.queued_since = now;
  fetch.due.reset();
  emit(FetchCheckpoint{part, fetch.folder});
}

void Agent::State::has_its_turn(std::optional<Instant>& queued_since, TransferPatience& patience) {
  if (queued_since) patience.forgive(now - *queued_since);
  queued_since.reset();
}

void Agent::State::fetched(CheckpointPartId part) {
  Fetch* fetch = fetches.find(part);
  if (fetch == nullptr || fetch->complete) return drop();
  fetch->complete = true;
  fetch->due.reset();
  for (auto& [id, replica] : replicas) {
    const bool waits = replica.state == ReplicaState::kWaiting && loads_from(replica, part);
    if (waits) replica.due = now + options.assign_limit;  // for its trainer
  }
  load_what_is_ready();
}

void Agent::State::fetch_moved(const CheckpointFetchMoved& input) {
  Fetch* fetch = fetches.find(input.part);
  if (fetch == nullptr || fetch->complete || !fetch->running) return drop();
  has_its_turn(fetch->queued_since, fetch->patience);
  const bool further = fetch->patience.moved(now, input.done);
  // The driver ends what stands still; this is for a driver that does not.
  fetch->due = fetch->patience.gives_up_at() + stall_for(options.transfer_limit, input.total);
  if (further) say_fetches_move(input);
}

// Fetches that wait for their turn count as moving while the current one moves.
void Agent::State::say_fetches_move(const CheckpointFetchMoved& input) {
  for (const auto& [part, fetch] : fetches) {
    const bool mine = part == input.part;
    if (!mine && !fetch.queued_since) continue;
    for (const auto& [id, replica] : replicas) {
      if (!loads_from(replica, part)) continue;
      say(LoadProgress{id, input.done, mine ? input.total : Bytes()});
    }
  }
}

void Agent::State::fetch_failed(const CheckpointFetchFailed& input) {
  Fetch* fetch = fetches.find(input.part);
  if (fetch == nullptr || fetch->complete || !fetch->running) return drop();
  if (input.error.code == Code::kConflict) fetch->patience.begin(now);  // others go first
  const auto again = is_worth_a_retry(input.error) ? break_off(fetch->patience) : std::nullopt;
  if (!again) return give_up_fetch(input.part, input.error);
  fetch->running = false;
  fetch->due = again;
}

void Agent::State::fetch_due(CheckpointPartId part) {
  Fetch& fetch = fetches.at(part);
  if (!fetch.running) return start_fetch(part, fetch);
  give_up_fetch(part, {Code::kDeadlineExceeded, "nothing moved", "", ""});
}

// Files that do not match the record will not match the next time either. Other causes may pass.
void Agent::State::give_up_fetch(CheckpointPartId part, const Error& error) {
  const bool damaged = error.code == Code::kDataLoss || error.code == Code::kNotFound;
  std::vector<ReplicaId> waiting;
  for (const auto& [id, replica] : replicas) {
    if (loads_from(replica, part)) waiting.push_back(id);
  }
  for (const ReplicaId id : waiting) {
    fail_replica(id, damaged ? ReplicaFailure::kDigestMismatch : ReplicaFailure::kSourceLost,
                 "cannot fetch " + to_string(part.checkpoint) + ": " + to_string(error));
  }
}

// A fetch serves the replicas that wait for it or load from it. After the last one its files are
// deleted.
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

// In groups each replica has an anchor of its own.
bool Agent::State::has_files_of_another_state(CheckpointPartId part, const Replica* writer) const {
  const Upload* upload = uploads.find(part);
  return upload != nullptr && writer != nullptr && upload->replica != writer->assign.replica &&
         outer_opt::averages_in_groups(writer->assign.spec.sync);
}

void Agent::State::write_checkpoint(ReplicaId replica, const WriteCheckpoint& command) {
  const CheckpointPartId part = part_of(replica, command.checkpoint);
  const Replica* writer = replicas.find(replica);
  if (has_files_of_another_state(part, writer)) drop_upload(part);
  if (Upload* upload = uploads.find(part); upload != nullptr) {
    upload->replica = replica;  // of the same stage and round: the files are the same
    if (upload->state == UploadState::kWriting || upload->state == UploadState::kHashing) return;
    announce(part, *upload);
    if (upload->state != UploadState::kSending) send_upload(part, *upload);
    return;
  }
  if (writer == nullptr || writer->state != ReplicaState::kServing) return drop();
  make_room_for_upload();
  const Upload& upload = uploads.put(part, {.replica = replica,
                                            .key = command.key,
                                            .folder = written_folder(replica, part),
                                            .patience = new_patience()});
  forward(replica, WriteCheckpointTo{replica, command, upload.folder});
}

void Agent::State::checkpoint_ready(const CheckpointReady& message) {
  const CheckpointPartId part = part_of(message.replica, message.checkpoint);
  Upload* upload = uploads.find(part);
  if (upload == nullptr) {
    return emit(DeleteCheckpointFolder{written_folder(message.replica, part)});
  }
  if (upload->state != UploadState::kWriting || upload->replica != message.replica) return drop();
  upload->sample = message.sample;
  upload->anchor = message.anchor;
  move(upload->state, UploadEvent::kWritten);
  emit(HashCheckpoint{part, upload->folder, message.files});
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
  upload->patience.begin(now);
  upload->queued_since = now;
  emit(UploadCheckpoint{input.part, upload->folder, upload->files});
}

void Agent::State::hash_failed(const CheckpointHashFailed& input) {
  const Upload* upload = uploads.find(input.part);
  if (upload == nullptr || upload->state != UploadState::kHashing) return drop();
  checkpoint_failed({upload->replica, input.part.checkpoint, to_string(input.error)});
}

// While the link is down this is said after the next Welcome (retry_uploads).
void Agent::State::announce(CheckpointPartId part, const Upload& upload) {
  say(CheckpointWritten{upload.replica, part.checkpoint, upload.key, upload.files, upload.sample,
                        upload.anchor});
}

void Agent::State::send_upload(CheckpointPartId part, Upload& upload) {
  upload.due.reset();
  if (link != LinkState::kActive) return;  // tried again after the next Welcome
  move(upload.state, UploadEvent::kRetry);
  upload.queued_since = now;
  emit(UploadCheckpoint{part, upload.folder, upload.files});
}

void Agent::State::retry_uploads() {
  for (auto& [id, upload] : uploads) {
    if (upload.state == UploadState::kWriting || upload.state == UploadState::kHashing) continue;
    announce(id, upload);
    if (upload.state != UploadState::kRetrying) continue;
    upload.patience.begin(now);
    send_upload(id, upload);
  }
}

void Agent::State::upload_done(CheckpointPartId part) {
  Upload* upload = uploads.find(part);
  if (upload == nullptr || upload->state != UploadState::kSending) return drop();
  move(upload->state, UploadEvent::kSent);
}

void Agent::State::upload_moved(const CheckpointUploadMoved& input) {
  Upload* upload = uploads.find(input.part);
  if (upload == nullptr || upload->state != UploadState::kSending) return drop();
  has_its_turn(upload->queued_since, upload->patience);
  upload->patience.moved(now, input.done);
}

void Agent::State::upload_failed(const CheckpointUploadFailed& input) {
  Upload* upload = uploads.find(input.part);
  if (upload == nullptr || upload->state != UploadState::kSending) return drop();
  move(upload->state, UploadEvent::kFailed);
  if (input.error.code == Code::kDataLoss)  // the files are not what was reported, nor will be
    return checkpoint_failed({upload->replica, input.part.checkpoint, to_string(input.error)});
  if (input.error.code == Code::kConflict) upload->patience.begin(now);  // others go first
  upload->due = break_off(upload->patience);
  if (upload->due) return;
  checkpoint_failed({upload->replica, input.part.checkpoint,
                     "the upload made no progress beyond " +
                         size_text(static_cast<double>(upload->patience.done().count())) + " for " +
                         std::to_string(options.transfer_limit.ms() / 1000) +
                         " s; the last failure: " + to_string(input.error)});
}

void Agent::State::drop_upload(CheckpointPartId part) {
  Upload& upload = uploads.at(part);
  move(upload.state, UploadEvent::kDrop);
  emit(DeleteCheckpointFolder{upload.folder});
  uploads.erase(part);
}

// The writer has ended. The coordinator learns that by itself, so no failure is reported.
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

// Drops the oldest upload when there are too many. That happens only if the coordinator does not
// tell which checkpoints it has stored.
void Agent::State::make_room_for_upload() {
  if (uploads.size() < static_cast<std::size_t>(options.checkpoints_max)) return;
  drop_upload(uploads.begin()->first);
}

}  // namespace shoal::agent
