#include "coordinator/service/http/views.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "coordinator/core/state/standing.h"
#include "proto/job_spec_text.h"

namespace shoal::coordinator::rest {
namespace {

constexpr Duration kLiveFor = seconds(15);

Json time_or_null(Instant at) { return at.ns == 0 ? Json(nullptr) : Json(rfc3339(at)); }
Json digest_or_null(const Digest& digest) { return digest ? Json(to_hex(digest)) : Json(nullptr); }
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
// For numbers whose 0 means "not known yet".
Json known_or_null(double value) { return value == 0 ? Json(nullptr) : finite_or_null(value); }

template <typename Tag>
Json id_or_null(Id<Tag> id) {
  return id ? Json(to_string(id)) : Json(nullptr);
}

// Seconds between two instants that are both known; clocks of one process, so never negative by
// much.
Json seconds_between(Instant from, Instant to) {
  if (from.ns == 0 || to.ns == 0) return nullptr;
  return std::max(0.0, (to - from).seconds());
}

bool has_reported(const ContributionRecord& item) {
  return item.state != ContributionState::kTraining && item.reported_at.ns != 0;
}

// One stage's own digest; of several the digest of theirs; none before all are known.
template <typename Entries, typename Member>
Digest digest_over(const Entries& stages, Member member) {
  if (stages.size() == 1) return stages[0].*member;
  Digester digester;
  for (const auto& stage : stages) {
    if (!(stage.*member)) return {};
    digester.add(stage.*member);
  }
  return stages.empty() ? Digest() : digester.finish();
}

std::int64_t parameters_of(const JobRecord& job) {
  std::int64_t sum = 0;
  for (const JobStage& stage : job.stages) {
    if (stage.value_count == 0) return 0;
    sum += stage.value_count;
  }
  return sum;
}

Json stages_json(const JobRecord& job) {
  Json list = Json::array();
  for (const JobStage& stage : job.stages) {
    Json json;
    json["first_unit"] = stage.units.first;
    json["end_unit"] = stage.units.last;
    json["parameters"] = stage.value_count == 0 ? Json(nullptr) : Json(stage.value_count);
    json["anchor_digest"] = digest_or_null(stage.anchor);
    json["momentum_digest"] = digest_or_null(stage.momentum);
    list.push_back(std::move(json));
  }
  return list;
}

Json stages_json(const RoundRecord& round) {
  Json list = Json::array();
  for (const RoundStage& stage : round.stages) {
    Json json;
    json["attempt"] = stage.attempt;
    json["digest"] = digest_or_null(stage.average);
    json["anchor_digest"] = digest_or_null(stage.anchor);
    json["momentum_digest"] = digest_or_null(stage.momentum);
    const bool planned = stage.attempt > 0;
    json["topology"] = planned ? Json(to_string(stage.choice.topology)) : Json(nullptr);
    json["given_up"] = stage.given_up;
    json["topology_reason"] = planned ? Json(explain(stage.choice.reason)) : Json(nullptr);
    json["entropy_coding"] = planned ? Json(stage.entropy_coding) : Json(nullptr);
    list.push_back(std::move(json));
  }
  return list;
}

Json parts_json(const CheckpointRecord& checkpoint) {
  Json list = Json::array();
  for (const CheckpointPart& part : checkpoint.parts) {
    Json json;
    json["state"] = to_string(part.state);
    json["writer"] = id_or_null(part.writer);
    json["files"] = part.files.size();
    json["anchor_digest"] = digest_or_null(part.anchor);
    json["momentum_digest"] = digest_or_null(part.momentum);
    list.push_back(std::move(json));
  }
  return list;
}

bool holds_nothing(JobPhase phase) {
  return is_terminal(phase) || phase == JobPhase::kPaused || phase == JobPhase::kQueued;
}

Json progress_json(const JobRecord& job, const JobLive& live) {
  const std::int64_t step =
      std::min(std::max(job.committed_step.count(), live.step.count()),
               std::max(job.spec.train.steps.count(), job.committed_step.count()));
  Json json;
  json["inner_step"] = step;
  json["inner_steps_total"] = job.spec.train.steps.count();
  json["rounds_committed"] = job.committed_round;
  json["rounds_total"] = rounds_or_null(job.spec);
  json["tokens"] = job.committed_tokens.count() + live.tokens.count();
  json["tokens_committed"] = job.committed_tokens.count();
  json["tokens_per_second"] = live.replicas > 0 ? finite_or_null(live.tokens_per_s) : Json(nullptr);
  json["replicas_training"] = live.replicas;
  return json;
}

Json status_json(const JobRecord& job, const JobLive& live) {
  const auto data_parallel = bytes_of_data_parallel(job);
  Json json;
  json["phase"] = to_string(job.phase);
  json["desired"] = to_string(job.desired);
  json["reason"] = to_string(job.reason);
  json["detail"] = job.detail;
  json["progress"] = progress_json(job, live);
  json["outer_lr"] = job.outer_lr;
  json["train_loss"] = known_or_null(job.train_loss);
  json["validation_loss"] = known_or_null(job.validation_loss);
  json["validation_round"] = job.validation_round < 0 ? Json(nullptr) : Json(job.validation_round);
  json["bytes_sent"] = job.bytes_sent.count();
  json["bytes_ddp"] = data_parallel ? Json(*data_parallel) : Json(nullptr);
  json["parameters"] = parameters_of(job) == 0 ? Json(nullptr) : Json(parameters_of(job));
  json["anchor_digest"] = digest_or_null(digest_over(job.stages, &JobStage::anchor));
  json["momentum_digest"] = digest_or_null(digest_over(job.stages, &JobStage::momentum));
  json["stages"] = stages_json(job);
  json["lineage"] = job.lineage;
  json["started_at"] = time_or_null(job.started_at);
  json["committed_at"] = time_or_null(job.committed_at);
  json["finished_at"] = time_or_null(job.finished_at);
  return json;
}

Json phases_json(const RoundRecord& round, const ContributionRecord& item) {
  const bool reported = has_reported(item);
  Json json;
  json["train_s"] = reported ? finite_or_null(item.report.compute_s) : Json(nullptr);
  json["stood_s"] = reported ? finite_or_null(item.report.stood_s) : Json(nullptr);
  json["wait_s"] = seconds_between(item.reported_at, round.sealed_at);
  json["reduce_s"] = item.voted_at.ns == 0 ? Json(nullptr) : finite_or_null(item.stats.reduce_s);
  json["vote_s"] = seconds_between(item.voted_at, round.committed_at);
  json["apply_s"] = seconds_between(round.committed_at, item.applied_at);
  return json;
}

bool averages_in_groups(const RoundRecord& round) {
  return std::any_of(round.stages.begin(), round.stages.end(), [](const RoundStage& reduce) {
    return reduce.choice.reason == outer_opt::TopologyReason::kGroups;
  });
}

// That a member has not reported is news only when it should have.
Json reject_reason_json(const ContributionRecord& item) {
  const bool trains = item.reject_reason == RejectReason::kNotReported &&
                      item.state != ContributionState::kRejected;
  if (trains || item.reject_reason == RejectReason::kNone) return nullptr;
  return to_string(item.reject_reason);
}

Json contribution_json(const RoundRecord& round, const ContributionRecord& item) {
  const bool reported = has_reported(item);
  Json json;
  json["replica"] = to_string(item.replica);
  json["agent"] = id_or_null(item.agent);
  json["stage"] = item.stage;
  const bool grouped = averages_in_groups(round) && item.member_index >= 0;
  json["group"] = grouped ? Json(item.group) : Json(nullptr);
  json["role"] = item.reducer ? "reducer" : "trainer";
  json["state"] = to_string(item.state);
  json["reject_reason"] = reject_reason_json(item);
  json["tokens"] = reported ? Json(item.report.tokens.count()) : Json(nullptr);
  json["steps"] = reported ? Json(item.report.steps.count()) : Json(nullptr);
  json["skipped"] = reported ? Json(item.report.skipped.count()) : Json(nullptr);
  json["train_loss"] = reported ? known_or_null(item.report.train_loss) : Json(nullptr);
  json["norm"] = reported ? finite_or_null(item.report.norm) : Json(nullptr);
  json["max_abs"] = reported ? finite_or_null(item.report.max_abs) : Json(nullptr);
  json["nonfinite"] = reported ? Json(item.report.nonfinite) : Json(nullptr);
  json["weight"] = item.member_index < 0 ? Json(nullptr) : finite_or_null(item.weight);
  json["clip_factor"] = item.member_index < 0 ? Json(nullptr) : finite_or_null(item.clip_factor);
  json["digest"] = digest_or_null(item.average);
  json["anchor_digest"] = digest_or_null(item.anchor);
  json["bytes_sent"] = item.stats.sent.count();
  json["bytes_received"] = item.stats.received.count();
  json["phases"] = phases_json(round, item);
  return json;
}

// train: open to sealed. reduce: sealed to the last vote, attempts included. vote: to the durable
// commit. apply: to the last replica that took the outer step.
Json round_seconds_json(const RoundRecord& round, const std::vector<ContributionRecord>& items) {
  Instant last_vote, last_applied;
  for (const ContributionRecord& item : items) {
    if (!item.reducer) last_vote = std::max(last_vote, item.voted_at);
    last_applied = std::max(last_applied, item.applied_at);
  }
  Json json;
  json["train"] = seconds_between(round.opened_at, round.sealed_at);
  json["reduce"] = seconds_between(round.sealed_at, last_vote);
  json["vote"] = seconds_between(last_vote, round.committed_at);
  json["apply"] = seconds_between(round.committed_at, last_applied);
  json["total"] = seconds_between(round.opened_at, round.committed_at);
  return json;
}

Json device_json(const Device& device) {
  Json json;
  json["index"] = device.index;
  json["kind"] = to_string(device.kind);
  json["name"] = device.name;
  json["memory_bytes"] = device.memory.count();
  json["gflops"] = known_or_null(device.gflops);
  json["bf16"] = device.bf16;
  return json;
}

Json replica_live_json(const ReplicaLive& live) {
  Json json;
  json["at"] = rfc3339(live.at);
  json["round"] = live.progress.key.round;
  json["inner_step"] = live.progress.step.count();
  json["tokens"] = live.progress.tokens.count();
  json["train_loss"] = known_or_null(live.progress.train_loss);
  json["gradient_norm"] = finite_or_null(live.progress.gradient_norm);
  json["learning_rate"] = finite_or_null(live.progress.lr);
  json["tokens_per_second"] = finite_or_null(live.progress.tokens_per_s);
  return json;
}

Json source_json(const StateSource& source) {
  Json json;
  json["kind"] = to_string(source.kind);
  json["round"] = source.key.round;
  json["donor"] = id_or_null(source.donor);
  json["checkpoint"] = id_or_null(source.checkpoint);
  return json;
}

Json numbers_json(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(finite_or_null(value));
  return list;
}

}  // namespace

std::string rfc3339(Instant at) {
  const std::int64_t ms = at.unix_ms();
  const std::time_t whole = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[40];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + n, sizeof text - n, ".%03dZ", static_cast<int>(ms % 1000));
  return text;
}

