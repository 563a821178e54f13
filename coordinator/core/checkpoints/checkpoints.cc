#include "coordinator/core/checkpoints/checkpoints.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/number_text.h"
#include "coordinator/core/checkpoints/keeping.h"
#include "coordinator/core/checkpoints/momentum.h"
#include "coordinator/core/decisions/checkpoint_part.h"
#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/movement.h"
#include "coordinator/core/state/round_facts.h"
#include "job/data_rules.h"

namespace shoal::coordinator {
namespace {

constexpr std::int32_t kDoubtsMax = 3;  // one may be a bad line

bool is_pending(CheckpointState state) {
  return state == CheckpointState::kWriting || state == CheckpointState::kUploading;
}

// The part that this replica writes; null: none.
const CheckpointPart* part_of(const CheckpointRecord& checkpoint, ReplicaId writer) {
  const auto part =
      std::find_if(checkpoint.parts.begin(), checkpoint.parts.end(),
                   [&](const CheckpointPart& candidate) { return candidate.writer == writer; });
  return part == checkpoint.parts.end() ? nullptr : &*part;
}

// Whether the checkpoint is a cut of the committed state. In groups the state of any replica counts
// as that; after a rollback, the state of the checkpoint does.
bool is_committed_state(const CheckpointRecord& checkpoint, const JobRecord& job) {
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  if (averages_in_groups(job) && checkpoint.key == committed) return true;
  return checkpoint.key.round == job.committed_round &&
         std::equal(checkpoint.parts.begin(), checkpoint.parts.end(), job.stages.begin(),
                    job.stages.end(), [](const CheckpointPart& part, const JobStage& stage) {
                      return part.anchor && part.anchor == stage.anchor;
                    });
}

// What an absent replica was to write may never come.
bool writers_present(const State& state, const CheckpointRecord& checkpoint) {
  return std::ranges::all_of(checkpoint.parts, [&](const CheckpointPart& part) {
    return !is_pending(part.state) || is_present(state, part.writer);
  });
}

// A checkpoint is in the state of its least advanced part.
void sum_up(CheckpointRecord& checkpoint) {
  checkpoint.state = CheckpointState::kStored;
  for (const auto& part : checkpoint.parts) {
    checkpoint.state = std::min(checkpoint.state, part.state);
  }
}

void ask_writer(Transaction& tx, CheckpointId id, ReplicaId writer) {
  const State& state = tx.state();
  const RoundKey& key = state.checkpoints.at(id).key;
  const JobRecord& job = state.jobs.at(key.job);
  const StageIndex stage = state.replicas.at(writer).stage;
  std::vector<MomentumHolder> momentum;
  if (key == RoundKey{job.id, job.epoch, job.committed_round}) {
    momentum = momentum_holders(state, job, stage);
    warn_of_lost_momentum(tx, job, stage, momentum);
  }
  tx.tell(writer, WriteCheckpoint{id, key, std::move(momentum)});
}

// Once per agent: it may write the parts of several stages.
void forget_parts(Transaction& tx, const CheckpointRecord& checkpoint) {
  std::set<AgentId> agents;
  for (const auto& part : checkpoint.parts) {
    const ReplicaRecord* writer = tx.state().replicas.find(part.writer);
    if (writer != nullptr) agents.insert(writer->agent);
  }
  for (const AgentId agent : agents) tx.send(agent, ForgetCheckpoint{checkpoint.id});
}

void fail_checkpoint(Transaction& tx, CheckpointId id, const std::string& detail) {
  CheckpointRecord& checkpoint = tx.checkpoint(id);
  checkpoint.state = CheckpointState::kFailed;
  checkpoint.detail = detail;
  tx.event(Severity::kWarning, event_kind::kCheckpointFailed,
           {.job = checkpoint.key.job,
            .replica = checkpoint.parts[0].writer,
            .round = checkpoint.key.round},
           to_string(id) + " was not stored: " + detail);
  forget_parts(tx, checkpoint);
  tx.delete_files(id);  // and what interrupted uploads have received
  tx.drop_checkpoint(id);
}

// The next replica of the stage that holds exactly this state, in the order of their ids: each is
// asked once.
std::optional<ReplicaId> other_writer(const State& state, const CheckpointRecord& checkpoint,
                                      StageIndex stage) {
  const JobRecord& job = state.jobs.at(checkpoint.key.job);
  if (is_terminal(job.phase) || !is_committed_state(checkpoint, job)) return std::nullopt;
  const ReplicaId before = checkpoint.parts.at(static_cast<std::size_t>(stage)).writer;
  for (const ReplicaId replica : in_sync_replicas(state, job, stage)) {
    const bool holds = state.replicas.at(replica).held_round == job.committed_round;
    if (holds && before < replica) return replica;
  }
  return std::nullopt;
}

// The part goes to another replica of its stage; without one the checkpoint fails as a whole.
void fail_part(Transaction& tx, CheckpointId id, StageIndex stage, const std::string& detail) {
  const CheckpointRecord& known = tx.state().checkpoints.at(id);
  const CheckpointPart& failed = known.parts.at(static_cast<std::size_t>(stage));
  if (!is_pending(known.state) || !is_pending(failed.state)) return;
  const auto writer = other_writer(tx.state(), known, stage);
  if (!writer) return fail_checkpoint(tx, id, detail);
  tx.event(Severity::kWarning, event_kind::kCheckpointFailed,
           {.job = known.key.job, .replica = failed.writer, .round = known.key.round},
           to_string(id) + ": " + to_string(*writer) + " writes the part of stage " +
               std::to_string(stage) + " again: " + detail);
  CheckpointRecord& checkpoint = tx.checkpoint(id);
  CheckpointPart& part = checkpoint.parts.at(static_cast<std::size_t>(stage));
  part.writer = *writer;
  if (averages_in_groups(tx.state().jobs.at(checkpoint.key.job))) {
    part.anchor = tx.state().replicas.at(*writer).anchor;
    part.momentum = tx.state().replicas.at(*writer).momentum;
  }
  part.state = CheckpointState::kWriting;
  part.files.clear();
  sum_up(checkpoint);
  note_store(tx, id);
  ask_writer(tx, id, *writer);
}

// The files could not be written or stored although no replica was lost: most likely a disk is
// full. The job keeps its progress, an event tells people, and the checkpoint is tried again.
void say_failing(Transaction& tx, JobId id, const std::string& detail) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (is_terminal(job.phase)) return;
  tx.volatile_state().timers[id].checkpoint_again_at = tx.now() + tx.options().checkpoint_backoff;
  const bool told = job.reason == JobReason::kRunning || job.phase == JobPhase::kFinalizing ||
                    job.reason == JobReason::kCheckpointFailing;
  if (told) set_reason(tx, id, JobReason::kCheckpointFailing, detail);
}

void say_stored_again(Transaction& tx, JobId id) {
  tx.volatile_state().timers[id].checkpoint_again_at.reset();
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.reason != JobReason::kCheckpointFailing) return;
  set_reason(tx, id,
             job.phase == JobPhase::kTraining ? JobReason::kRunning
             : is_trained(job)                ? JobReason::kFinalCheckpoint
                                              : why_let_go(job));
}

