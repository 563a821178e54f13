#include "coordinator/service/live_view.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/state/device_faults.h"

namespace shoal::coordinator {
namespace {

// What must not be lost if this process dies within the minute: no counters of small errors, which
// may rise all the time.
DeviceFacts urgent_facts(const DeviceSample& sample) {
  DeviceFacts facts = facts_after(nullptr, sample);
  if (!facts.errors) return facts;
  facts.errors->ecc_corrected = facts.errors->pcie_replays = facts.errors->nvlink_errors = 0;
  return facts;
}

constexpr Duration kViewAge = milliseconds(500);
constexpr Duration kStatesAgain = seconds(3600);
constexpr double kNewest = 0.3;  // weight of the newest sample of a rate

// A counter that fell was reset: it changes no rate.
void follow_rate(double& rate, double before, double now, double elapsed_s) {
  if (now >= before) rate += kNewest * ((now - before) / elapsed_s - rate);
}

double value_of(Bytes bytes) { return static_cast<double>(bytes.count()); }

LinkRate rate_of(const PipelineLive& before, const LinkStats& link, double elapsed_s) {
  LinkRate rate;
  if (const LinkRate* known = before.links.find(link.to)) rate = *known;
  for (const LinkStats& old : before.stats.links) {
    if (old.to != link.to) continue;
    follow_rate(rate.sent_per_s, value_of(old.sent), value_of(link.sent), elapsed_s);
    follow_rate(rate.received_per_s, value_of(old.received), value_of(link.received), elapsed_s);
  }
  return rate;
}

PipelineLive with_rates(const PipelineLive* before, const PipelineStats& stats, Instant now) {
  PipelineLive live{stats, now, 0, {}};
  if (before == nullptr || now <= before->at) return live;
  const double elapsed_s = (now - before->at).seconds();
  live.microbatches_per_s = before->microbatches_per_s;
  follow_rate(live.microbatches_per_s, static_cast<double>(before->stats.microbatches),
              static_cast<double>(stats.microbatches), elapsed_s);
  for (const LinkStats& link : stats.links) {
    live.links.put(link.to, rate_of(*before, link, elapsed_s));
  }
  return live;
}

}  // namespace

LiveBoard::LiveBoard(Duration heartbeat_every, const Snapshot& snapshot,
                     std::shared_ptr<Meters> meters, std::vector<DeviceState> devices)
    : late_after_(heartbeat_every * 5 / 2),
      meters_(std::move(meters)),
      boot_epoch_(snapshot.counters.boot_epoch) {
  const MutexLock guard(mutex_);
  for (const AgentRecord& agent : snapshot.agents) {
    if (agent.state == AgentState::kGone) continue;
    note(agent);
    agents_.at(agent.id).last_seen = agent.updated_at;
  }
  for (const JobRecord& job : snapshot.jobs) note(job);
  for (const ReplicaRecord& replica : snapshot.replicas) note(replica);
  restore(std::move(devices));
}

void LiveBoard::restore(std::vector<DeviceState> devices) {
  for (DeviceState& state : devices) {
    Agent* agent = agents_.find(state.agent);
    const bool known = agent != nullptr &&
                       std::ranges::count(agent->devices, state.sample.uuid, &Device::uuid) > 0;
    if (!known) continue;
    SampledDevice device{.at = state.at, .restored = true, .is_new = false};
    device.sample = std::move(state.sample);
    const std::string uuid = device.sample.uuid;
    agent->samples.put(uuid, std::move(device));
  }
}

void LiveBoard::note(const AgentRecord& agent) {
  if (agent.state == AgentState::kGone) {
    if (const Agent* entry = agents_.find(agent.id)) by_connection_.erase(entry->connection);
    agents_.erase(agent.id);
    return;
  }
  Agent& entry = agents_[agent.id];
  entry.name = agent.name;
  entry.trains = std::ranges::any_of(
      agent.devices, [](const Device& device) { return device.kind != DeviceKind::kReducer; });
  entry.programs = agent.programs;
  entry.devices = agent.devices;
  entry.refusals = agent.refusals;
  std::vector<std::string> away;
  for (const auto& [uuid, device] : entry.samples) {
    if (std::ranges::count(agent.devices, uuid, &Device::uuid) == 0) away.push_back(uuid);
  }
  for (const std::string& uuid : away) entry.samples.erase(uuid);
}

// A job that was rolled back, or that lets its devices go, is measured anew.
void LiveBoard::note(const JobRecord& job) {
  if (holds_nothing(job.phase)) placements_.erase(job.id);
  if (is_terminal(job.phase)) return (void)jobs_.erase(job.id);
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  Job& entry = jobs_[job.id];
  const bool anew = entry.committed.epoch != job.epoch || holds_nothing(job.phase);
  const bool commits = !anew && entry.committed.round < job.committed_round;
  if (anew) entry.meter = {};
  entry.committed = committed;
  entry.tokens = job.committed_tokens;
  entry.stages = std::max<std::size_t>(1, job.stages.size());
  if (commits) entry.meter.heard(job.committed_at, entry.tokens, true);
}

void LiveBoard::note(const ReplicaRecord& replica) {
  note_copies(replica);
  const bool ended = is_terminal(replica.state);
  if (ended == (held_.find(replica.id) != nullptr))
    view_.reset();  // the next view shows at once that its agent works
  ended ? (void)held_.erase(replica.id)
        : (void)held_.put(replica.id, {replica.agent, replica.job, replica.stage, replica.epoch,
                                       replica.source.checkpoint, replica.source.key.round > 0});
  if (ended) {
    replicas_.erase(replica.id);
    pipeline_.erase(replica.id);
    speeds_.erase(replica.id);
  }
  const bool away = replica.state == ReplicaState::kAbsent;  // it may continue
  if (replica.state == ReplicaState::kLoading)
    loads_[replica.id].job = replica.job;
  else if (!away)
    loads_.erase(replica.id);
}

void LiveBoard::note_copies(const ReplicaRecord& keeper) {
  std::vector<ReplicaId> gone;
  for (const auto& [id, copy] : copies_) {
    const bool kept =
        !is_terminal(keeper.state) && std::ranges::count(keeper.copies, id, &KeptCopy::id) > 0;
    if (copy.keeper == keeper.id && !kept) gone.push_back(id);
  }
  for (const ReplicaId id : gone) copies_.erase(id);
  if (is_terminal(keeper.state)) return;
  for (const KeptCopy& copy : keeper.copies) {
    if (!copies_.contains(copy.id)) copies_.put(copy.id, {keeper.job, copy.stage, keeper.id});
  }
}

void LiveBoard::note(ReplicaId keeper, const CopiesHeld& held) {
  for (auto& [id, copy] : copies_) {
    if (copy.keeper != keeper) continue;
    const auto said = std::ranges::find(held.copies, id, &HeldCopy::copy);
    copy.round = said == held.copies.end() ? -1 : said->key.round;
  }
}

void LiveBoard::note(const LoadProgress& progress, Instant now) {
  Load* load = loads_.find(progress.replica);
  if (load == nullptr) return;
  const Job* job = jobs_.find(load->job);
  load->watch.heard({now, progress.done, progress.total, progress.received, progress.per_round,
                     job == nullptr ? 0 : job->committed.round});
}

void LiveBoard::note(const Progress& progress, Instant now) {
  replicas_.put(progress.replica, {progress, now});
  Job* job = jobs_.find(progress.key.job);
  if (job == nullptr || !job->meter.is_due(now)) return;
  job->meter.heard(now, job->tokens + open_tokens(replicas_, job->committed, job->stages), false);
}

// Up to now every device was as it said last.
void LiveBoard::count(Agent& agent, Instant now) {
  for (auto& [uuid, device] : agent.samples) {
    if (device.restored || now <= device.counted_until) continue;
    device.sum.add(device.sample, now - device.counted_until);
    device.counted_until = now;
  }
}

void LiveBoard::note(Agent& agent, const DeviceSample& sample, Instant now) {
  SampledDevice* known = agent.samples.find(sample.uuid);
  if (known == nullptr && agent.samples.size() >= kDevicesMax) return;
  SampledDevice& device = known == nullptr ? agent.samples[sample.uuid] : *known;
  if (known != nullptr && !device.restored) {
    device.sum.add(device.sample, now - device.counted_until);
  }
  const bool differs = device.sample.error != sample.error ||
                       device.sample.answer != sample.answer ||
                       device.sample.errors != sample.errors;
  tells_devices_ =
      tells_devices_ || (differs && urgent_facts(device.sample) != urgent_facts(sample));
  device.is_new = device.is_new || differs;
  device.sample = sample;
  device.at = device.counted_until = now;
  device.restored = false;
}

void LiveBoard::note(Agent& agent, const Heartbeat& heartbeat, Instant now) {
  agent.resident = heartbeat.resident;
  agent.relay = heartbeat.relay;
  agent.failures = heartbeat.failures;
  for (const DeviceSample& sample : heartbeat.samples) note(agent, sample, now);
  // Another process of the agent counts from zero, also where it has come as far as the one before.
  if (heartbeat.sequence < agent.heartbeats) agent.refused = {};
  agent.heartbeats = heartbeat.sequence;
  const RefusalCounts refused = to_counts(heartbeat.refusals);
  const RefusalCounts added = refused.since(agent.refused);
  for (const auto& [reason, text] : kEnumerators<RefusalReason>) {
    if (added[reason] == 0) continue;
    meters_->refusals.at(Port::kPeers, reason).Increment(static_cast<double>(added[reason]));
  }
  agent.refused = refused;
}

bool LiveBoard::said(Instant now, ConnectionId connection, const FromAgent& message) {
  const MutexLock guard(mutex_);
  const AgentId* id = by_connection_.find(connection);
  if (id == nullptr) return false;
  Agent& agent = agents_.at(*id);
  agent.last_seen = now;
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    note(agent, *heartbeat, now);
  }
  const auto owns = [&, id = *id](ReplicaId replica) SHOAL_REQUIRES(mutex_) {
    const ReplicaPlace* place = held_.find(replica);
    return place != nullptr && place->agent == id;
  };
  if (const auto* load = std::get_if<LoadProgress>(&message)) {
    if (owns(load->replica)) note(*load, now);
  }
  if (const auto* copies = std::get_if<FromReplica<CopiesHeld>>(&message)) {
    if (owns(copies->replica)) note(copies->replica, copies->body);
  }
  if (const auto* stats = std::get_if<PipelineStats>(&message)) {
    if (!owns(stats->replica)) return false;
    pipeline_.put(stats->replica, with_rates(pipeline_.find(stats->replica), *stats, now));
  }
  if (const auto* progress = std::get_if<Progress>(&message)) {
    if (!owns(progress->replica)) return false;
    note(*progress, now);
  }
  return true;
}

