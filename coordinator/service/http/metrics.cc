#include "coordinator/service/http/metrics.h"

#include <algorithm>
#include <sstream>

#include <prometheus/text_serializer.h>

#include "coordinator/service/http/process_stats.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr Duration kShownAfterEnd = seconds(3600);

double unix_s(Instant at) { return static_cast<double>(at.unix_ms()) / 1000; }

std::string code_class(int status) { return std::to_string(status / 100) + "xx"; }

}  // namespace

// Families in the order of their first value; one without values is not shown.
class Metrics::Families {
 public:
  void gauge(const char* name, const char* help, Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.gauge.value = value;
    find(name, help, MetricType::Gauge).metric.push_back(std::move(metric));
  }
  void counter(const char* name, const char* help, Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    find(name, help, MetricType::Counter).metric.push_back(std::move(metric));
  }
  std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  MetricFamily& find(const char* name, const char* help, MetricType type) {
    auto [it, added] = index_.try_emplace(name, families_.size());
    if (added) families_.push_back({name, help, type, {}});
    return families_[it->second];
  }
  std::map<std::string_view, std::size_t> index_;
  std::vector<MetricFamily> families_;
};

// One shown job and the few rows of it that the metrics need.
struct Metrics::JobSample {
  JobRecord job;
  std::vector<ReplicaRecord> replicas;  // newest 500, ended ones left out
  Instant round_opened_at;              // of the newest round; zero: none
  Instant checkpoint_at;                // newest stored one; zero: none
};

Metrics::Metrics(std::shared_ptr<Meters> meters)
    : meters_(std::move(meters)),
      requests_(counters(meters_->registry, "shoal_http_requests_total",
                         "HTTP requests answered, by route and class of status.")),
      durations_(histograms(
          meters_->registry, "shoal_http_request_duration_seconds",
          "Time from a complete request to its answer being written; streams left out.")),
      dropped_(counters(meters_->registry, "shoal_http_stream_dropped_total",
                        "Event streams that the server ended, by reason.")),
      connections_(gauges(meters_->registry, "shoal_http_connections",
                          "Open HTTP connections, streams included.")
                       .Add({})),
      streams_(gauges(meters_->registry, "shoal_http_streams", "Open event streams.").Add({})) {
  dropped_.Add({{"reason", "slow"}});
}

void Metrics::request_done(std::string_view method, std::string_view route, int status) {
  requests_
      .Add({{"method", std::string(method)},
            {"route", std::string(route)},
            {"code", code_class(status)}})
      .Increment();
}

void Metrics::request_took(std::string_view method, std::string_view route, Duration time) {
  durations_
      .Add({{"method", std::string(method)}, {"route", std::string(route)}}, buckets_of_requests())
      .Observe(time.seconds());
}

void Metrics::stream_dropped(std::string_view reason) {
  dropped_.Add({{"reason", std::string(reason)}}).Increment();
}

// Ids only grow and a terminal phase is final: jobs up to settled_job_ need not be read again.
Result<std::vector<Metrics::JobSample>> Metrics::sample_jobs(Reader& reader, Instant now,
                                                             std::vector<std::int64_t>& by_phase) {
  std::vector<JobSample> samples;
  by_phase.assign(settled_phases_.begin(), settled_phases_.end());
  PageRequest page;
  page.limit = 500;
  page.after = settled_job_;
  for (bool settling = true;;) {
    auto jobs = reader.jobs(page, {});
    if (!jobs.ok()) return jobs.error();
    for (JobRecord& job : jobs.value().items) {
      const auto phase = static_cast<std::size_t>(job.phase);
      ++by_phase[phase];
      const bool over = is_terminal(job.phase) && now - job.updated_at > kShownAfterEnd;
      settling = settling && over;
      if (settling) {
        settled_job_ = static_cast<std::int64_t>(job.id.n);
        ++settled_phases_[phase];
      }
      if (!over)
        samples.push_back(
            {.job = std::move(job), .replicas = {}, .round_opened_at = {}, .checkpoint_at = {}});
    }
    if (!jobs.value().next) break;
    page.after = *jobs.value().next;
  }
  return samples;
}

