#include "coordinator/core/state/state.h"

#include <algorithm>

#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

void add(Digester& d, const RoundKey& key) { d.add(key.job.n).add(key.lineage).add(key.round); }
void add(Digester& d, const DataLease& lease) { d.add(lease.first).add(lease.count); }
void add(Digester& d, const std::vector<DataLease>& leases) {
  d.add(static_cast<std::uint64_t>(leases.size()));
  for (const auto& lease : leases) add(d, lease);
}

void add(Digester& d, const JobSpec& spec) {
  d.add(spec.name).add(to_string(spec.model.family)).add(spec.model.layers).add(spec.model.hidden);
  d.add(spec.model.heads).add(spec.model.kv_heads).add(spec.model.ffn).add(spec.model.context);
  d.add(spec.model.vocab)
      .add(spec.model.tie_embeddings.value_or(false))
      .add(spec.data.train)
      .add(to_string(spec.data.tokenizer));
  d.add(spec.data.val_fraction).add(spec.train.steps.n).add(spec.train.batch);
  d.add(spec.train.microbatch).add(spec.train.lr).add(spec.train.min_lr).add(spec.train.warmup.n);
  d.add(to_string(spec.train.schedule)).add(spec.train.weight_decay).add(spec.train.beta1);
  d.add(spec.train.beta2).add(spec.train.clip).add(to_string(spec.train.precision));
  d.add(spec.train.seed).add(to_string(spec.sync.algorithm)).add(spec.sync.every.n);
  d.add(spec.sync.every_s).add(to_string(spec.sync.balance)).add(spec.sync.eager);
  d.add(to_string(spec.sync.topology)).add(to_string(spec.sync.codec)).add(spec.sync.outer.lr);
  d.add(spec.sync.feedback).add(to_string(spec.sync.aggregator)).add(spec.sync.clip);
  d.add(spec.sync.fragments).add(spec.sync.overlap_steps.n).add(spec.sync.blend);
  d.add(spec.sync.quorum).add(to_string(spec.sync.outer_state));
  d.add(to_string(spec.train.optimizer));
  d.add(spec.sync.outer.momentum).add(spec.swarm.stages).add(spec.swarm.min_replicas);
  d.add(to_string(spec.swarm.activations)).add(to_string(spec.swarm.recompute));
  d.add(to_string(spec.swarm.schedule)).add(to_string(spec.swarm.wiring));
  d.add(spec.swarm.max_replicas).add(spec.checkpoint.every_rounds).add(spec.checkpoint.keep);
  d.add(spec.eval.every_rounds).add(spec.eval.batches);
}

void add(Digester& d, const CounterRecord& r) {
  d.add(r.next_job).add(r.next_agent).add(r.next_replica).add(r.next_checkpoint).add(r.next_event);
  d.add(r.boot_epoch).add(r.store).add(r.backup_at.ns);
}

void add(Digester& d, const JobRecord& r) {
  add(d, r.spec);
  d.add(r.id.n).add(to_string(r.phase)).add(to_string(r.desired)).add(to_string(r.reason));
  d.add(r.detail).add(r.created_at.ns).add(r.updated_at.ns).add(r.started_at.ns);
  d.add(r.finished_at.ns).add(r.lineage).add(r.committed_round).add(r.committed_at.ns);
  d.add(r.committed_step.n).add(r.committed_tokens.n).add(r.view).add(r.routers).add(r.outer_lr);
  d.add(r.next_sequence).add(r.train_loss).add(r.validation_loss);
  d.add(r.validation_round)
      .add(r.bytes_sent.n)
      .add(r.failures_in_row)
      .add(r.balance_at.ns)
      .add(r.balance_confirmed);
  for (const auto& stage : r.stages) {
    d.add(stage.units.first).add(stage.units.last).add(stage.value_count);
    d.add(stage.anchor).add(stage.momentum);
    for (const std::int64_t values : stage.fragments) d.add(values);
  }
  add(d, r.returned);
  d.add(r.data).add(r.rollback_at.ns);
}

