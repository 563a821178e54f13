// The functions that move the state of an agent (agent_data.h), one .cc per concern: link.cc,
// trainers.cc, adoption.cc, replicas.cc, programs.cc, checkpoints.cc. agent.cc has the switch and
// the deadlines. Every change of a machine goes through move(), which looks the row up in states.h
// and counts it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/core/agent_data.h"
#include "base/check.h"

namespace shoal::agent {

// What a replica loads whose source is a checkpoint.
CheckpointPartId source_of(const Assign& assign);

struct Agent::State : AgentData {
  explicit State(Options given);

  // ---- common
  template <typename S, typename E>
  void move(S& state, E event) {
    const auto to = transition(state, event);
    SHOAL_CHECK(to.has_value(),
                std::string(machine_name(state)) + " " + to_string(state) + " " + to_string(event));
    ++counts[std::string(machine_name(state)) + " " + to_string(state) + " " + to_string(event)];
    state = *to;
  }
  void emit(Effect effect) { out->push_back(std::move(effect)); }
  void drop() { ++dropped; }
  Duration wait(Backoff& backoff) { return backoff.next(prng); }
  TransferPatience new_patience() const {
    return {options.transfer_limit, options.upload_first, options.upload_cap};
  }
  bool running() const { return daemon == DaemonState::kRunning; }
  void boot(const Booted& input);
  void stop();
  void hand_over();
  void finish(int code, std::string message);
  void fire_deadlines();
  std::optional<Instant> next_deadline() const;

  // ---- link.cc
  void open_link();
  void link_up(const LinkUp& input);
  void link_down(const LinkDown& input);
  void lose_link();
  void hear(const CoordinatorSaid& input);
  void greet(const ToAgent& message);
  void welcomed(const Welcome& message);
  void take_relays(const std::vector<std::string>& addresses);
  void tell_relays(std::int32_t slot);
  void refused(const Error& error, std::string sentence);
  void refused_by_coordinator(const Error& error);
  void obey(const ToAgent& message);
  void beat();
  std::vector<DeviceFailure> device_failures() const;
  std::vector<DeviceSample> new_samples();
  bool works(std::int32_t slot) const;
  void tell_load_apart();
  void host_measured(const HostMeasured& input);
  bool say(FromAgent message);                               // false: the link is not active
  std::optional<Instant> say_now(const FromAgent& message);  // when it was said

  // ---- trainers.cc
  TrainerId trainer_id(std::int32_t slot) const;
  Trainer* current(TrainerId id);  // null for an old or unknown process
  void start_trainer(std::int32_t slot);
  void attached(const TrainerAttached& input);
  void measured(const TrainerAttached& input);
  void ready_again(std::int32_t slot);
  void detached(const TrainerDetached& input);
  void exited(const TrainerExited& input);
  void trainer_said(const TrainerSaid& input);
  void exceeded(const TrainerExceeded& input);
  void overstepped(const TrainerOverstepped& input);
  void port_refused(std::int32_t slot, const RefusalCounts& counts);
  void kill_trainer(std::int32_t slot, std::string because);
  void trainer_due(std::int32_t slot);
  void silenced(std::int32_t slot);
  void stop_trainer(std::int32_t slot);
  void stop_trainers();
  bool has_device(std::int32_t device) const;                 // its number is not vacant
  bool is_first(std::int32_t slot) const;                     // the one that its device always has
  bool is_taken(std::int32_t slot) const;                     // a replica is on it
  std::optional<std::int32_t> slot_for(std::int32_t device);  // none: too many trainers
  void kill_all_trainers();
  bool all_trainers_down() const;

  // ---- blocks.cc
  void measure_block(const MeasureBlock& asked);
  void block_measured(std::int32_t slot, const BlockMeasured& measured);
  void end_measuring(std::int32_t slot, const std::string& why);  // if it measures

  // ---- adoption.cc
  void await(const LeftTrainer& left);
  bool is_gathering() const;  // left trainers may still come, or say what they hold
  void open_gathered_link();  // once all are there
  void adopt(std::int32_t slot, const Assign& held);
  std::optional<std::string> contradiction(std::int32_t slot, const Assign& held) const;
  void adopt_unidentified(std::int32_t slot, const Assign& held);
  void confirm_identities(const std::vector<ReplicaId>& kept);
  void pretends(std::int32_t slot, std::string what);
  void identify(std::int32_t slot, TrainerIdentity identity);
  TrainerIdentity identity_of(const Assign& message) const;
  void attached_again(const TrainerAttached& input);