namespace {

// The rows beside the job itself: a bounded number, newest first.
template <typename Sample>
Status fill_sample(Reader& reader, Sample& sample) {
  PageRequest page;
  page.newest_first = true;
  page.limit = 500;
  auto replicas = reader.replicas(sample.job.id, page);
  if (!replicas.ok()) return replicas.error();
  for (ReplicaRecord& replica : replicas.value().items)
    if (!is_terminal(replica.state)) sample.replicas.push_back(std::move(replica));

  page.limit = 1;
  const auto rounds = reader.rounds(sample.job.id, page);
  if (!rounds.ok()) return rounds.error();
  if (!rounds.value().items.empty()) sample.round_opened_at = rounds.value().items[0].opened_at;

  page.limit = 10;
  const auto checkpoints = reader.checkpoints(sample.job.id, page);
  if (!checkpoints.ok()) return checkpoints.error();
  for (const CheckpointRecord& checkpoint : checkpoints.value().items) {
    if (checkpoint.state != CheckpointState::kStored) continue;
    sample.checkpoint_at = std::max(sample.checkpoint_at, checkpoint.updated_at);
  }
  return Status();
}

template <typename Families>
void add_one_job(Families& out, const JobRecord& job, const LiveView& view) {
  const Labels id = {{"job_id", to_string(job.id)}};
  const JobLive live = job_live(job, view);
  out.gauge("shoal_job_info", "Names of a job; always 1.",
            {{"job_id", to_string(job.id)},
             {"name", job.spec.name},
             {"model", to_string(job.spec.model.family)},
             {"algorithm", to_string(job.spec.sync.algorithm)},
             {"topology", to_string(job.spec.sync.topology)},
             {"codec", to_string(job.spec.sync.codec)},
             {"stages", std::to_string(job.spec.swarm.stages)}},
            1);
  out.gauge("shoal_job_committed_tokens", "Tokens trained in the committed rounds of a job.", id,
            static_cast<double>(job.committed_tokens.count()));
  out.gauge("shoal_job_committed_steps", "Inner steps covered by the committed rounds of a job.",
            id, static_cast<double>(job.committed_step.count()));
  out.gauge("shoal_job_target_steps", "Inner steps after which a job is done.", id,
            static_cast<double>(job.spec.train.steps.count()));
  out.gauge("shoal_job_committed_round", "Newest committed round of a job.", id,
            static_cast<double>(job.committed_round));
  out.counter("shoal_sync_bytes_total",
              "Bytes on the sockets between replicas in committed rounds.",
              {{"job_id", to_string(job.id)}, {"direction", "sent"}},
              static_cast<double>(job.bytes_sent.count()));
  if (!is_terminal(job.phase)) {
    out.gauge("shoal_job_tokens_per_second",
              "Tokens of committed rounds and of the open one per second of wall time.", id,
              live.tokens_per_s.value_or(0));
  }
  if (job.train_loss != 0)
    out.gauge("shoal_job_loss", "Training loss of the last committed round in nats per token.", id,
              job.train_loss);
  if (job.validation_loss != 0)
    out.gauge("shoal_job_validation_loss", "Newest validation loss in nats per token.", id,
              job.validation_loss);
}

template <typename Families>
void add_store(Families& out, const StoreStats& stats) {
  out.gauge("shoal_db_queue_depth", "Batches of records that wait for the writer.", {},
            static_cast<double>(stats.queue_depth));
  const char* const help = "Size of a database file.";
  out.gauge("shoal_db_file_bytes", help, {{"db", "state"}},
            static_cast<double>(stats.state_file.count()));
  out.gauge("shoal_db_file_bytes", help, {{"db", "telemetry"}},
            static_cast<double>(stats.telemetry_file.count()));
  out.gauge("shoal_db_wal_bytes", "Size of the write-ahead log of the state.", {{"db", "state"}},
            static_cast<double>(stats.wal_file.count()));
}

template <typename Families>
void add_relay(Families& out, const std::string& agent, const RelayFigures& relay) {
  const auto value = [](std::int64_t count) { return static_cast<double>(count); };
  out.gauge("shoal_relay_waiting", "Replicas that wait at the relay of an agent.",
            {{"agent", agent}}, value(relay.waiting));
  out.gauge("shoal_relay_joined", "Connections between replicas that a relay carries.",
            {{"agent", agent}}, value(relay.joined));
  out.counter("shoal_relay_joined_total", "Connections that a relay has carried.",
              {{"agent", agent}}, value(relay.joined_total));
  out.counter("shoal_relay_bytes_total", "Bytes that a relay has carried, both ways together.",
              {{"agent", agent}}, value(relay.carried.count()));
  for (const auto& [reason, count] :
       {std::pair("identity", relay.refused_identity), std::pair("asks", relay.refused_asks),
        std::pair("handshakes", relay.refused_handshakes)}) {
    out.counter("shoal_relay_refused_total", "Connections that a relay has refused, by reason.",
                {{"agent", agent}, {"reason", reason}}, value(count));
  }
}

// Named and meant as those of NVIDIA's DCGM exporter, for processors too.
template <typename Families>
void add_sample(Families& out, const std::string& agent, const DeviceSample& sample, Instant now) {
  const auto gauge = [&](const char* name, const char* help, double value) {
    out.gauge(name, help, {{"agent", agent}, {"uuid", sample.uuid}}, value);
  };
  const auto counter = [&](const char* name, const char* help, std::int64_t value) {
    out.counter(name, help, {{"agent", agent}, {"uuid", sample.uuid}}, static_cast<double>(value));
  };
  gauge("shoal_device_answers", "1: the driver of a device answers every question, else 0.",
        sample.answer == DeviceAnswer::kWhole ? 1 : 0);
  gauge("shoal_device_lost", "1: the UUID of a device does not answer any more, else 0.",
        sample.answer == DeviceAnswer::kLost ? 1 : 0);
  if (sample.use) {
    gauge("shoal_device_busy_ratio", "Share of the time that a device computes.", sample.use->busy);
    gauge("shoal_device_stolen_ratio", "Share of the time that a hypervisor took from a processor.",
          sample.use->stolen);
    for (const auto& [holder, bytes] : {std::pair("agent", sample.use->used_here),
                                        std::pair("others", sample.use->used_elsewhere)}) {
      out.gauge("shoal_device_memory_used_bytes", "Memory of a device in use, by holder.",
                {{"agent", agent}, {"uuid", sample.uuid}, {"holder", holder}},
                static_cast<double>(bytes.count()));
    }
  }
  if (sample.climate) {
    gauge("shoal_device_temperature_celsius", "Temperature of a device.", sample.climate->celsius);
    gauge("shoal_device_power_watts", "Power that a device draws; 0: not known.",
          sample.climate->watts);
    gauge("shoal_device_clock_hertz", "Clock of a device; 0: not known.",
          sample.climate->mhz * 1e6);
    gauge("shoal_device_throttled", "1: the driver names a reason to slow a device down, else 0.",
          sample.climate->throttled.empty() ? 0 : 1);
  }
  if (!sample.errors) return;
  counter("shoal_device_ecc_corrected_total", "Memory errors that a device has corrected.",
          sample.errors->ecc_corrected);
  counter("shoal_device_ecc_uncorrected_total", "Memory errors that a device could not correct.",
          sample.errors->ecc_uncorrected);
  counter("shoal_device_rows_remapped_total", "Rows of memory that a device has replaced.",
          sample.errors->rows_remapped);
  counter("shoal_device_pcie_replays_total", "Packets that a device sent again over PCIe.",
          sample.errors->pcie_replays);
  counter("shoal_device_nvlink_errors_total", "Errors of a device's NVLinks.",
          sample.errors->nvlink_errors);
  for (const XidCount& xid : sample.errors->xids) {
    out.counter("shoal_device_xid_errors_total", "Errors that the driver reported, by XID.",
                {{"agent", agent}, {"uuid", sample.uuid}, {"xid", std::to_string(xid.xid)}},
                static_cast<double>(xid.count));
    out.gauge("shoal_device_xid_last_timestamp_seconds",
              "When the driver reported an XID for the last time.",
              {{"agent", agent}, {"uuid", sample.uuid}, {"xid", std::to_string(xid.xid)}},
              unix_s(now - xid.ago));
  }
}

// What the live view has of an agent that was heard.
template <typename Families>
void add_agent_now(Families& out, const std::string& agent, const AgentLive& now, Instant at) {
  out.gauge("shoal_agent_last_seen_timestamp_seconds", "When an agent was heard last.",
            {{"agent", agent}}, unix_s(now.last_seen));
  if (now.relay) add_relay(out, agent, *now.relay);
  out.gauge("shoal_agent_devices_failing", "Devices of an agent whose trainer does not start.",
            {{"agent", agent}}, static_cast<double>(now.failures.size()));
  out.gauge(
      "shoal_agent_health",
      "0: green; 1: yellow, its heartbeat is late or a replica is slow; 2: red, no connection.",
      {{"agent", agent}}, static_cast<double>(now.health));
  if (now.health != Health::kRed) {  // else they are of a past time
    for (const DeviceSample& sample : now.samples) add_sample(out, agent, sample, at);
  }
  out.gauge("shoal_agent_resident_bytes", "Memory of an agent and its trainers.",
            {{"agent", agent}}, static_cast<double>(now.resident.count()));
}

template <typename Families>
void add_cordons(Families& out, const std::string& id, const AgentRecord& agent) {
  for (const DeviceRefusal& refusal : agent.refusals) {
    if (refusal.kind != DeviceRefusalKind::kUnhealthy) continue;
    out.gauge("shoal_device_unhealthy",
              "1: a device is out of service for what its driver reported.",
              {{"agent", id}, {"uuid", refusal.uuid}, {"fault", to_string(refusal.fault)}}, 1);
  }
  const auto failing =
      std::ranges::count(agent.refusals, DeviceRefusalKind::kFailing, &DeviceRefusal::kind);
  out.gauge("shoal_agent_devices_cordoned",
            "Devices that the coordinator took out of service because replicas failed there.",
            {{"agent", id}}, static_cast<double>(failing));
}

template <typename Families>
void add_speeds(Families& out, const LiveView& live) {
  for (const auto& [replica, speed] : live.speeds) {
    out.gauge("shoal_replica_speed_ratio",
              "Pace of computing of a replica, by the pace that its device promised.",
              {{"replica", to_string(replica)}, {"agent", to_string(speed.agent)}}, speed.ratio);
  }
}

// Replicas count these themselves.
template <typename Families>
void add_pipelines(Families& out, const LiveView& live) {
  for (const auto& [replica, pipeline] : live.pipeline) {
    out.counter("shoal_pipeline_frames_dropped_total",
                "Frames of a past step, view or sender that a replica refused.",
                {{"replica", to_string(replica)}}, static_cast<double>(pipeline.stats.dropped));
    out.counter("shoal_pipeline_gradients_added_again_total",
                "Gradients added of microbatches that were sent again after a loss; at most so "
                "many count in two replicas of the stage.",
                {{"replica", to_string(replica)}}, static_cast<double>(pipeline.stats.added_again));
  }
}

template <typename Families>
void add_process(Families& out, std::int64_t boot_epoch) {
  const ProcessStats process = read_process_stats();
  out.gauge("shoal_build_info", "Version of this coordinator; always 1.",
            {{"version", SHOAL_VERSION}}, 1);
  out.gauge("shoal_coordinator_boot_epoch", "Starts of the coordinator on this data folder.", {},
            static_cast<double>(boot_epoch));
  out.gauge("process_start_time_seconds", "Unix time at which the process started.", {},
            process.start_time_s);
  out.counter("process_cpu_seconds_total", "User and system time of the process.", {},
              process.cpu_s);
  out.gauge("process_resident_memory_bytes", "Resident memory of the process.", {},
            static_cast<double>(process.resident_bytes));
  out.gauge("process_open_fds", "Open file descriptors of the process.", {},
            static_cast<double>(process.open_fds));
}

template <typename Families>
void add_checkpoints(Families& out, const CheckpointSpace& space, Bytes budget) {
  const char* const help = "Bytes of all checkpoints; pending: announced and not stored yet.";
  out.gauge("shoal_checkpoint_bytes", help, {{"state", "stored"}},
            static_cast<double>(space.stored.count()));
  out.gauge("shoal_checkpoint_bytes", help, {{"state", "pending"}},
            static_cast<double>(space.pending.count()));
  out.gauge("shoal_checkpoint_budget_bytes", "--checkpoints-max-gib; 0: no limit.", {},
            static_cast<double>(budget.count()));
}

}  // namespace