void add(Digester& d, const AgentRecord& r) {
  d.add(r.id.n).add(r.uid).add(r.name).add(r.version).add(r.host).add(r.incarnation.n);
  d.add(to_string(r.state))
      .add(to_string(r.gone))
      .add(r.cordoned)
      .add(r.joined_at.ns)
      .add(r.updated_at.ns);
  for (const auto& device : r.devices) {
    d.add(device.index).add(to_string(device.kind)).add(device.name).add(device.memory.n);
    d.add(device.gflops).add(device.bf16);
  }
  for (const auto& [key, value] : r.labels) d.add(key).add(value);
  const Standing& s = r.standing;
  d.add(s.strikes).add(s.struck_at.ns).add(to_string(s.strike_reason));
  d.add(s.quarantines).add(s.quarantined_until.ns);
  for (const auto& refusal : r.refusals) {
    d.add(refusal.device).add(refusal.needed.n).add(refusal.at.ns);
  }
  d.add(r.attendance.since.ns).add(r.attendance.present_s).add(r.attendance.losses);
}

void add(Digester& d, const ReplicaRecord& r) {
  d.add(r.id.n).add(r.job.n).add(r.agent.n).add(r.incarnation.n).add(r.device).add(r.stage);
  d.add(to_string(r.state)).add(to_string(r.failure)).add(r.detail).add(r.address);
  d.add(to_string(r.source.kind)).add(r.source.donor_address).add(r.source.donor.n);
  d.add(r.source.checkpoint.n).add(r.source.anchor).add(r.source.momentum);
  add(d, r.source.key);
  d.add(r.lineage).add(r.held_round).add(r.anchor).add(r.momentum).add(r.created_at.ns);
  d.add(r.updated_at.ns).add(r.store).add(r.absent_since.ns);
}

void add(Digester& d, const RoundRecord& r) {
  add(d, r.key);
  d.add(to_string(r.state)).add(r.aborts).add(to_string(r.abort_reason));
  d.add(r.from_step.n).add(r.to_step.n).add(r.opened_at.ns).add(r.sealed_at.ns);
  d.add(r.committed_at.ns).add(r.tokens.n).add(r.train_loss).add(r.validation_loss);
  d.add(r.validation_tokens.n).add(r.validation_sum).add(r.eval_slices).add(r.outer_lr);
  d.add(r.share).add(r.carried_steps).add(r.job_tokens.n);
  for (const auto& stage : r.stages) {
    d.add(stage.attempt).add(stage.attempt_started_at.ns).add(stage.average);
    d.add(stage.anchor).add(stage.momentum).add(to_string(stage.choice.topology));
    d.add(to_string(stage.choice.reason)).add(stage.frame_values);
    d.add(stage.entropy_coding).add(stage.given_up).add(stage.base).add(stage.base_momentum);
    for (const MomentumHolder& holder : stage.momentum_holders) {
      d.add(holder.replica.n).add(holder.address).add(holder.first).add(holder.count);
    }
  }
}

void add(Digester& d, const ContributionRecord& r) {
  add(d, r.key);
  d.add(r.replica.n)
      .add(r.agent.n)
      .add(r.stage)
      .add(r.group)
      .add(r.reducer)
      .add(to_string(r.state));
  d.add(to_string(r.reject_reason)).add(r.report.drawn.n);
  add(d, r.leases);
  add(d, r.report.key);
  d.add(r.report.tokens.n).add(r.report.steps.n).add(r.report.train_loss).add(r.report.norm);
  d.add(r.report.max_abs).add(r.report.nonfinite).add(r.report.compute_s).add(r.reported_at.ns);
  d.add(r.report.stood_s).add(r.report.skipped.n);
  d.add(r.momentum).add(r.base).add(r.base_momentum).add(r.added);
  d.add(r.voted_at.ns).add(r.applied_at.ns).add(r.weight).add(r.clip_factor).add(r.member_index);
  d.add(r.part_first)
      .add(r.part_count)
      .add(r.left_out)
      .add(r.average)
      .add(r.anchor)
      .add(r.stats.sent.n);
  d.add(r.stats.received.n).add(r.stats.reduce_s).add(r.eval_slice).add(r.evaluated);
}

