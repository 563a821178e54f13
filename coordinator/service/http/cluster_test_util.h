// A cluster in memory for the tests of the HTTP side: the store, reader and command interfaces over
// plain maps, filled by the tests. It has none of the coordinator's rules; those have their own
// tests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/service/cluster.h"
#include "threads/mutex.h"

namespace shoal::coordinator::testing {

// Tables by key; every access goes through `mutex`.
struct Tables {
  Mutex mutex;
  std::map<std::uint64_t, JobRecord> jobs SHOAL_GUARDED_BY(mutex);
  std::map<std::uint64_t, AgentRecord> agents SHOAL_GUARDED_BY(mutex);
  std::map<std::uint64_t, ReplicaRecord> replicas SHOAL_GUARDED_BY(mutex);
  std::map<std::uint64_t, CheckpointRecord> checkpoints SHOAL_GUARDED_BY(mutex);
  std::map<RoundKey, RoundRecord> rounds SHOAL_GUARDED_BY(mutex);
  std::map<RoundKey, std::vector<ContributionRecord>> contributions SHOAL_GUARDED_BY(mutex);
  std::map<std::int64_t, EventRecord> events SHOAL_GUARDED_BY(mutex);
  std::map<std::uint64_t, SubmittedText> submitted SHOAL_GUARDED_BY(mutex);
  std::map<std::int64_t, AuditRecord> audit SHOAL_GUARDED_BY(mutex);
  std::vector<LinkRecord> links SHOAL_GUARDED_BY(mutex);
  std::map<AgentId, LogPage> logs SHOAL_GUARDED_BY(mutex);  // of agents that answer
  std::map<std::string, std::vector<SeriesLine>> series SHOAL_GUARDED_BY(mutex);  // by name
  std::map<AgentId, std::vector<DeviceLine>> device_history SHOAL_GUARDED_BY(mutex);
  std::optional<Error> broken SHOAL_GUARDED_BY(mutex);          // every question fails with it
  std::function<void()> before_answer SHOAL_GUARDED_BY(mutex);  // runs in the reader's thread
  std::int64_t round_rows_read SHOAL_GUARDED_BY(mutex) = 0;
};

class MemoryStore : public Store {
 public:
  explicit MemoryStore(Tables& tables) : tables_(tables) {}
  Result<Snapshot> load() override { return Snapshot{}; }
  void write(std::vector<Record> records, std::function<void(Status)> done) override;
  Result<MachineTables> load_machines() override { return MachineTables{}; }
  void write_machines(std::vector<MachineRow>, std::function<void(Status)> done) override {
    done({});
  }
  Result<PeopleTables> load_people() override { return PeopleTables{}; }
  void write_people(std::vector<PeopleRow> rows, std::function<void(Status)> done) override;
  Result<FileTables> load_files() override { return FileTables{}; }
  void write_files(std::vector<FileRow>, std::function<void(Status)> done) override { done({}); }
  void append(std::vector<SeriesPoint>) override {}
  void forget_after(JobId, RoundNumber) override {}
  void append_devices(DeviceLog) override {}
  void forget_devices(AgentId) override {}
  std::unique_ptr<Reader> reader() override;
  StoreStats stats() const override;
  const std::string& folder() const override { return folder_; }

 private:
  Tables& tables_;
  std::string folder_ = "memory";
};

class MemoryCluster : public Cluster {
 public:
  MemoryCluster() : store_(tables) {}

  void submit(NewJob job, bool dry_run, std::function<void(Answer)> done) override;
  void cancel(JobId job, std::function<void(Answer)> done) override;
  void pause(JobId job, std::function<void(Answer)> done) override;
  void resume(JobId job, ObjectUser by, std::function<void(Answer)> done) override;
  void change(ChangeJob command, std::function<void(Answer)> done) override;
  void remove_job(JobId job, std::vector<CheckpointRecord> aside,
                  std::function<void(Answer)> done) override;
  void command_checkpoint(CommandCheckpoint command, std::function<void(Answer)> done) override;
  void command_agent(AgentId agent, AgentVerb verb, std::function<void(Answer)> done) override;
  void read_logs(AgentId agent, const LogQuery& query,
                 std::function<void(Result<LogPage>)> done) override;
  std::shared_ptr<const LiveView> live() const override;
  Readiness readiness() const override;
  std::int64_t inputs_waiting() const override { return 0; }
  CheckpointSpace checkpoint_space() const override;
  std::shared_ptr<Meters> meters() const override { return meters_; }
  Store& store() override { return store_; }
  std::string checkpoint_folder(CheckpointId checkpoint) const override;
  std::shared_ptr<void> on_events(std::function<void(std::int64_t)> wake) override;

  void add_event(std::string kind, JobId job = {}, std::string message = {},
                 Severity severity = Severity::kInfo);
  void set_live(LiveView view);
  void set_checkpoint_space(CheckpointSpace space);

  Tables tables;
  Readiness ready;              // set before the server starts
  bool answer_commands = true;  // false: submit and cancel never answer
  std::string checkpoint_root;
  PlacementDecision plan;  // what a dry run answers

 private:
  void desire(JobId job, JobDesired desired, const std::function<void(Answer)>& done);
  MemoryStore store_;
  mutable Mutex mutex_;
  LiveView live_ SHOAL_GUARDED_BY(mutex_);
  CheckpointSpace space_ SHOAL_GUARDED_BY(mutex_);
  const std::shared_ptr<Meters> meters_ = std::make_shared<Meters>();
  std::uint64_t next_job_ SHOAL_GUARDED_BY(tables.mutex) = 100;
  std::map<int, std::function<void(std::int64_t)>> wakes_ SHOAL_GUARDED_BY(mutex_);
  int next_wake_ SHOAL_GUARDED_BY(mutex_) = 0;
};

JobSpec small_spec(std::string name);

// One training job "alpha" (job_7) with two agents and replicas, three rounds (the last one open),
// one stored checkpoint (ckpt_5) and a finished job "beta" (job_8).
void fill(MemoryCluster& cluster);

// Beside that a pipeline "piped" (job_9) of two stages: rep_11 of agt_1 sends to rep_12 of agt_2.
void fill_pipeline(MemoryCluster& cluster);

}  // namespace shoal::coordinator::testing
