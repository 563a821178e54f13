// The coordinator's process: the real core, driven in virtual time. It obeys the one rule of
// effects (a Persist is durable before any later effect), can die between any two effects, and
// starts again from the tables. It also keeps the files of stored checkpoints, as the service does.
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

// The files of one stage of a checkpoint, as a trainer writes and reads them.
struct CheckpointFiles {
  RoundKey key;
  StageIndex stage = 0;
  std::vector<float> anchor, momentum;
};

class CoordinatorProcess final : public CoordinatorEnd {
 public:
  CoordinatorProcess(Sim& sim, Network& network);

  void boot();
  void crash();
  void crash_after_effects(int count) { effects_until_crash_ = count; }
  std::function<void()> on_crash;  // the world starts it again

  void collect_transitions();  // of the running core into the counts; once per life

  bool alive() const { return process_.alive(); }
  SimStore& store() { return store_; }
  const Tables& tables() const { return store_.tables(); }

  void submit(const JobSpec& spec);
  void cancel(JobId job);
  void pause(JobId job);
  void resume(JobId job);
  // Not heard while the answer to an earlier command for this agent is due.
  void command(AgentId agent, coordinator::AgentVerb verb);
  // The service has got the files of one stage; false: the process is not there.
  bool uploaded(const agent::CheckpointPartId& part, const CheckpointFiles& files);
  void upload_given_up(const agent::CheckpointPartId& part);
  const CheckpointFiles* files(const agent::CheckpointPartId& part) const;

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
  void mutate(coordinator::Effects& effects);
  void mutate_record(Record& record);
  bool swallow(FromAgent& message);
  bool forgives(const FromAgent& message);
  StageIndex stage_of_replica(ReplicaId id) const;
  void forge_votes(const Vote& vote, ReplicaId voter);
  void mix_cut(Record& record);
  void keep_replica(Record& record);
  void forget_step(Record& record);
  void mutate_views(coordinator::Effects& effects);
  void release_hastily(coordinator::Effects& effects);
  void forget_reducers(coordinator::Effects& effects);
  bool needed(ReplicaId id) const;
  void write(Step& step);
  void perform();
  void perform_one(const Step& step, const coordinator::Effect& effect);
  void send(const Step& step, const coordinator::Send& send);
  void replied(const coordinator::Reply& reply);
  void arm();
  void durable(const Record& record, const Tables& before);
  void compare();

  Sim& sim_;
  Network& network_;
  Process process_;
  SimStore store_;
  Prng prng_;
  std::unique_ptr<coordinator::Coordinator> core_;
  std::deque<Step> steps_;
  std::int64_t step_count_ = 0, compare_in_ = 1;
  std::uint64_t requests_ = 0;
  std::map<std::uint64_t, coordinator::CommandAgent> commands_;  // unanswered, by request
  std::optional<Instant> armed_;
  std::int64_t same_instant_ = 0;
  Instant last_instant_;
  int effects_until_crash_ = 0;
  std::map<agent::CheckpointPartId, CheckpointFiles> files_;
  // For planted bugs.
  bool deaf_ = false;
  std::map<std::tuple<RoundKey, StageIndex, std::int32_t>, Digest> votes_;
  std::map<ReplicaId, DataLease> leases_;
  std::uint64_t starts_ = 0;
  std::map<ReplicaId, coordinator::ConnectionId> heard_on_;
  std::map<std::pair<JobId, StageIndex>, Digest> anchors_;  // of the rounds before
};

}  // namespace shoal::sim