// The agent of a writer whose files are not wanted; not while it writes another stage's part.
void forget_rejected(Transaction& tx, const CheckpointRecord& checkpoint, ReplicaId writer) {
  const AgentId agent = tx.state().replicas.at(writer).agent;
  const bool writes_more = std::ranges::any_of(checkpoint.parts, [&](const CheckpointPart& part) {
    const ReplicaRecord* other = tx.state().replicas.find(part.writer);
    return part.writer != writer && other != nullptr && other->agent == agent;
  });
  if (!writes_more) tx.send(agent, ForgetCheckpoint{checkpoint.id});
}

// The same as fail_part(), for a part whose writer lives.
void fail_storing(Transaction& tx, CheckpointId id, StageIndex stage, const std::string& detail) {
  const JobId job = tx.state().checkpoints.at(id).key.job;
  fail_part(tx, id, stage, detail);
  if (!tx.state().checkpoints.contains(id)) say_failing(tx, job, detail);
}

// False: the source is no checkpoint, or the agent is of protocol 4, whose trainers do not know
// part files (docs/checkpoints.md). What they say of such a checkpoint does not make it a damaged
// one.
bool can_read_source(const State& state, const ReplicaRecord& replica) {
  constexpr std::int32_t kFirstWithPartFiles = 5;
  const CheckpointRecord* source = state.checkpoints.find(replica.source.checkpoint);
  if (replica.source.kind != SourceKind::kCheckpoint || source == nullptr) return false;
  const Presence* agent = state.presence.find(replica.agent);
  if (agent == nullptr || agent->protocol >= kFirstWithPartFiles) return true;
  return std::ranges::none_of(all_files(*source),
                              [](const FileEntry& file) { return file.role == "part"; });
}

bool covers(const std::vector<UnitRange>& cut, const UnitRange& model) {
  std::int32_t next = model.first;
  for (const UnitRange& units : cut) {
    if (units.first != next || units.last <= units.first) return false;
    next = units.last;
  }
  return next == model.last;
}

