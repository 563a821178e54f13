#include "coordinator/service/http/views.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "coordinator/core/state/device_faults.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/service/http/answers/agent_answers.h"
#include "coordinator/service/http/answers/answer_json.h"
#include "coordinator/service/http/answers/job_answers.h"
#include "coordinator/service/http/answers/replica_answers.h"
#include "coordinator/service/http/answers/round_answers.h"

namespace shoal::coordinator::rest {
namespace {

DeviceErrorsAnswer errors_answer(const DeviceErrors& errors) {
  DeviceErrorsAnswer answer{.ecc_corrected = errors.ecc_corrected,
                            .ecc_uncorrected = errors.ecc_uncorrected,
                            .rows_remapped = errors.rows_remapped,
                            .remap_pending = errors.remap_pending,
                            .remap_failed = errors.remap_failed,
                            .pcie_replays = errors.pcie_replays,
                            .nvlink_errors = errors.nvlink_errors,
                            .recovery = errors.recovery};
  for (const XidCount& xid : errors.xids) {
    answer.xids.push_back({xid.xid, xid.count, xid.ago.seconds()});
  }
  return answer;
}

DeviceSampleAnswer sample_answer(const DeviceSample& sample) {
  DeviceSampleAnswer answer{.uuid = sample.uuid,
                            .answer = sample.answer,
                            .age_s = sample.age.seconds(),
                            .error = sample.error,
                            .use = sample.use,
                            .climate = sample.climate};
  if (sample.errors) answer.errors = errors_answer(*sample.errors);
  return answer;
}

constexpr Duration kLiveFor = seconds(15);

// Seconds between two instants that are both known; clocks of one process, so never negative by
// much.
std::optional<double> seconds_between(Instant from, Instant to) {
  if (from.ns == 0 || to.ns == 0) return std::nullopt;
  return std::max(0.0, (to - from).seconds());
}

template <typename T>
std::optional<T> known_if(bool known, T value) {
  return known ? std::optional(std::move(value)) : std::nullopt;
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

std::vector<JobStageAnswer> stages_of(const JobRecord& job, const LiveView& live) {
  std::vector<JobStageAnswer> list;
  for (const JobStage& stage : job.stages) {
    list.push_back({.first_unit = stage.units.first,
                    .end_unit = stage.units.last,
                    .parameters = stage.value_count,
                    .anchor_digest = stage.anchor,
                    .momentum_digest = stage.momentum});
  }
  for (const auto& [id, copy] : live.copies) {
    if (copy.job != job.id || static_cast<std::size_t>(copy.stage) >= list.size()) continue;
    JobStageAnswer& stage = list[static_cast<std::size_t>(copy.stage)];
    ++stage.copies;
    if (copy.round >= 0) {
      stage.copied_round = std::max(stage.copied_round.value_or(0), copy.round);
    }
  }
  return list;
}

std::vector<KeptCopyAnswer> copies_of(const ReplicaRecord& replica, const LiveView& live) {
  std::vector<KeptCopyAnswer> list;
  if (is_terminal(replica.state)) return list;
  for (const KeptCopy& copy : replica.copies) {
    const CopyLive* now = live.copies.find(copy.id);
    const RoundNumber round = now == nullptr ? -1 : now->round;
    list.push_back({.stage = copy.stage, .round = known_if(round >= 0, round)});
  }
  return list;
}

std::vector<ReduceAnswer> reduces_of(const RoundRecord& round) {
  std::vector<ReduceAnswer> list;
  for (const Reduce& reduce : round.reduces) {
    const bool planned = reduce.attempt > 0;
    list.push_back(
        {.attempt = reduce.attempt,
         .digest = reduce.average,
         .anchor_digest = reduce.anchor,
         .momentum_digest = reduce.momentum,
         .topology = known_if(planned, reduce.choice.topology),
         .given_up = reduce.given_up,
         .topology_reason = known_if<std::string>(planned, explain(reduce.choice.reason)),
         .entropy_coding = known_if(planned, reduce.entropy_coding)});
  }
  return list;
}

std::vector<CheckpointPartAnswer> parts_of(const CheckpointRecord& checkpoint) {
  std::vector<CheckpointPartAnswer> list;
  for (const CheckpointPart& part : checkpoint.parts) {
    list.push_back({.state = part.state,
                    .writer = part.writer,
                    .files = static_cast<std::int64_t>(part.files.size()),
                    .anchor_digest = part.anchor,
                    .momentum_digest = part.momentum});
  }
  return list;
}

// A job that continues another one also counts the earlier job's rounds. The last of those may have
// been short, and their length may have been another one.
std::int64_t rounds_in_all(const JobRecord& job) {
  const std::int64_t whole = round_count(job.spec);
  if (whole == 0 || job.begun_step == Steps()) return whole;
  JobSpec rest = job.spec;
  rest.train.steps = std::max(Steps(), rest.train.steps - job.committed_step);
  return job.committed_round + round_count(rest);
}

JobProgressAnswer progress_of(const JobRecord& job, const JobLive& live) {
  const std::int64_t step =
      std::min(std::max(job.committed_step.count(), live.step.count()),
               std::max(job.spec.train.steps.count(), job.committed_step.count()));
  return {.inner_step = step,
          .inner_steps_total = job.spec.train.steps.count(),
          .rounds_committed = job.committed_round,
          .rounds_total = rounds_in_all(job),
          .tokens = job.committed_tokens + live.tokens,
          .tokens_committed = job.committed_tokens,
          .tokens_per_second = job.phase == JobPhase::kTraining ? live.tokens_per_s : std::nullopt,
          .replicas_training = live.replicas};
}

// Agents that are here, but may not run the program of the job.
std::vector<std::string> not_run_by(const JobRecord& job, const LiveView& view) {
  std::vector<std::string> names;
  if (is_terminal(job.phase)) return names;
  for (const auto& [id, agent] : view.agents) {
    const bool here = agent.trains && agent.health != Health::kRed;
    if (here && why_not_run(job.spec.trainer, job.owner, agent.programs)) {
      names.push_back(agent.name);
    }
  }
  return names;
}

JobStatusAnswer status_of(const JobRecord& job, const LiveView& view) {
  const JobLive live = job_live(job, view);
  return {.phase = job.phase,
          .desired = job.desired,
          .reason = job.reason,
          .detail = job.detail,
          .progress = progress_of(job, live),
          .outer_lr = job.outer_lr,
          .train_loss = job.train_loss,
          .validation_loss = job.validation_loss,
          .validation_round = known_if(job.validation_round >= 0, job.validation_round),
          .bytes_sent = job.bytes_sent,
          .bytes_ddp = bytes_of_data_parallel(job),
          .parameters = parameters_of(job),
          .anchor_digest = digest_over(job.stages, &JobStage::anchor),
          .momentum_digest = digest_over(job.stages, &JobStage::momentum),
          .stages = stages_of(job, view),
          .epoch = job.epoch,
          .started_at = job.started_at,
          .committed_at = job.committed_at,
          .finished_at = job.finished_at,
          .not_run_by = not_run_by(job, view),
          .priority = job.priority,
          .yields_to = known_if(job.yields_to != JobId(), job.yields_to)};
}

ContributionPhasesAnswer phases_of(const RoundRecord& round, const ContributionRecord& item) {
  const bool reported = has_reported(item);
  return {.train_s = known_if(reported, item.report.compute_s),
          .stall_s = known_if(reported, item.report.stall_s),
          .wait_s = seconds_between(item.reported_at, round.frozen_at),
          .reduce_s = known_if(item.voted_at.ns != 0, item.stats.reduce_s),
          .vote_s = seconds_between(item.voted_at, round.committed_at),
          .apply_s = seconds_between(round.committed_at, item.applied_at)};
}

bool averages_in_groups(const RoundRecord& round) {
  return std::any_of(round.reduces.begin(), round.reduces.end(), [](const Reduce& reduce) {
    return reduce.choice.reason == outer_opt::TopologyReason::kGroups;
  });
}

// That a member has not reported is news only when it should have.
std::optional<RejectReason> reject_reason_of(const ContributionRecord& item) {
  const bool trains = item.reject_reason == RejectReason::kNotReported &&
                      item.state != ContributionState::kRejected;
  return known_if(!trains && item.reject_reason != RejectReason::kNone, item.reject_reason);
}

ContributionAnswer contribution_of(const RoundRecord& round, const ContributionRecord& item) {
  const bool reported = has_reported(item);
  const bool is_member = item.member_index >= 0;
  return {.replica = item.replica,
          .agent = item.agent,
          .stage = item.stage,
          .group = known_if(averages_in_groups(round) && is_member, item.group),
          .role = item.reducer ? AgentRole::kReducer : AgentRole::kTrainer,
          .state = item.state,
          .reject_reason = reject_reason_of(item),
          .tokens = known_if(reported, item.report.tokens),
          .steps = known_if(reported, item.report.steps),
          .skipped = known_if(reported, item.report.skipped),
          .train_loss = known_if(reported, item.report.train_loss),
          .norm = known_if(reported, item.report.norm),
          .max_abs = known_if(reported, item.report.max_abs),
          .nonfinite = known_if(reported, item.report.nonfinite),
          .weight = known_if(is_member, item.weight),
          .clip_factor = known_if(is_member, item.clip_factor),
          .digest = item.average,
          .anchor_digest = item.anchor,
          .bytes_sent = item.stats.sent,
          .bytes_received = item.stats.received,
          .phases = phases_of(round, item)};
}

// train: open to frozen. reduce: frozen to the last vote, attempts included. vote: to the durable
// commit. apply: to the last replica that took the outer step.
RoundSecondsAnswer seconds_of(const RoundRecord& round,
                              const std::vector<ContributionRecord>& items) {
  Instant last_vote, last_applied;
  for (const ContributionRecord& item : items) {
    if (!item.reducer) last_vote = std::max(last_vote, item.voted_at);
    last_applied = std::max(last_applied, item.applied_at);
  }
  return {.train = seconds_between(round.opened_at, round.frozen_at),
          .reduce = seconds_between(round.frozen_at, last_vote),
          .vote = seconds_between(last_vote, round.committed_at),
          .apply = seconds_between(round.committed_at, last_applied),
          .total = seconds_between(round.opened_at, round.committed_at)};
}

ReplicaLiveAnswer live_of(const ReplicaLive& live) {
  const Progress& progress = live.progress;
  return {.at = live.at,
          .round = progress.key.round,
          .inner_step = progress.step,
          .tokens = progress.tokens,
          .train_loss = progress.train_loss,
          .gradient_norm = progress.gradient_norm,
          .learning_rate = progress.lr,
          .tokens_per_second = progress.tokens_per_s};
}

ReplicaLoadAnswer load_of(const LoadLive& load) {
  ReplicaLoadAnswer answer{.at = load.last.at,
                           .done = load.last.done,
                           .total = load.last.total,
                           .bytes_per_second = load.share.rate,
                           .share = load.share.share};
  if (load.share.left) answer.left_s = load.share.left->seconds();
  return answer;
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
    if (progress.key.job != job.id || progress.key.epoch != job.epoch) continue;
    if (live.now - replica.at > kLiveFor) continue;
    ++sum.replicas;
    sum.step = std::max(sum.step, progress.step);
  }
  sum.tokens = open_tokens(live.replicas, {job.id, job.epoch, job.committed_round},
                           std::max<std::size_t>(1, job.stages.size()));
  if (const double* rate = live.tokens_per_s.find(job.id)) sum.tokens_per_s = *rate;
  return sum;
}

// Unknown for a pipeline: it depends on the number of replicas of each stage in each round. The
// steps that the job began with are left out, because another job sent their bytes.
std::optional<std::int64_t> bytes_of_data_parallel(const JobRecord& job) {
  const bool continues = !job.spec.train.continue_from.empty();
  const bool unknown = continues && job.begun_step == Steps();  // stored by an older version
  if (job.stages.size() > 1 || unknown) return std::nullopt;
  const std::int64_t tokens_per_step = job.spec.train.batch * job.spec.model.context;
  const Steps steps = job.committed_step - job.begun_step;
  const Tokens tokens = job.committed_tokens - job.begun_tokens;
  if (parameters_of(job) == 0 || steps.count() == 0 || tokens_per_step == 0) return std::nullopt;
  const double replica_steps =
      static_cast<double>(tokens.count()) / static_cast<double>(tokens_per_step);
  const double beyond_first = replica_steps - static_cast<double>(steps.count());
  return std::llround(8.0 * static_cast<double>(parameters_of(job)) * std::max(0.0, beyond_first));
}

Json rounds_or_null(const JobSpec& spec) {
  const std::int64_t rounds = round_count(spec);
  return rounds == 0 ? Json(nullptr) : Json(rounds);
}

Json job_json(const JobRecord& job, const LiveView& live) {
  return answer_json(JobAnswer{.id = job.id,
                               .name = job.spec.name,
                               .created_at = job.created_at,
                               .updated_at = job.updated_at,
                               .spec = job.spec,
                               .status = status_of(job, live),
                               .owner = job.owner,
                               .description = job.spec.description});
}

// Share of the members' time that they computed, of what they computed or stalled.
std::optional<double> compute_utilisation(const std::vector<ContributionRecord>& contributions) {
  double computed = 0, stalled = 0;
  for (const ContributionRecord& item : contributions) {
    if (!has_reported(item)) continue;
    computed += item.report.compute_s;
    stalled += item.report.stall_s;
  }
  return known_if(computed > 0, computed / (computed + stalled));
}

Json round_json(const RoundRecord& round, const std::vector<ContributionRecord>& contributions) {
  const bool was_aborted = round.aborts > 0 || round.state == RoundState::kAborted;
  RoundAnswer answer{.round = round.key.round,
                     .epoch = round.key.epoch,
                     .state = round.state,
                     .aborts = round.aborts,
                     .abort_reason = known_if(was_aborted, round.abort_reason),
                     .from_step = round.from_step,
                     .to_step = round.to_step,
                     .outer_lr = known_if(round.frozen_at.ns != 0, round.outer_lr),
                     .share = known_if(round.committed_at.ns != 0, round.share),
                     .digest = digest_over(round.reduces, &Reduce::average),
                     .anchor_digest = digest_over(round.reduces, &Reduce::anchor),
                     .momentum_digest = digest_over(round.reduces, &Reduce::momentum),
                     .reduces = reduces_of(round),
                     .opened_at = round.opened_at,
                     .frozen_at = round.frozen_at,
                     .committed_at = round.committed_at,
                     .seconds = seconds_of(round, contributions),
                     .compute_utilisation = compute_utilisation(contributions),
                     .tokens = round.tokens,
                     .train_loss = round.train_loss,
                     .validation_loss = round.validation_loss};
  for (const Reduce& reduce : round.reduces) {
    answer.attempt = std::max(answer.attempt, reduce.attempt);
  }
  for (const ContributionRecord& item : contributions) {
    answer.bytes_sent += item.stats.sent;
    answer.bytes_received += item.stats.received;
    answer.contributions.push_back(contribution_of(round, item));
  }
  return answer_json(answer);
}

Json replica_json(const ReplicaRecord& replica, const LiveView& live) {
  const ReplicaLive* now = is_terminal(replica.state) ? nullptr : live.replicas.find(replica.id);
  ReplicaAnswer answer{.id = replica.id,
                       .job = replica.job,
                       .agent = replica.agent,
                       .incarnation = replica.incarnation,
                       .device = replica.device,
                       .stage = replica.stage,
                       .state = replica.state,
                       .failure = known_if(replica.state == ReplicaState::kFailed, replica.failure),
                       .detail = replica.detail,
                       .source = {replica.source.kind, replica.source.key.round,
                                  replica.source.replica, replica.source.checkpoint},
                       .address = known_if(!replica.address.empty(), replica.address),
                       .epoch = replica.epoch,
                       .held_round = known_if(replica.held_round >= 0, replica.held_round),
                       .anchor_digest = replica.anchor,
                       .created_at = replica.created_at,
                       .updated_at = replica.updated_at};
  if (now != nullptr) answer.live = live_of(*now);
  if (const LoadLive* load = live.loads.find(replica.id)) answer.load = load_of(*load);
  if (const SpeedLive* speed = live.speeds.find(replica.id)) answer.speed_ratio = speed->ratio;
  answer.copies = copies_of(replica, live);
  return answer_json(answer);
}

Json checkpoint_json(const CheckpointRecord& checkpoint, const JobRecord* job) {
  return answer_json(CheckpointAnswer{
      .id = checkpoint.id,
      .job = checkpoint.key.job,
      .epoch = checkpoint.key.epoch,
      .round = checkpoint.key.round,
      .state = checkpoint.state,
      .final = checkpoint.final,
      .pinned = checkpoint.pinned,
      .job_name = job == nullptr ? std::string() : job->spec.name,
      .owner = job == nullptr ? std::string() : job->owner,
      .step = checkpoint.step,
      .tokens = checkpoint.tokens,
      .anchor_digest = digest_over(checkpoint.parts, &CheckpointPart::anchor),
      .momentum_digest = digest_over(checkpoint.parts, &CheckpointPart::momentum),
      .writer = checkpoint.parts.empty() ? ReplicaId() : checkpoint.parts[0].writer,
      .parts = parts_of(checkpoint),
      .detail = checkpoint.detail,
      .sample = checkpoint.sample,
      .bytes = total_size(checkpoint),
      .files = all_files(checkpoint),
      .created_at = checkpoint.created_at,
      .updated_at = checkpoint.updated_at});
}

namespace {

std::optional<QuarantineAnswer> quarantine_of(const HealthRecord& health_record) {
  const QuarantineAnswer answer{health_record.quarantined_until, health_record.violation_reason,
                                health_record.quarantines};
  return known_if(answer.until != Instant(), answer);
}

std::vector<MemoryRefusalAnswer> memory_refusals_of(const AgentRecord& agent) {
  std::vector<MemoryRefusalAnswer> list;
  for (const DeviceRefusal& one : agent.refusals) {
    if (one.kind != DeviceRefusalKind::kMemory) continue;
    list.push_back({.device = one.device, .needed = one.needed, .at = one.at, .code = one.code});
  }
  return list;
}

std::vector<CordonedDeviceAnswer> cordoned_devices_of(const AgentRecord& agent) {
  std::vector<CordonedDeviceAnswer> list;
  for (const DeviceRefusal& one : agent.refusals) {
    if (one.kind == DeviceRefusalKind::kMemory) continue;
    list.push_back({.device = one.device,
                    .at = one.at,
                    .job = one.job,
                    .code = one.code,
                    .reasons = one.reasons,
                    .uuid = one.uuid,
                    .fault = one.fault,
                    .ends = what_ends(one.fault, agent.name)});
  }
  return list;
}

AgentRole role_of(const AgentRecord& agent) {
  if (agent.devices.empty()) return AgentRole::kRelay;
  const bool reduces = std::any_of(agent.devices.begin(), agent.devices.end(),
                                   [](const auto& d) { return d.kind == DeviceKind::kReducer; });
  return reduces ? AgentRole::kReducer : AgentRole::kTrainer;
}

}  // namespace

Json agent_json(const AgentRecord& agent, const LiveView& live, AgentDetail detail) {
  AgentAnswer answer{.id = agent.id,
                     .uid = agent.uid,
                     .name = agent.name,
                     .version = agent.version,
                     .host = agent.host,
                     .relay = agent.relay,
                     .incarnation = agent.incarnation,
                     .state = agent.state,
                     .gone_reason = known_if(agent.state == AgentState::kGone, agent.gone),
                     .role = role_of(agent),
                     .cordoned = agent.cordoned,
                     .quarantine = quarantine_of(agent.health_record),
                     .violations = agent.health_record.violations,
                     .memory_refusals = memory_refusals_of(agent),
                     .cordoned_devices = cordoned_devices_of(agent),
                     .losses = agent.uptime.losses,
                     .availability = availability(agent.uptime, live.now),
                     .devices = agent.devices,
                     .labels = agent.labels,
                     .joined_at = agent.joined_at,
                     .updated_at = agent.updated_at,
                     .runs_programs = agent.programs.beneath_root,
                     .code_from = agent.programs.code_from,
                     .program_limits = agent.programs.limits};
  if (const AgentLive* now = live.agents.find(agent.id)) {
    if (agent.state != AgentState::kGone) {
      answer.health = now->health;
      answer.health_reason = now->health_reason;
      answer.slow_replicas = now->slow_replicas;
      answer.late = now->late;
      for (const DeviceTrouble& one : now->troubles) {
        answer.device_troubles.push_back({one.device, one.uuid, one.trouble, one.reason});
      }
    }
    answer.last_seen_at = now->last_seen;
    answer.resident_bytes = now->resident;
    answer.device_failures = now->failures;
    if (detail == AgentDetail::kWhole) {
      for (const DeviceSample& sample : now->samples) {
        answer.device_samples.push_back(sample_answer(sample));
      }
    }
    answer.drained = agent.state == AgentState::kDraining && now->replicas == 0;
  }
  return answer_json(answer);
}

Json device_history_json(const DeviceLine& line) {
  DeviceHistoryAnswer answer{.uuid = line.uuid, .index = line.index, .name = line.name};
  for (const DevicePoint& point : line.points) {
    answer.points.push_back({point.at, point.busy, point.used_here, point.used_elsewhere,
                             point.celsius, point.watts, point.mhz, point.throttled});
  }
  return answer_json(answer);
}

Json event_json(const EventRecord& event) {
  return answer_json(EventAnswer{.seq = event.seq,
                                 .at = event.at,
                                 .severity = event.severity,
                                 .kind = event.kind,
                                 .job = event.job,
                                 .agent = event.agent,
                                 .replica = event.replica,
                                 .round = event.round,
                                 .message = event.message});
}

Json series_json(const SeriesQuery& query, const std::vector<SeriesLine>& lines) {
  SeriesAnswer answer{.job = query.job,
                      .name = query.name,
                      .x = query.x,
                      .by = query.by_replica ? "replica" : "job"};
  for (const SeriesLine& line : lines) {
    answer.series.push_back({line.replica, line.x, line.y, line.y_min, line.y_max, line.time});
  }
  return answer_json(answer);
}

}  // namespace shoal::coordinator::rest
