// The coordinator's process: the real core, driven in virtual time. It obeys the one rule of
// effects (a Persist is durable before any later effect), can die between any two effects, and
// starts again from the tables. It also keeps the files of stored checkpoints, as the service does.
// Stopped (SIGSTOP) it takes no step; what arrives waits, and so does a timer that is over. When it
// continues, the timers of that time come first: nothing else is harder on what the core believes.
//
// Its clock is that of threads/clock.h: the host's time of day at its start, or the
// newest instant in the tables where that is later, carried on steadily. So the time of day may
// jump at a start, and only forwards.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "agent/core/io.h"
#include "coordinator/core/coordinator.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"
#include "tests/sim/store.h"

namespace shoal::sim {

// With it every coordinator of a run signs commit records.
inline const coordinator::RecordKey kRecordKey{"sim/1", "a secret of the coordinator", {}};

// The files of one stage of a checkpoint, as a trainer writes and reads them.
struct CheckpointFiles {
  RoundKey key;
  StageIndex stage = 0;
  replica::OuterState state;  // momentum whole, also where it is sharded
  std::size_t first = 0;      // value of the model that `state` begins with
};

// What the agent announces of them; 64 characters.
std::string hash_of(const CheckpointFiles& files);

class CoordinatorProcess final : public CoordinatorEnd {
 public:
  CoordinatorProcess(Sim& sim, Network& network);

  void boot();
  void crash(StoreCrash store = StoreCrash::kClean);
  void pause();
  // Dies, and has the tables of an earlier time at its next start, with the files of that time.
  void restore(std::size_t back, bool forgotten);
  void resume();
  void crash_after_effects(int count) { effects_until_crash_ = count; }
  std::function<void()> on_crash;  // the world starts it again

  void collect_transitions();  // of the running core into the counts; once per life

  bool alive() const { return process_.alive(); }
  bool stopped() const override { return process_.paused(); }
  Instant resumed_at() const { return resumed_at_; }
  bool answers() const { return alive() && !stopped(); }
  // From the next start on the host's time of day is this much ahead, or behind.
  void set_time_of_day(Duration ahead) { time_of_day_ = ahead; }
  SimStore& store() { return store_; }
  const Tables& tables() const { return store_.tables(); }

  void submit(const JobSpec& spec);
  void cancel(JobId job);
  void pause(JobId job);
  void resume(JobId job);
  // Not heard while the answer to an earlier command for this agent is due.
  void command(AgentId agent, coordinator::AgentVerb verb);
  // The service has got the files of one stage; false: the process is not there, or they are not
  // those that were announced.
  bool uploaded(const agent::CheckpointPartId& part, const CheckpointFiles& files,
                const std::vector<FileEntry>& announced);
  // By the records.
  std::vector<FileEntry> announced_files(const agent::CheckpointPartId& part) const;
  std::string announced_hash(const agent::CheckpointPartId& part) const;
  void upload_given_up(const agent::CheckpointPartId& part);
  const CheckpointFiles* files(const agent::CheckpointPartId& part) const;
  bool has_files() const { return !files_.empty(); }
  // A bit of the files of one part changes; `pick` says of which.
  void flip_stored_bit(std::uint64_t pick);

  // The host that said hello last as this agent; -1: none did.
  int heard_from(const std::string& uid) const {
    const auto it = heard_from_.find(uid);
    return it == heard_from_.end() ? -1 : it->second;
  }

  bool reachable() const override { return process_.alive(); }
  void agent_hello(coordinator::ConnectionId connection, const Hello& hello) override;
  void agent_said(coordinator::ConnectionId connection, const FromAgent& message) override;
  void agent_hung_up(coordinator::ConnectionId connection) override;

 private:
  struct Step {
    std::int64_t number = 0;
    coordinator::Effects effects;
    bool durable = false;
    std::size_t next = 0;  // effect to perform
  };