// False: an earlier version stored it without its cut, and the job has another number of stages
// now, so that no record says which units its parts have.
bool has_known_parts(const JobRecord& job, const CheckpointRecord& checkpoint) {
  return checkpoint.parts.size() == job.stages.size() || !cut_of(job.spec, checkpoint).empty();
}

// What a job that continues another one can load of it; null: nothing.
const CheckpointRecord* begun_with(const State& state, const JobRecord& job) {
  const CheckpointRecord* checkpoint = continued_from(state, job);
  return checkpoint != nullptr && has_known_parts(job, *checkpoint) ? checkpoint : nullptr;
}

// What the stages of the job are loaded from since its cut has changed; null: nothing.
const CheckpointRecord* recut_from(const State& state, const JobRecord& job) {
  const CheckpointRecord* checkpoint = state.checkpoints.find(job.recut_from);
  const bool stored = checkpoint != nullptr && checkpoint->state == CheckpointState::kStored &&
                      checkpoint->key.round == job.committed_round;
  return stored ? checkpoint : nullptr;
}

}  // namespace

std::vector<UnitRange> cut_of(const JobSpec& spec, const CheckpointRecord& checkpoint) {
  std::vector<UnitRange> cut;
  for (const CheckpointPart& part : checkpoint.parts) cut.push_back(part.units);
  const bool untold = cut.size() == 1 && cut.front() == UnitRange{} && spec.swarm.stages == 1;
  if (untold) return whole_model(spec);
  return covers(cut, whole_model(spec).front()) ? cut : std::vector<UnitRange>{};
}

void record_cut(Transaction& tx, const JobRecord& job) {
  std::vector<CheckpointId> unrecorded;
  for (const auto& [id, checkpoint] : tx.state().checkpoints) {
    if (checkpoint.key.job != job.id || checkpoint.parts.size() != job.stages.size()) continue;
    if (cut_of(job.spec, checkpoint).empty()) unrecorded.push_back(id);
  }
  for (const CheckpointId id : unrecorded) {
    CheckpointRecord& checkpoint = tx.checkpoint(id);
    for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
      checkpoint.parts[stage].units = job.stages[stage].units;
    }
  }
}

PartRange parts_of_source(const State& state, const ReplicaRecord& replica) {
  const CheckpointRecord* source = state.checkpoints.find(replica.source.checkpoint);
  const bool loads = replica.source.kind == SourceKind::kCheckpoint && replica.source.key.round > 0;
  if (!loads || source == nullptr) return {};
  const JobRecord& job = state.jobs.at(replica.job);
  const std::vector<UnitRange> cut = cut_of(job.spec, *source);
  if (cut.empty() || cut == cut_of(job)) return {};
  const UnitRange units = stage_of(job, replica.stage).units;
  PartRange parts;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    if (cut[i].last <= units.first || cut[i].first >= units.last) continue;
    if (parts.count++ == 0) parts.first = static_cast<StageIndex>(i);
  }
  return parts;
}

const CheckpointRecord* continued_from(const State& state, const JobRecord& job) {
  const auto id = checkpoint_of_weights(job.spec.train.continue_from);
  const CheckpointRecord* checkpoint = id ? state.checkpoints.find(*id) : nullptr;
  const bool stored = checkpoint != nullptr && checkpoint->state == CheckpointState::kStored;
  return stored ? checkpoint : nullptr;
}

const CheckpointRecord* checkpoint_of_committed(const State& state, const JobRecord& job) {
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job == job.id && checkpoint.state == CheckpointState::kStored &&
        has_known_parts(job, checkpoint) && is_committed_state(checkpoint, job)) {
      return &checkpoint;
    }
  }
  if (const CheckpointRecord* other_cut = recut_from(state, job)) return other_cut;
  const CheckpointRecord* first = begun_with(state, job);
  return first != nullptr && is_committed_state(*first, job) ? first : nullptr;
}

bool checkpoint_of_committed_pending(const State& state, const JobRecord& job) {
  return std::any_of(state.checkpoints.begin(), state.checkpoints.end(), [&](const auto& entry) {
    const CheckpointRecord& checkpoint = entry.second;
    return checkpoint.key.job == job.id && is_pending(checkpoint.state) &&
           is_committed_state(checkpoint, job) && writers_present(state, checkpoint);
  });
}