void Metrics::add_jobs(Families& out, const std::vector<JobSample>& jobs, const LiveView& live) {
  for (const JobSample& sample : jobs) {
    const std::string id = to_string(sample.job.id);
    add_one_job(out, sample.job, live);
    if (!is_terminal(sample.job.phase)) {
      std::map<std::string, int> members;
      for (const ReplicaRecord& replica : sample.replicas) ++members[to_string(replica.state)];
      for (const auto& [state, count] : members)
        out.gauge("shoal_job_members", "Replicas of a job by state.",
                  {{"job_id", id}, {"state", state}}, count);
      const bool rests = sample.job.phase == JobPhase::kPaused;  // its newest round is of the past
      if (sample.round_opened_at.ns != 0 && !rests)
        out.gauge("shoal_round_started_timestamp_seconds", "When the newest round was opened.",
                  {{"job_id", id}}, unix_s(sample.round_opened_at));
    }
    if (sample.checkpoint_at.ns != 0)
      out.gauge("shoal_checkpoint_last_success_timestamp_seconds",
                "When the newest checkpoint was stored.", {{"job_id", id}},
                unix_s(sample.checkpoint_at));
  }
}

Status Metrics::add_agents(Families& out, Reader& reader, const LiveView& live) {
  std::vector<std::int64_t> by_state(static_cast<std::size_t>(AgentState::kGone));
  std::int64_t quarantined = 0, cordoned = 0;
  PageRequest page;
  page.limit = 500;
  for (;;) {
    const auto agents = reader.agents(page, false);
    if (!agents.ok()) return agents.error();
    for (const AgentRecord& agent : agents.value().items) {
      if (agent.state == AgentState::kGone) continue;
      ++by_state[static_cast<std::size_t>(agent.state)];
      quarantined += agent.health_record.quarantined_until != Instant();
      cordoned += agent.cordoned;
      const std::string id = to_string(agent.id);
      out.gauge("shoal_agent_info", "Names of an agent; always 1.",
                {{"agent", id},
                 {"name", agent.name},
                 {"version", agent.version},
                 {"device", agent.devices.empty() ? "" : agent.devices[0].name}},
                1);
      add_cordons(out, id, agent);
      const AgentLive* now = live.agents.find(agent.id);
      if (now == nullptr || now->last_seen.ns == 0) continue;
      add_agent_now(out, id, *now, live.now);
    }
    if (!agents.value().next) break;
    page.after = *agents.value().next;
  }
  for (std::size_t i = 0; i < by_state.size(); ++i)
    out.gauge("shoal_agents", "Agents by state, those that are gone left out.",
              {{"state", to_string(static_cast<AgentState>(i))}}, static_cast<double>(by_state[i]));
  out.gauge("shoal_agents_quarantined", "Agents that get no work because of what they sent.", {},
            static_cast<double>(quarantined));
  out.gauge("shoal_agents_cordoned", "Agents that an operator took out of service.", {},
            static_cast<double>(cordoned));
  return Status();
}