JobLive job_live(const JobRecord& job, const LiveView& live) {
  JobLive sum;
  if (holds_nothing(job.phase)) return sum;  // what was heard last is older than that
  for (const auto& [id, replica] : live.replicas) {
    const Progress& progress = replica.progress;
    if (progress.key.job != job.id || progress.key.lineage != job.lineage) continue;
    if (live.now - replica.at > kLiveFor) continue;
    ++sum.replicas;
    sum.step = std::max(sum.step, progress.step);
    sum.tokens_per_s += progress.tokens_per_s;
    if (progress.key.round == job.committed_round + 1) sum.tokens += progress.tokens;
  }
  // Every token passes through every stage.
  const auto stages = static_cast<std::int64_t>(std::max<std::size_t>(1, job.stages.size()));
  sum.tokens = Tokens(sum.tokens.count() / stages);
  sum.tokens_per_s /= static_cast<double>(stages);
  return sum;
}

// Of a pipeline it depends on how many replicas each stage had in each round: not known here.
std::optional<std::int64_t> bytes_of_data_parallel(const JobRecord& job) {
  if (job.stages.size() > 1) return std::nullopt;
  const std::int64_t tokens_per_step = job.spec.train.batch * job.spec.model.context;
  if (parameters_of(job) == 0 || job.committed_step.count() == 0 || tokens_per_step == 0)
    return std::nullopt;
  const double replica_steps =
      static_cast<double>(job.committed_tokens.count()) / static_cast<double>(tokens_per_step);
  const double beyond_first = replica_steps - static_cast<double>(job.committed_step.count());
  return std::llround(8.0 * static_cast<double>(parameters_of(job)) * std::max(0.0, beyond_first));
}