void add(Digester& d, const CheckpointRecord& r) {
  add(d, r.key);
  d.add(r.id.n).add(to_string(r.state)).add(r.final).add(r.step.n).add(r.tokens.n);
  d.add(r.next_sequence).add(r.detail).add(r.sample).add(r.created_at.ns);
  d.add(r.updated_at.ns);
  add(d, r.returned);
  for (const auto& part : r.parts) {
    d.add(part.writer.n).add(to_string(part.state)).add(part.anchor).add(part.momentum);
    for (const auto& file : part.files) d.add(file.path).add(file.size.n).add(file.sha256);
    d.add(part.units.first).add(part.units.last);
  }
}

void add(Digester& d, const LinkRecord& r) {
  d.add(r.from.n).add(r.to.n).add(r.round_trip.ns).add(r.bytes_per_s).add(to_string(r.dialled));
  d.add(r.measured_at.ns);
}

template <typename Key, typename Value>
void add_all(Digester& d, const FlatMap<Key, Value>& map) {
  d.add(static_cast<std::uint64_t>(map.size()));
  for (const auto& [key, value] : map) add(d, value);
}

}  // namespace

Digest State::digest() const {
  Digester d;
  add(d, counters);
  add_all(d, jobs);
  add_all(d, agents);
  add_all(d, replicas);
  add_all(d, rounds);
  add_all(d, contributions);
  add_all(d, checkpoints);
  add_all(d, links);
  return d.finish();
}

State load_state(const Options& options, const Snapshot& snapshot) {
  State state;
  state.options = options;
  state.counters = snapshot.counters;
  for (const auto& job : snapshot.jobs) {
    state.jobs.put(job.id, job);
    if (!is_terminal(job.phase)) state.timers.put(job.id, {});
  }
  for (const auto& agent : snapshot.agents) state.agents.put(agent.id, agent);
  for (const auto& replica : snapshot.replicas) {
    if (!is_terminal(replica.state)) state.replicas.put(replica.id, replica);
  }
  const auto wanted = [&](const RoundKey& key) {
    const JobRecord* job = state.jobs.find(key.job);
    return job != nullptr && !is_terminal(job->phase) && key.lineage == job->lineage &&
           (key.round == job->committed_round || key.round == job->committed_round + 1);
  };
  for (const auto& round : snapshot.rounds) {
    if (wanted(round.key)) state.rounds.put(round.key, round);
  }
  for (const auto& contribution : snapshot.contributions) {
    if (!state.rounds.contains(contribution.key)) continue;
    state.contributions.put({contribution.key, contribution.replica}, contribution);
  }
  for (const auto& checkpoint : snapshot.checkpoints) {
    if (checkpoint.state == CheckpointState::kFailed) continue;
    if (checkpoint.state == CheckpointState::kDeleted) continue;
    state.checkpoints.put(checkpoint.id, checkpoint);
  }
  for (const auto& link : snapshot.links) state.links.put({link.from, link.to}, link);
  return state;
}

const RoundRecord* current_round(const State& state, const JobRecord& job) {
  return state.rounds.find({job.id, job.lineage, job.committed_round + 1});
}

const RoundRecord* committed_round(const State& state, const JobRecord& job) {
  return state.rounds.find({job.id, job.lineage, job.committed_round});
}

bool is_reducer(const State& state, const ReplicaRecord& replica) {
  const auto& devices = state.agents.at(replica.agent).devices;
  return std::any_of(devices.begin(), devices.end(), [&](const Device& device) {
    return device.index == replica.device && device.kind == DeviceKind::kReducer;
  });
}

std::vector<ReplicaId> live_replicas(const State& state, JobId job) {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    const bool here = replica.job == job && replica.state != ReplicaState::kAbsent;
    if (here && !is_reducer(state, replica)) ids.push_back(id);
  }
  return ids;
}

std::vector<ReplicaId> absent_replicas(const State& state, JobId job) {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    if (replica.job == job && replica.state == ReplicaState::kAbsent) ids.push_back(id);
  }
  return ids;
}

std::vector<ReplicaId> absent_holders(const State& state, const JobRecord& job, StageIndex stage) {
  const RoundKey committed{job.id, job.lineage, job.committed_round};
  std::vector<ReplicaId> ids = absent_replicas(state, job.id);
  std::erase_if(ids, [&](ReplicaId id) {
    const ReplicaRecord& replica = state.replicas.at(id);
    const bool may_have_loaded = replica.held_round < 0 && replica.source.key == committed;
    const bool holds =
        replica.lineage == job.lineage && (replica.held_round == job.committed_round ||
                                           may_have_loaded || can_follow(state, committed, id));
    return replica.stage != stage || !holds;
  });
  return ids;
}