const CheckpointRecord* newest_stored(const State& state, JobId job) {
  const CheckpointRecord* newest = nullptr;
  const JobRecord* record = state.jobs.find(job);
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job != job || checkpoint.state != CheckpointState::kStored) continue;
    if (record != nullptr && !has_known_parts(*record, checkpoint)) continue;
    if (newest == nullptr || newest->key < checkpoint.key) newest = &checkpoint;
  }
  return newest == nullptr && record != nullptr ? begun_with(state, *record) : newest;
}

bool final_checkpoint_stored(const State& state, const JobRecord& job) {
  const CheckpointRecord* checkpoint = checkpoint_of_committed(state, job);
  return checkpoint != nullptr && checkpoint->final;
}

bool final_checkpoint_pending(const State& state, const JobRecord& job) {
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job == job.id && checkpoint.final && is_pending(checkpoint.state)) {
      return true;
    }
  }
  return false;
}

void request_checkpoint(Transaction& tx, JobId job_id, bool final) {
  const JobRecord& job = tx.state().jobs.at(job_id);
  SHOAL_CHECK(anchors_known(job), "nobody could tell whether its files are what was committed");
  if (weakest_stage(tx.state(), job).in_sync == 0) return;
  CheckpointRecord record;
  record.id = CheckpointId(tx.counters().next_checkpoint++);
  record.key = {job.id, job.epoch, job.committed_round};
  record.final = final;
  CommitRecord cut = commit_record(tx.state(), job);
  record.step = cut.step;
  record.tokens = cut.tokens;
  record.next_sequence = cut.next_sequence;
  record.returned = std::move(cut.returned);
  record.created_at = tx.now();
  const CheckpointId id = tx.add(std::move(record)).id;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    const ReplicaId writer = in_sync_replicas(tx.state(), job, stage).front();
    const JobStage& cut = stage_of(job, stage);
    const ReplicaRecord& own = tx.state().replicas.at(writer);
    const bool in_groups = averages_in_groups(job);
    tx.checkpoint(id).parts.push_back({.writer = writer,
                                       .state = CheckpointState::kWriting,
                                       .anchor = in_groups ? own.anchor : cut.anchor,
                                       .momentum = in_groups ? own.momentum : cut.momentum,
                                       .files = {},
                                       .units = cut.units});
    ask_writer(tx, id, writer);
  }
}

void on_checkpoint_written(Transaction& tx, const CheckpointWritten& written) {
  const CheckpointRecord* known = tx.state().checkpoints.find(written.checkpoint);
  const CheckpointPart* part = known == nullptr ? nullptr : part_of(*known, written.replica);
  if (part == nullptr || part->state != CheckpointState::kWriting) return;
  const auto stage = static_cast<StageIndex>(part - &known->parts[0]);
  const PartVerdict verdict = check_part({.spec = tx.state().jobs.at(known->key.job).spec,
                                          .stage = stage,
                                          .stages = known->parts.size(),
                                          .committed = part->anchor,
                                          .files = written.files,
                                          .anchor = written.anchor});
  if (verdict.problem != PartProblem::kNone) {
    forget_rejected(tx, *known, written.replica);
    return fail_storing(
        tx, written.checkpoint, stage,
        "the part of " + to_string(written.replica) + " is not whole: " + sentence_of(verdict));
  }
  CheckpointRecord& checkpoint = tx.checkpoint(written.checkpoint);
  CheckpointPart& announced = checkpoint.parts[static_cast<std::size_t>(stage)];
  announced.state = CheckpointState::kUploading;
  note_store(tx, written.checkpoint);
  announced.files = written.files;
  if (!written.sample.empty()) checkpoint.sample = written.sample;
  sum_up(checkpoint);
  look_through_soon(tx);
}

void on_checkpoint_failed(Transaction& tx, const CheckpointFailed& failed) {
  const CheckpointRecord* known = tx.state().checkpoints.find(failed.checkpoint);
  const CheckpointPart* part = known == nullptr ? nullptr : part_of(*known, failed.replica);
  if (part == nullptr) return;
  fail_storing(tx, failed.checkpoint, static_cast<StageIndex>(part - &known->parts[0]),
               failed.detail);
}

void on_checkpoint_upload_failed(Transaction& tx, const CheckpointUploadFailed& failed) {
  if (tx.state().checkpoints.contains(failed.checkpoint)) {
    fail_storing(tx, failed.checkpoint, failed.stage, failed.detail);
  }
}