Json rounds_or_null(const JobSpec& spec) {
  const std::int64_t rounds = round_count(spec);
  return rounds == 0 ? Json(nullptr) : Json(rounds);
}

Json job_json(const JobRecord& job, const LiveView& live) {
  Json json;
  json["id"] = to_string(job.id);
  json["name"] = job.spec.name;
  json["created_at"] = time_or_null(job.created_at);
  json["updated_at"] = time_or_null(job.updated_at);
  json["spec"] = proto::spec_to_json(job.spec);
  json["status"] = status_json(job, job_live(job, live));
  return json;
}

// Share of the members' time that they computed, of what they computed or stood still; null: not
// known.
Json compute_utilisation(const std::vector<ContributionRecord>& contributions) {
  double computed = 0, stood = 0;
  for (const ContributionRecord& item : contributions) {
    if (!has_reported(item)) continue;
    computed += item.report.compute_s;
    stood += item.report.stood_s;
  }
  return computed > 0 ? finite_or_null(computed / (computed + stood)) : Json(nullptr);
}

Json round_json(const RoundRecord& round, const std::vector<ContributionRecord>& contributions) {
  std::int64_t sent = 0, received = 0;
  Json items = Json::array();
  for (const ContributionRecord& item : contributions) {
    sent += item.stats.sent.count();
    received += item.stats.received.count();
    items.push_back(contribution_json(round, item));
  }
  Json json;
  json["round"] = round.key.round;
  json["lineage"] = round.key.lineage;
  json["state"] = to_string(round.state);
  std::int32_t attempt = 0;
  for (const RoundStage& stage : round.stages) attempt = std::max(attempt, stage.attempt);
  json["attempt"] = attempt;
  json["aborts"] = round.aborts;
  json["abort_reason"] = round.aborts > 0 || round.state == RoundState::kAborted
                             ? Json(to_string(round.abort_reason))
                             : Json(nullptr);
  json["from_step"] = round.from_step.count();
  json["to_step"] = round.to_step.count();
  json["outer_lr"] = round.sealed_at.ns == 0 ? Json(nullptr) : Json(round.outer_lr);
  json["share"] = round.committed_at.ns == 0 ? Json(nullptr) : finite_or_null(round.share);
  json["digest"] = digest_or_null(digest_over(round.stages, &RoundStage::average));
  json["anchor_digest"] = digest_or_null(digest_over(round.stages, &RoundStage::anchor));
  json["momentum_digest"] = digest_or_null(digest_over(round.stages, &RoundStage::momentum));
  json["stages"] = stages_json(round);
  json["opened_at"] = time_or_null(round.opened_at);
  json["sealed_at"] = time_or_null(round.sealed_at);
  json["committed_at"] = time_or_null(round.committed_at);
  json["seconds"] = round_seconds_json(round, contributions);
  json["compute_utilisation"] = compute_utilisation(contributions);
  json["tokens"] = round.tokens.count();
  json["train_loss"] = known_or_null(round.train_loss);
  json["validation_loss"] = known_or_null(round.validation_loss);
  json["bytes_sent"] = sent;
  json["bytes_received"] = received;
  json["contributions"] = std::move(items);
  return json;
}