  // ---- replicas.cc
  void assign(const Assign& message);
  void assign_again(Replica& replica, const Assign& message);
  Replica& take_on(const Assign& message, std::int32_t slot);
  void load_what_is_ready();
  bool say_load(const Replica& replica);
  bool is_too_old_for(const Replica& replica) const;
  void replace_trainer(std::int32_t slot);
  void release(const Release& message);
  void end_replica(ReplicaId id);
  void remember_released(ReplicaId id);
  void fail_replica(ReplicaId id, ReplicaFailure failure, std::string detail);
  void trainer_gave_up(const ReplicaFailed& message);
  void refuse(ReplicaId id, ReplicaFailure failure, std::string detail);
  void say_failed(ReplicaId id, ReplicaFailure failure, std::string detail);
  void fail_replicas_of(std::int32_t slot, const std::string& detail, bool for_memory);
  bool ran_out(const Replica& replica);  // its trainer was killed for memory, not the first time
  void replica_due(ReplicaId id);
  void forward(ReplicaId replica, ToTrainer message);
  void expect_commit(ReplicaId replica, const CommitRecord& record);
  void keep_record(const ToReplica<KeepRecord>& message);
  void applied(ReplicaId replica, const Applied& message);
  void load_moved(const LoadProgress& message);
  Duration load_limit_of(const Replica& replica) const;
  void await_release(std::int32_t slot);
  void loaded(const Loaded& message);
  bool is_on(ReplicaId replica, std::int32_t slot) const;
  std::optional<std::string> no_memory_for(const Assign& message) const;  // none: there is

  // ---- programs.cc
  TrainerSpec runs_of(const Assign& message) const;
  std::optional<std::string> why_not_run_here(const Assign& message) const;  // none: it may run
  void prepare(const Replica& replica);                   // it was assigned, or its code has come
  void retire(std::int32_t slot);                         // nothing is left for its process to do
  TrainerIdentity identity_for(std::int32_t slot) const;  // of a process that is started now
  std::string data_for(std::int32_t slot) const;
  bool has_code(const Replica& replica) const;
  void want_code(Replica& replica);
  void fetch_code(const std::string& code, Fetch& fetch);
  void code_fetched(const std::string& code);
  void code_moved(const CodeFetchMoved& input);
  void code_failed(const CodeFetchFailed& input);
  void codes_due();
  void give_up_code(const std::string& code, const Error& error);
  void drop_unused_code();
  std::vector<ReplicaId> waiting_for_code(const std::string& code) const;

  // ---- checkpoints.cc
  void want_fetch(CheckpointPartId part);
  void fetched(CheckpointPartId part);
  void fetch_moved(const CheckpointFetchMoved& input);
  void fetch_failed(const CheckpointFetchFailed& input);
  void start_fetch(CheckpointPartId part, Fetch& fetch);
  void say_fetches_move(const CheckpointFetchMoved& input);
  void fetch_due(CheckpointPartId part);
  void has_its_turn(std::optional<Instant>& queued_since, TransferPatience& patience);
  std::optional<Instant> break_off(TransferPatience& patience);  // when to continue
  void give_up_fetch(CheckpointPartId part, const Error& error);
  void drop_unused_fetches();
  bool has_files_of_another_state(CheckpointPartId part, const Replica* writer) const;
  void write_checkpoint(ReplicaId replica, const WriteCheckpoint& command);
  void checkpoint_ready(const CheckpointReady& message);
  void checkpoint_failed(const CheckpointFailed& message);
  void hashed(const CheckpointHashed& input);
  void hash_failed(const CheckpointHashFailed& input);
  void announce(CheckpointPartId part, const Upload& upload);
  void send_upload(CheckpointPartId part, Upload& upload);
  void retry_uploads();  // after a Welcome
  void upload_moved(const CheckpointUploadMoved& input);
  void upload_done(CheckpointPartId part);
  void upload_failed(const CheckpointUploadFailed& input);
  void drop_upload(CheckpointPartId part);
  void drop_unfinished_uploads(ReplicaId writer);
  void forget_checkpoint(CheckpointId checkpoint);
  void make_room_for_upload();
  CheckpointPartId part_of(ReplicaId writer, CheckpointId checkpoint) const;
  std::string fetched_folder(CheckpointPartId part) const;
  std::string written_folder(ReplicaId writer, CheckpointPartId part) const;
};

}  // namespace shoal::agent