void on_checkpoint_uploaded(Transaction& tx, const CheckpointUploaded& uploaded) {
  const CheckpointId id = uploaded.checkpoint;
  if (!tx.state().checkpoints.contains(id)) return tx.delete_files(id);  // not wanted any more
  if (!is_pending(tx.state().checkpoints.at(id).state)) return;
  CheckpointRecord& checkpoint = tx.checkpoint(id);
  CheckpointPart& part = checkpoint.parts.at(static_cast<std::size_t>(uploaded.stage));
  // Else another replica writes it by now, or has.
  if (part.state != CheckpointState::kUploading || part.files != uploaded.files) return;
  part.state = CheckpointState::kStored;
  note_store(tx, id);
  sum_up(checkpoint);
  if (checkpoint.state != CheckpointState::kStored) return;
  const JobId job = checkpoint.key.job;
  const Bytes size = total_size(checkpoint);
  tx.event(Severity::kInfo, event_kind::kCheckpointStored,
           {.job = job, .replica = checkpoint.parts[0].writer, .round = checkpoint.key.round},
           to_string(id) + " of round " + std::to_string(checkpoint.key.round) + " stored, " +
               size_text(static_cast<double>(size.n)));
  forget_parts(tx, checkpoint);
  delete_superseded(tx, job);
  look_through_soon(tx);
  if (!is_terminal(tx.state().jobs.at(job).phase)) say_stored_again(tx, job);
}

void leave_checkpoints(Transaction& tx, const ReplicaRecord& ended) {
  std::vector<CheckpointId> abandoned;
  for (const auto& [id, checkpoint] : tx.state().checkpoints) {
    if (part_of(checkpoint, ended.id) != nullptr && is_pending(checkpoint.state)) {
      abandoned.push_back(id);
    }
  }
  for (const CheckpointId id : abandoned) {
    fail_part(tx, id, ended.stage, "its writer " + to_string(ended.id) + " ended");
  }
}

void hand_over_parts(Transaction& tx, const ReplicaRecord& absent) {
  std::vector<CheckpointId> waiting;
  for (const auto& [id, checkpoint] : tx.state().checkpoints) {
    const CheckpointPart* part = part_of(checkpoint, absent.id);
    if (part == nullptr || !is_pending(part->state)) continue;
    if (other_writer(tx.state(), checkpoint, absent.stage)) waiting.push_back(id);
  }
  for (const CheckpointId id : waiting) {
    fail_part(tx, id, absent.stage, "its writer " + to_string(absent.id) + " is absent");
  }
}

void resend_checkpoint(Transaction& tx, const ReplicaRecord& replica) {
  for (const auto& [id, checkpoint] : tx.state().checkpoints) {
    const CheckpointPart* part = part_of(checkpoint, replica.id);
    if (part != nullptr && is_pending(part->state)) ask_writer(tx, id, replica.id);
  }
}

bool writes_checkpoint(const State& state, ReplicaId replica) {
  return std::ranges::any_of(state.checkpoints, [&](const auto& entry) {
    const CheckpointPart* part = part_of(entry.second, replica);
    return part != nullptr && part->state == CheckpointState::kWriting;
  });
}

void doubt_source(Transaction& tx, const ReplicaRecord& replica, const std::string& detail) {
  const CheckpointId id = replica.source.checkpoint;
  const bool on_other_cut = tx.state().jobs.at(replica.job).recut_from == id;
  if (on_other_cut || !can_read_source(tx.state(), replica)) return;
  if (++tx.volatile_state().doubts[id] < kDoubtsMax) return;
  tx.volatile_state().doubts.erase(id);
  CheckpointRecord& checkpoint = tx.checkpoint(id);
  checkpoint.state = CheckpointState::kFailed;
  checkpoint.detail = "it cannot be loaded: " + detail;
  tx.event(Severity::kError, event_kind::kCheckpointFailed,
           {.job = checkpoint.key.job, .round = checkpoint.key.round},
           to_string(id) + " of round " + std::to_string(checkpoint.key.round) +
               " is damaged and set aside, its files are kept; the job continues from the one "
               "before it: " +
               detail);
  tx.drop_checkpoint(id);
}

void check_checkpoint_limits(Transaction& tx, JobId job) {
  std::vector<CheckpointId> late;
  for (const auto& [id, checkpoint] : tx.state().checkpoints) {
    if (checkpoint.key.job != job || !is_pending(checkpoint.state)) continue;
    const Instant limit = store_deadline(tx, checkpoint);
    if (tx.now() < limit) {
      tx.schedule_wakeup(job, limit);
    } else {
      late.push_back(id);
    }
  }
  for (const CheckpointId id : late) {
    fail_checkpoint(tx, id, "nothing moved");
    say_failing(tx, job, to_string(id) + " was not stored: nothing moved");
  }
}

}  // namespace shoal::coordinator