std::vector<ReplicaId> live_reducers(const State& state, JobId job) {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    if (replica.job == job && is_reducer(state, replica)) ids.push_back(id);
  }
  return ids;
}

bool can_follow(const State& state, const RoundKey& key, ReplicaId replica) {
  const RoundRecord* round = state.rounds.find(key);
  const ContributionRecord* contribution = state.contributions.find({key, replica});
  if (!is_live(state, replica) || round == nullptr || contribution == nullptr) return false;
  if (round->state != RoundState::kCommitted) return false;
  if (contribution->reducer) return false;
  const RoundStage& reduce = reduce_of(*round, *contribution);
  return reduce.given_up ? contribution->member_index >= 0
                         : contribution->average == reduce.average;
}

std::vector<ReplicaId> holders(const State& state, const JobRecord& job) {
  const RoundKey committed{job.id, job.lineage, job.committed_round};
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    const bool serves =
        replica.state == ReplicaState::kServing || replica.state == ReplicaState::kAveraging;
    if (replica.job != job.id || !serves || replica.lineage != job.lineage) continue;
    if (replica.held_round == job.committed_round || can_follow(state, committed, id)) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::vector<ReplicaId> holders(const State& state, const JobRecord& job, StageIndex stage) {
  std::vector<ReplicaId> ids = holders(state, job);
  std::erase_if(ids, [&](ReplicaId id) { return state.replicas.at(id).stage != stage; });
  return ids;
}

std::vector<UnitRange> cut_of(const JobRecord& job) {
  std::vector<UnitRange> cut;
  for (const JobStage& stage : job.stages) cut.push_back(stage.units);
  return cut;
}

bool anchors_known(const JobRecord& job) {
  return std::all_of(job.stages.begin(), job.stages.end(),
                     [](const JobStage& stage) { return static_cast<bool>(stage.anchor); });
}

StageIndex stage_count(const JobRecord& job) { return static_cast<StageIndex>(job.stages.size()); }

StageCover weakest_stage(const State& state, const JobRecord& job) {
  std::vector<std::int64_t> counts(job.stages.size(), 0);
  for (const ReplicaId id : holders(state, job)) {
    ++counts.at(static_cast<std::size_t>(state.replicas.at(id).stage));
  }
  if (counts.empty()) return {};
  const auto fewest = std::min_element(counts.begin(), counts.end());
  return {static_cast<StageIndex>(fewest - counts.begin()), *fewest};
}

double speed_of(const State& state, ReplicaId id) {
  const ReplicaRecord& replica = state.replicas.at(id);
  for (const Device& device : state.agents.at(replica.agent).devices) {
    if (device.index == replica.device) return device.gflops * 1e9;
  }
  return 0;
}

std::vector<ReplicaId> round_replicas(const State& state, const RoundKey& key) {
  std::vector<ReplicaId> ids;
  for (const auto& [both, contribution] : state.contributions) {
    if (both.first == key && !contribution.reducer) ids.push_back(both.second);
  }
  return ids;
}

std::vector<ReplicaId> enlisted(const State& state, const RoundKey& key) {
  std::vector<ReplicaId> ids = round_replicas(state, key);
  std::erase_if(ids, [&](ReplicaId id) {
    return !is_present(state, id) || !is_enlisted(state.contributions.at({key, id}));
  });
  return ids;
}

bool is_live(const State& state, ReplicaId replica) { return state.replicas.contains(replica); }

bool is_present(const State& state, ReplicaId id) {
  const ReplicaRecord* replica = state.replicas.find(id);
  return replica != nullptr && replica->state != ReplicaState::kAbsent;
}

const JobRecord* live_job_by_name(const State& state, const std::string& name) {
  for (const auto& [id, job] : state.jobs) {
    if (job.spec.name == name && !is_terminal(job.phase)) return &job;
  }
  return nullptr;
}

}  // namespace shoal::coordinator