Json replica_json(const ReplicaRecord& replica, const LiveView& live) {
  const ReplicaLive* now = is_terminal(replica.state) ? nullptr : live.replicas.find(replica.id);
  Json json;
  json["id"] = to_string(replica.id);
  json["job"] = to_string(replica.job);
  json["agent"] = id_or_null(replica.agent);
  json["incarnation"] = replica.incarnation.n;
  json["device"] = replica.device;
  json["stage"] = replica.stage;
  json["state"] = to_string(replica.state);
  json["failure"] =
      replica.state == ReplicaState::kFailed ? Json(to_string(replica.failure)) : Json(nullptr);
  json["detail"] = replica.detail;
  json["source"] = source_json(replica.source);
  json["address"] = replica.address.empty() ? Json(nullptr) : Json(replica.address);
  json["lineage"] = replica.lineage;
  json["held_round"] = replica.held_round < 0 ? Json(nullptr) : Json(replica.held_round);
  json["anchor_digest"] = digest_or_null(replica.anchor);
  json["live"] = now != nullptr ? replica_live_json(*now) : Json(nullptr);
  json["created_at"] = time_or_null(replica.created_at);
  json["updated_at"] = time_or_null(replica.updated_at);
  return json;
}

Json checkpoint_json(const CheckpointRecord& checkpoint) {
  std::int64_t bytes = 0;
  Json files = Json::array();
  for (const FileEntry& file : all_files(checkpoint)) {
    bytes += file.size.count();
    files.push_back(
        Json{{"path", file.path}, {"size", file.size.count()}, {"sha256", file.sha256}});
  }
  Json json;
  json["id"] = to_string(checkpoint.id);
  json["job"] = to_string(checkpoint.key.job);
  json["lineage"] = checkpoint.key.lineage;
  json["round"] = checkpoint.key.round;
  json["state"] = to_string(checkpoint.state);
  json["final"] = checkpoint.final;
  json["step"] = checkpoint.step.count();
  json["tokens"] = checkpoint.tokens.count();
  json["anchor_digest"] = digest_or_null(digest_over(checkpoint.parts, &CheckpointPart::anchor));
  json["momentum_digest"] =
      digest_or_null(digest_over(checkpoint.parts, &CheckpointPart::momentum));
  json["writer"] =
      checkpoint.parts.empty() ? Json(nullptr) : id_or_null(checkpoint.parts[0].writer);
  json["parts"] = parts_json(checkpoint);
  json["detail"] = checkpoint.detail;
  json["sample"] = checkpoint.sample;
  json["bytes"] = bytes;
  json["files"] = std::move(files);
  json["created_at"] = time_or_null(checkpoint.created_at);
  json["updated_at"] = time_or_null(checkpoint.updated_at);
  return json;
}