Result<std::vector<MetricFamily>> Metrics::collect(Cluster& cluster, Reader& reader,
                                                   const Outside& outside) {
  const auto live = cluster.live();
  Families out;
  {
    const MutexLock lock(mutex_);
    std::vector<std::int64_t> by_phase;
    auto jobs = sample_jobs(reader, live->now, by_phase);
    if (!jobs.ok()) return jobs.error();
    for (JobSample& sample : jobs.value()) {
      if (const Status status = fill_sample(reader, sample); !status.ok()) return status.error();
    }
    for (std::size_t i = 0; i < by_phase.size(); ++i)
      out.gauge("shoal_jobs", "Jobs by phase.", {{"phase", to_string(static_cast<JobPhase>(i))}},
                static_cast<double>(by_phase[i]));
    add_jobs(out, jobs.value(), *live);
    if (const Status status = add_agents(out, reader, *live); !status.ok()) return status.error();
  }
  add_checkpoints(out, cluster.checkpoint_space(), outside.checkpoint_budget);
  out.gauge("shoal_agents_port_accepts",
            "Whether the last handshake of the coordinator with its port for agents succeeded.", {},
            outside.agents_port_accepts ? 1 : 0);
  out.gauge("shoal_object_store_waiting",
            "Manifests and deletions that --checkpoint-store has not taken yet.", {},
            outside.bucket == nullptr ? 0 : static_cast<double>(outside.bucket->waiting()));
  out.gauge("shoal_core_input_queue_depth", "Inputs that wait for the rules.", {},
            static_cast<double>(cluster.inputs_waiting()));
  add_process(out, live->boot_epoch);
  add_store(out, cluster.store().stats());
  add_pipelines(out, *live);
  add_speeds(out, *live);

  meters_->jobs.remove_ended(live->now - kShownAfterEnd);
  std::vector<MetricFamily> families = out.take();
  for (MetricFamily& own : meters_->registry.Collect()) families.push_back(std::move(own));
  return families;
}

Result<std::string> Metrics::scrape(Cluster& cluster, Reader& reader, const Outside& outside) {
  const auto families = collect(cluster, reader, outside);
  if (!families.ok()) return families.error();
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families.value());
  return text.str();
}

Metrics::Outside outside_of(const HttpOptions& options) {
  return {options.bucket, options.checkpoints_max, options.agents_port().ok()};
}

}  // namespace shoal::coordinator::rest
