#include "coordinator/meters/meters.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

prometheus::Counter& counter(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels = {}) {
  return counters(registry, name, help).Add(labels);
}

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return gauges(registry, name, help).Add({});
}

// Only one thread may call it for a gauge: it reads, then writes.
void raise(prometheus::Gauge& most, double value) { most.Set(std::max(most.Value(), value)); }

CountersOf<RefusalReason> refusals_of(prometheus::Registry& registry, Port port) {
  return {counters(registry, "shoal_refused_total",
                   "Connections, requests and streams that a port turned away, by reason."),
          "reason",
          {{"port", to_string(port)}}};
}

prometheus::Counter& webhook_events(prometheus::Registry& registry, const char* result) {
  return counter(registry, "shoal_webhook_events_total",
                 "Events that the webhook took, and those dropped after a day.",
                 {{"result", result}});
}

prometheus::Counter& exports(prometheus::Registry& registry, const char* signal,
                             const char* result) {
  return counter(registry, "shoal_otlp_exports_total",
                 "Spans and exports of all metrics that --otlp is done with.",
                 {{"signal", signal}, {"result", result}});
}

}  // namespace

StoreMeters::StoreMeters(prometheus::Registry& registry)
    : commits(counter(registry, "shoal_db_commits_total", "Transactions made durable.")),
      records(counter(registry, "shoal_db_records_total", "Records written.")),
      errors(counter(registry, "shoal_db_errors_total", "Writes that failed.")),
      commit_seconds_total(
          counter(registry, "shoal_db_commit_seconds_total", "Time spent in commits.")),
      commit_seconds(histograms(registry, "shoal_db_commit_duration_seconds",
                                "Time that a transaction took to become durable.")
                         .Add({}, buckets_of_requests())),
      commit_max_seconds(
          gauge(registry, "shoal_db_commit_max_seconds", "Longest commit since the start.")) {}

void StoreMeters::wrote(std::size_t rows, Duration took, bool failed) {
  (failed ? errors : commits).Increment();
  records.Increment(static_cast<double>(rows));
  commit_seconds_total.Increment(took.seconds());
  commit_seconds.Observe(took.seconds());
  raise(commit_max_seconds, took.seconds());
}

RuntimeMeters::RuntimeMeters(prometheus::Registry& registry)
    : inputs(counter(registry, "shoal_core_inputs_total", "Inputs that the rules have handled.")),
      sends(counter(registry, "shoal_core_sends_total", "Messages sent to agents.")),
      sessions(counter(registry, "shoal_agent_sessions_total", "Agent streams opened.")),
      heartbeats(counter(registry, "shoal_heartbeats_total", "Heartbeats received from agents.")),
      refused_messages(counter(registry, "shoal_agent_messages_refused_total",
                               "Messages of agents that were malformed or stale.")),
      step_seconds_total(
          counter(registry, "shoal_core_step_seconds_total", "Time spent in the rules.")),
      step_seconds(histograms(registry, "shoal_core_step_duration_seconds",
                              "Time that the rules took to handle one input.")
                       .Add({}, buckets_of_steps())),
      step_max_seconds(
          gauge(registry, "shoal_core_step_max_seconds", "Longest single step of the rules.")),
      reduce_failures(counters(registry, "shoal_reduce_failures_total",
                               "Attempts of a reduce that a member gave up, by reason."),
                      "reason"),
      moves_considered(counters(registry, "shoal_moves_considered_total",
                                "Moves of replicas between stages that were considered for "
                                "balance, by verdict; moves: it was made."),
                       "verdict") {}

void RuntimeMeters::stepped(Duration took) {
  inputs.Increment();
  step_seconds_total.Increment(took.seconds());
  step_seconds.Observe(took.seconds());
  raise(step_max_seconds, took.seconds());
}

EventMeters::EventMeters(prometheus::Registry& registry)
    : by_severity(counters(registry, "shoal_events_total", "Events since the coordinator started."),
                  "severity") {
  for (const char* kind : kIncidents) {
    incidents[kind] =
        &counter(registry, "shoal_incidents_total",
                 "Events since the coordinator started that report trouble.", {{"kind", kind}});
  }
}

void EventMeters::happened(const EventRecord& event) {
  by_severity[event.severity].Increment();
  const auto incident = incidents.find(event.kind);
  if (incident != incidents.end()) incident->second->Increment();
}

RefusalMeters::RefusalMeters(prometheus::Registry& registry)
    : by_port{refusals_of(registry, Port::kHttp), refusals_of(registry, Port::kJoin),
              refusals_of(registry, Port::kAgents), refusals_of(registry, Port::kPeers)} {}

RefusalCounts RefusalMeters::counts(Port port) const {
  RefusalCounts counts;
  for (const auto& [reason, text] : kEnumerators<RefusalReason>) {
    counts[reason] = static_cast<std::int64_t>(at(port, reason).Value());
  }
  return counts;
}

OutsideMeters::OutsideMeters(prometheus::Registry& registry)
    : webhook_taken(webhook_events(registry, "taken")),
      webhook_dropped(webhook_events(registry, "dropped")),
      webhook_failures(
          counter(registry, "shoal_webhook_failures_total",
                  "POSTs that the receiver of the webhook refused or did not answer.")),
      object_store_retries(counter(registry, "shoal_object_store_retries_total",
                                   "Requests to --checkpoint-store that had to be tried again.")),
      object_store_carried(
          counter(registry, "shoal_object_store_carried_bytes_total",
                  "Bytes of checkpoints carried for agents that do not reach --checkpoint-store.")),
      spans_sent(exports(registry, "spans", "sent")),
      spans_dropped(exports(registry, "spans", "dropped")),
      metrics_sent(exports(registry, "metrics", "sent")),
      metrics_dropped(exports(registry, "metrics", "dropped")) {}

}  // namespace shoal::coordinator