namespace {

Json quarantine_json(const Standing& standing) {
  if (standing.quarantined_until == Instant()) return nullptr;
  return {{"until", rfc3339(standing.quarantined_until)},
          {"reason", to_string(standing.strike_reason)},
          {"count", standing.quarantines}};
}

Json refusals_json(const AgentRecord& agent) {
  Json list = Json::array();
  for (const MemoryRefusal& refusal : agent.refusals) {
    list.push_back({{"device", refusal.device},
                    {"needed_bytes", refusal.needed.count()},
                    {"at", rfc3339(refusal.at)}});
  }
  return list;
}

const char* role_of(const AgentRecord& agent) {
  const bool reduces = std::any_of(agent.devices.begin(), agent.devices.end(),
                                   [](const auto& d) { return d.kind == DeviceKind::kReducer; });
  return reduces ? "reducer" : "trainer";
}

}  // namespace

Json agent_json(const AgentRecord& agent, const LiveView& live) {
  const AgentLive* now = live.agents.find(agent.id);
  Json devices = Json::array();
  for (const Device& device : agent.devices) devices.push_back(device_json(device));
  Json labels = Json::object();
  for (const auto& [key, value] : agent.labels) labels[key] = value;

  Json json;
  json["id"] = to_string(agent.id);
  json["uid"] = agent.uid;
  json["name"] = agent.name;
  json["version"] = agent.version;
  json["host"] = agent.host;
  json["incarnation"] = agent.incarnation.n;
  json["state"] = to_string(agent.state);
  json["gone_reason"] =
      agent.state == AgentState::kGone ? Json(to_string(agent.gone)) : Json(nullptr);
  json["role"] = role_of(agent);
  json["cordoned"] = agent.cordoned;
  json["quarantine"] = quarantine_json(agent.standing);
  json["strikes"] = agent.standing.strikes;
  json["memory_refusals"] = refusals_json(agent);
  json["losses"] = agent.attendance.losses;
  json["availability"] = availability(agent.attendance, live.now);
  json["health"] =
      agent.state == AgentState::kGone || now == nullptr ? "red" : to_string(now->health);
  json["last_seen_at"] = now != nullptr ? time_or_null(now->last_seen) : Json(nullptr);
  json["resident_bytes"] =
      now != nullptr && now->resident.count() > 0 ? Json(now->resident.count()) : Json(nullptr);
  json["devices"] = std::move(devices);
  json["labels"] = std::move(labels);
  json["joined_at"] = time_or_null(agent.joined_at);
  json["updated_at"] = time_or_null(agent.updated_at);
  return json;
}

Json event_json(const EventRecord& event) {
  Json json;
  json["seq"] = event.seq;
  json["at"] = rfc3339(event.at);
  json["severity"] = to_string(event.severity);
  json["kind"] = event.kind;
  json["job"] = id_or_null(event.job);
  json["agent"] = id_or_null(event.agent);
  json["replica"] = id_or_null(event.replica);
  json["round"] = event.round == 0 ? Json(nullptr) : Json(event.round);
  json["message"] = event.message;
  return json;
}

Json series_json(const SeriesQuery& query, const std::vector<SeriesLine>& lines) {
  Json list = Json::array();
  for (const SeriesLine& line : lines) {
    Json json;
    json["replica"] = id_or_null(line.replica);
    json["x"] = numbers_json(line.x);
    json["y"] = numbers_json(line.y);
    json["y_min"] = numbers_json(line.y_min);
    json["y_max"] = numbers_json(line.y_max);
    json["time"] = numbers_json(line.time);
    list.push_back(std::move(json));
  }
  Json json;
  json["job"] = to_string(query.job);
  json["name"] = query.name;
  json["x"] = query.x;
  json["by"] = query.by_replica ? "replica" : "job";
  json["series"] = std::move(list);
  return json;
}

}  // namespace shoal::coordinator::rest