  void input(const coordinator::Input& input);
  void hear(coordinator::ConnectionId connection, const FromAgent& message);
  Instant core_time() const { return core_started_ + (sim_.now() - booted_at_); }
  void written(std::int64_t number, bool durable);
  void mutate(coordinator::Effects& effects);
  void mutate_record(Record& record);
  void mutate_leases(coordinator::Send& send);
  std::int64_t lease_unit_of(const JobSpec& spec) const;
  bool swallow(FromAgent& message);
  bool forgives(const FromAgent& message);
  void forgive_cards();
  bool has_false_claim(const Hello& hello) const;
  void believe(Hello& hello) const;
  void invent_files(CheckpointWritten& written);
  StageIndex stage_of_replica(ReplicaId id) const;
  void forge_votes(const Vote& vote, ReplicaId voter);
  void mix_cut(Record& record);
  void delete_newest(CheckpointId stored);
  void keep_replica(Record& record);
  void forget_step(Record& record);
  void age_momentum(FromReplica<Applied>& applied);
  void mishear(coordinator::ConnectionId connection, const FromAgent& message);
  void credit_twice(coordinator::ConnectionId connection, const FromAgent& message);
  void bury_alive(const FromAgent& message);
  coordinator::Options core_options();
  void forget_run(Record& record);
  void mutate_views(coordinator::Effects& effects);
  void renew(ReplicaId reporter, LinkEstimate& link);
  void tell_ancient_lines(PipelineView& view);
  void release_hastily(coordinator::Effects& effects);
  void forget_reducers(coordinator::Effects& effects);
  void move_again(coordinator::Effects& effects);
  bool needed(ReplicaId id) const;
  void log_decided(const coordinator::Effects& effects);
  void write(Step& step);
  void perform();
  void perform_one(const Step& step, const coordinator::Effect& effect);
  void send(const Step& step, const coordinator::Send& send);
  void measure_line(coordinator::ConnectionId connection);
  void line_measured(coordinator::ConnectionId connection, std::uint64_t id, bool answered);
  void replied(const coordinator::Reply& reply);
  void arm();
  void durable(const Record& record, const Tables& before);
  void compare();
  std::vector<coordinator::CheckpointRecord> found_on_disk() const;

  Sim& sim_;
  Network& network_;
  Process process_;
  SimStore store_;
  Prng prng_;
  std::unique_ptr<coordinator::Coordinator> core_;
  std::deque<Step> steps_;
  std::int64_t step_count_ = 0, compare_in_ = 1;
  std::uint64_t requests_ = 0;
  std::map<std::string, int> heard_from_;
  std::map<std::uint64_t, coordinator::CommandAgent> commands_;  // unanswered, by request
  Instant resumed_at_;
  Duration time_of_day_;              // of the host, ahead of the simulation's
  Instant booted_at_, core_started_;  // the same moment, in the simulation and for the core
  std::optional<Instant> armed_;      // in the simulation's time
  struct LineProbe {
    std::uint64_t id = 0;
    Instant sent_at;
  };
  std::map<coordinator::ConnectionId, LineProbe> line_probes_;  // not answered yet
  std::uint64_t line_ids_ = 0;
  std::int64_t same_instant_ = 0;
  Instant last_instant_;
  int effects_until_crash_ = 0;
  std::map<agent::CheckpointPartId, CheckpointFiles> files_;
  std::map<agent::CheckpointPartId, CheckpointFiles> deleted_files_;  // that a backup may have
  std::map<CheckpointId, coordinator::CheckpointRecord> manifests_;   // beside the files
  // For planted bugs.
  bool deaf_ = false;
  std::shared_ptr<const coordinator::PlacementReport> moved_;  // with a move that was made, and
  ReplicaId moved_to_;                                         // the replica that it has led to
  std::map<std::tuple<RoundKey, StageIndex, std::int32_t>, Digest> votes_;
  std::map<ReplicaId, std::vector<DataLease>> leases_;
  std::map<RoundKey, std::vector<DataLease>> leases_of_round_;  // the last ones that were given out
  std::uint64_t starts_ = 0;
  std::map<ReplicaId, coordinator::ConnectionId> heard_on_;
  std::map<std::pair<JobId, StageIndex>, Digest> anchors_;  // of the rounds before
  std::map<std::pair<JobId, StageIndex>, std::map<RoundNumber, Digest>> momenta_;
};

}  // namespace shoal::sim