void LiveBoard::welcomed(Instant now, ConnectionId connection, AgentId agent) {
  const MutexLock guard(mutex_);
  Agent& entry = agents_[agent];
  by_connection_.erase(entry.connection);
  entry.connection = connection;
  entry.last_seen = now;
  by_connection_.put(connection, agent);
  view_.reset();  // the next view shows at once who has come or gone
}

void LiveBoard::hung_up(ConnectionId connection) {
  const MutexLock guard(mutex_);
  if (const AgentId* id = by_connection_.find(connection)) {
    Agent& agent = agents_.at(*id);
    count(agent, agent.last_seen);
    agent.connection = {};
  }
  by_connection_.erase(connection);
  view_.reset();
}

void LiveBoard::show(const ShowSpeed& speed) {
  const MutexLock guard(mutex_);
  const ReplicaPlace* place = held_.find(speed.replica);
  if (place != nullptr) speeds_.put(speed.replica, {place->agent, speed.ratio, speed.slow});
}

void LiveBoard::show(const ShowPlacement& placement) {
  if (placement.has_new_move) {
    meters_->runtime.moves_considered[placement.report->move->verdict].Increment();
  }
  const MutexLock guard(mutex_);
  const JobId job = placement.report->job;
  if (jobs_.find(job) != nullptr) placements_.put(job, placement.report);
}

