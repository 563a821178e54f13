// The coordinator as a whole, with agents played by hand: every step's records are kept, and after
// every step a fresh core loaded from them must have the same digest as the live one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "coordinator/core/coordinator.h"
#include "coordinator/core/state/round_facts.h"
#include "coordinator/core/state/state.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {

JobSpec small_job(std::string name = "job");

// As an agent names them that still runs these replicas.
std::vector<HeldReplica> held_replicas(const State& state, const std::vector<ReplicaId>& replicas);

// All files of a part, of a trainer or a program of protocol 4: four of one byte each.
std::vector<FileEntry> part_files(char hash = 'a', StageIndex stage = 0, std::size_t stages = 1);
std::vector<FileEntry> files_with_roles();  // the same of a trainer of protocol 5

class Rig {
 public:
  Rig();
  Rig(Rig&&) noexcept;
  ~Rig();

  // A new process on the same tables.
  void restart(std::vector<CheckpointRecord> found = {});
  // The same, on the tables of a backup.
  void restore(const Snapshot& backup, std::vector<CheckpointRecord> found = {});

  void input(const Input& in);

  // The writer of this stage's part announces its files, and they arrive.
  void upload(CheckpointId id, StageIndex stage);
  std::vector<FileEntry> files_of(CheckpointId id, StageIndex stage) const;

  // The coordinator's signature on a record that a test has changed.
  void sign(HeldReplica& held) const;

  // A job that is queued when the process starts.
  void adopt(const JobSpec& spec);

  void wait(Duration d);

  ConnectionId join(const std::string& name, Incarnation incarnation = {},
                    std::vector<ReplicaId> replicas = {});

  Result<JobId> submit(const JobSpec& spec);

  void say(ConnectionId connection, FromAgent message);

  // The newest message of this type to that agent.
  template <typename T>
  std::optional<T> last(ConnectionId connection) {
    std::optional<T> found;
    for (const auto& message : sent[connection]) {
      if (const T* body = std::get_if<T>(&message)) found = *body;
    }
    return found;
  }

  ReplicaId load(ConnectionId connection, Digest anchor = {7, 7});
  void report(ConnectionId connection, ReplicaId replica, RoundKey key, double norm = 1,
              std::vector<LinkEstimate> links = {});
  // A pseudo-gradient that nobody can use.
  void report_broken(ConnectionId connection, ReplicaId replica, RoundKey key);
  void vote(ConnectionId connection, ReplicaId replica, RoundKey key, std::int32_t attempt,
            Digest average = {5, 5}, const std::vector<ReplicaId>& excluded = {});
  void applied(ConnectionId connection, ReplicaId replica, RoundKey key, Digest anchor);

  const JobRecord& job(JobId id) const { return core_->state().jobs.at(id); }
  const State& state() const { return core_->state(); }

  Snapshot snapshot() const;

  Options options;
  std::vector<std::int64_t> fragments;                      // of replicas that load
  Bytes device_memory = mebibytes(4096);                    // of agents that join
  std::vector<std::pair<std::string, std::string>> labels;  // of those, too
  AllowedPrograms programs;                                 // likewise
  std::int32_t protocol = kProtocolVersion;                 // likewise
  bool writes_part_files = false;                           // upload(): of protocol 5
  RecordKeys record_keys{{"test/1", "secret", {}}};         // of processes that start
  Instant now{1'700'000'000'000'000'000};
  std::map<ConnectionId, std::vector<ToAgent>> sent;
  std::vector<Reply> replies;
  std::vector<CheckpointId> deleted;
  std::vector<ConnectionId> lines;  // streams over which host lines were to be measured
  std::vector<EventRecord> events;
  std::vector<NoteDecision> decisions;
  std::vector<SubmittedText> submitted;
  std::map<RoundKey, RoundRecord> rounds_;
  std::map<ReplicaId, ReplicaRecord> replicas_;

 private:
  void keep(const Record& record);

  std::unique_ptr<Coordinator> core_;
  std::uint64_t next_connection_ = 1, starts_ = 0;
  CounterRecord counters_;
  std::map<JobId, JobRecord> jobs_;
  std::map<AgentId, AgentRecord> agents_;
  std::map<ContributionKey, ContributionRecord> contributions_;
  std::map<CheckpointId, CheckpointRecord> checkpoints_;
  std::map<LinkKey, LinkRecord> links_;
};

// A job on two agents, each with a replica that has loaded, in its first round.
struct PairRig : Rig {
  explicit PairRig(const JobSpec& spec, std::vector<std::int64_t> lengths = {});
  RoundKey key(RoundNumber round) const { return {id, 0, round}; }
  // Both vote for the same average and take the outer step.
  void finish(RoundNumber round);
  ConnectionId a, b;
  ReplicaId rep_a, rep_b;
  JobId id;
};

}  // namespace shoal::coordinator