void LiveBoard::stored(const Record& record) {
  const MutexLock guard(mutex_);
  if (const auto* counters = std::get_if<CounterRecord>(&record))
    boot_epoch_ = counters->boot_epoch;
  if (const auto* job = std::get_if<JobRecord>(&record)) note(*job);
  if (const auto* replica = std::get_if<ReplicaRecord>(&record)) note(*replica);
  if (const auto* agent = std::get_if<AgentRecord>(&record)) note(*agent);
}

bool LiveBoard::has_replica(AgentId agent, ReplicaId replica) {
  const MutexLock guard(mutex_);
  const ReplicaPlace* place = held_.find(replica);
  return place != nullptr && place->agent == agent;
}

std::int64_t LiveBoard::replicas_of(AgentId agent) {
  const MutexLock guard(mutex_);
  return std::ranges::count_if(held_,
                               [&](const auto& entry) { return entry.second.agent == agent; });
}

bool LiveBoard::works_for(AgentId agent, JobId job) {
  const MutexLock guard(mutex_);
  return std::ranges::any_of(held_, [&](const auto& entry) {
    return entry.second.agent == agent && entry.second.job == job;
  });
}

bool LiveBoard::begins_from(AgentId agent, CheckpointId checkpoint, JobId job) {
  const MutexLock guard(mutex_);
  return std::ranges::any_of(held_, [&](const auto& entry) {
    const ReplicaPlace& place = entry.second;
    return place.agent == agent && place.source == checkpoint && place.job != job &&
           !place.continues;
  });
}

bool LiveBoard::continues_from(AgentId agent, CheckpointId checkpoint) {
  const MutexLock guard(mutex_);
  return std::ranges::any_of(held_, [&](const auto& entry) {
    const ReplicaPlace& place = entry.second;
    return place.agent == agent && place.source == checkpoint && place.continues;
  });
}

std::optional<ReplicaPlace> LiveBoard::place_of(ReplicaId replica) {
  const MutexLock guard(mutex_);
  const ReplicaPlace* place = held_.find(replica);
  return place == nullptr ? std::nullopt : std::optional(*place);
}

DeviceLog LiveBoard::take_devices(Instant now) {
  const MutexLock guard(mutex_);
  const bool minute_over = now >= minute_ + kDeviceMinute;
  DeviceLog log;
  if (!minute_over && !tells_devices_) return log;
  // The store may have lost a state, so it is told all of them now and then.
  const bool again = minute_over && minute_of(now).ns % kStatesAgain.ns == 0;
  for (auto& [id, agent] : agents_) {
    for (auto& [uuid, device] : agent.samples) device.is_new = device.is_new || again;
    log_devices(log, id, agent, minute_over);
  }
  if (minute_over) minute_ = minute_of(now);
  tells_devices_ = false;
  return log;
}

void LiveBoard::log_devices(DeviceLog& log, AgentId id, Agent& agent, bool minute_over) {
  const Instant end = minute_ + kDeviceMinute;
  if (minute_over && agent.connection.n != 0) count(agent, end);
  for (auto& [uuid, device] : agent.samples) {
    const auto known = std::ranges::find(agent.devices, uuid, &Device::uuid);
    if (known == agent.devices.end()) continue;
    if (std::exchange(device.is_new, false)) {
      log.states.push_back({id, known->index, known->name, device.sample, device.at});
    }
    if (!minute_over) continue;
    if (const auto point = device.sum.take(minute_)) log.minutes.push_back({id, uuid, *point});
  }
}

// Agents tell what has changed, so a value is as old as the silence of its agent. An error is as
// old as it was when it was told, and older by the time since.
std::vector<DeviceSample> LiveBoard::samples_now(const Agent& agent, Instant now) {
  std::vector<DeviceSample> samples;
  for (const auto& [uuid, device] : agent.samples) {
    DeviceSample& sample = samples.emplace_back(device.sample);
    const bool heard = !device.restored && agent.connection.n != 0;
    const Instant true_at = device.restored ? device.at : agent.last_seen;
    if (!heard) sample.age = sample.age + std::max(now - true_at, Duration());
    if (heard && sample.age > Duration()) sample.age = sample.age + (now - device.at);
    if (!sample.errors) continue;
    for (XidCount& xid : sample.errors->xids) xid.ago = xid.ago + (now - device.at);
  }
  return samples;
}

// Sentences, by agent.
FlatMap<AgentId, std::vector<std::string>> LiveBoard::slow_replicas() {
  FlatMap<AgentId, std::vector<std::string>> slow;
  for (const auto& [replica, place] : held_) {
    const SpeedLive* speed = speeds_.find(replica);
    if (speed != nullptr && !speed->slow.empty()) slow[place.agent].push_back(speed->slow);
  }
  return slow;
}

AgentLive LiveBoard::agent_now(const Agent& agent, const std::vector<std::string>* slow,
                               Instant now) {
  static const std::vector<std::string> kNone;
  AgentLive live{.health = Health::kRed,
                 .last_seen = agent.last_seen,
                 .resident = agent.resident,
                 .relay = agent.relay,
                 .failures = agent.failures,
                 .samples = samples_now(agent, now),
                 .name = agent.name,
                 .trains = agent.trains,
                 .programs = agent.programs};
  const bool connected = agent.connection.n != 0;
  live.late = connected && now - agent.last_seen > late_after_;
  if (slow == nullptr || !connected) slow = &kNone;  // of a past time
  live.slow_replicas = static_cast<std::int32_t>(slow->size());
  AgentHealth known = health_of(
      {connected, live.late, agent.devices, agent.refusals, agent.failures, live.samples, *slow});
  live.health = known.health;
  live.health_reason = std::move(known.reason);
  live.troubles = std::move(known.troubles);
  return live;
}

std::shared_ptr<const LiveView> LiveBoard::view(Instant now) {
  const MutexLock guard(mutex_);
  if (view_ && now - view_->now < kViewAge) return view_;
  auto fresh = std::make_shared<LiveView>();
  fresh->now = now;
  fresh->boot_epoch = boot_epoch_;
  const auto slow = slow_replicas();
  for (const auto& [id, agent] : agents_) {
    fresh->agents.put(id, agent_now(agent, slow.find(id), now));
  }
  for (const auto& [replica, place] : held_) {
    if (AgentLive* agent = fresh->agents.find(place.agent)) ++agent->replicas;
  }
  fresh->replicas = replicas_;
  fresh->pipeline = pipeline_;
  fresh->speeds = speeds_;
  fresh->copies = copies_;
  fresh->placements = placements_;
  for (const auto& [id, load] : loads_) {
    if (load.watch.has_heard()) fresh->loads.put(id, {load.watch.last(), load.watch.share()});
  }
  for (const auto& [id, job] : jobs_) {
    if (const auto rate = job.meter.per_second(now)) fresh->tokens_per_s.put(id, *rate);
  }
  view_ = std::move(fresh);
  return view_;
}

}  // namespace shoal::coordinator
