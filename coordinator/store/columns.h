// Which column holds which field of which record. Each record is described once, as a list of
// (column, field); writing, reading and the SQL text (rows.h) all walk that list, so a column
// cannot be written one way and read another. A test counts the members of the records, so none can
// be forgotten here.
#pragma once

#include <string>

#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

// kTable, kKey (the columns that name a row) and columns(visit, record): visit(name, field) in
// order.
template <typename Record>
struct Table;

// Three columns for the key of a round.
template <typename Visit, typename Key>
void visit_round_key(Visit& visit, const std::string& prefix, Key& key) {
  visit(prefix + "job", key.job);
  visit(prefix + "lineage", key.lineage);
  visit(prefix + "round", key.round);
}

template <>
struct Table<CounterRecord> {
  static constexpr const char* kTable = "counters";
  static constexpr const char* kKey = "id";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit("next_job", r.next_job);
    visit("next_agent", r.next_agent);
    visit("next_replica", r.next_replica);
    visit("next_checkpoint", r.next_checkpoint);
    visit("next_event", r.next_event);
    visit("boot_epoch", r.boot_epoch);
    visit("store", r.store);
    visit("backup_at_ns", r.backup_at);
  }
};

template <>
struct Table<JobRecord> {
  static constexpr const char* kTable = "jobs";
  static constexpr const char* kKey = "id";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit("id", r.id);
    visit("spec", r.spec);
    visit("phase", r.phase);
    visit("desired", r.desired);
    visit("reason", r.reason);
    visit("detail", r.detail);
    visit("created_at_ns", r.created_at);
    visit("updated_at_ns", r.updated_at);
    visit("started_at_ns", r.started_at);
    visit("finished_at_ns", r.finished_at);
    visit("lineage", r.lineage);
    visit("committed_round", r.committed_round);
    visit("committed_at_ns", r.committed_at);
    visit("committed_step", r.committed_step);
    visit("outer_lr", r.outer_lr);
    visit("committed_tokens", r.committed_tokens);
    visit("stages", r.stages);
    visit("view", r.view);
    visit("routers", r.routers);
    visit("next_sequence", r.next_sequence);
    visit("returned", r.returned);
    visit("data", r.data);
    visit("rollback_at_ns", r.rollback_at);
    visit("train_loss", r.train_loss);
    visit("validation_loss", r.validation_loss);
    visit("validation_round", r.validation_round);
    visit("bytes_sent", r.bytes_sent);
    visit("failures_in_row", r.failures_in_row);
    visit("balance_at_ns", r.balance_at);
    visit("balance_confirmed", r.balance_confirmed);
  }
};

template <>
struct Table<AgentRecord> {
  static constexpr const char* kTable = "agents";
  static constexpr const char* kKey = "id";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit("id", r.id);
    visit("uid", r.uid);
    visit("name", r.name);
    visit("version", r.version);
    visit("host", r.host);
    visit("incarnation", r.incarnation);
    visit("state", r.state);
    visit("gone", r.gone);
    visit("cordoned", r.cordoned);
    visit("devices", r.devices);
    visit("labels", r.labels);
    visit("joined_at_ns", r.joined_at);
    visit("updated_at_ns", r.updated_at);
    visit("strikes", r.standing.strikes);
    visit("struck_at_ns", r.standing.struck_at);
    visit("strike_reason", r.standing.strike_reason);
    visit("quarantines", r.standing.quarantines);
    visit("quarantined_until_ns", r.standing.quarantined_until);
    visit("refusals", r.refusals);
    visit("present_since_ns", r.attendance.since);
    visit("present_s", r.attendance.present_s);
    visit("losses", r.attendance.losses);
  }
};

template <>
struct Table<ReplicaRecord> {
  static constexpr const char* kTable = "replicas";
  static constexpr const char* kKey = "id";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit("id", r.id);
    visit("job", r.job);
    visit("agent", r.agent);
    visit("incarnation", r.incarnation);
    visit("device", r.device);
    visit("stage", r.stage);
    visit("state", r.state);
    visit("failure", r.failure);
    visit("detail", r.detail);
    visit("source", r.source);
    visit("address", r.address);
    visit("lineage", r.lineage);
    visit("held_round", r.held_round);
    visit("anchor", r.anchor);
    visit("momentum", r.momentum);
    visit("store", r.store);
    visit("absent_since_ns", r.absent_since);
    visit("created_at_ns", r.created_at);
    visit("updated_at_ns", r.updated_at);
  }
};

template <>
struct Table<RoundRecord> {
  static constexpr const char* kTable = "rounds";
  static constexpr const char* kKey = "job, lineage, round";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit_round_key(visit, "", r.key);
    visit("state", r.state);
    visit("stages", r.stages);
    visit("aborts", r.aborts);
    visit("abort_reason", r.abort_reason);
    visit("from_step", r.from_step);
    visit("to_step", r.to_step);
    visit("opened_at_ns", r.opened_at);
    visit("sealed_at_ns", r.sealed_at);
    visit("committed_at_ns", r.committed_at);
    visit("tokens", r.tokens);
    visit("train_loss", r.train_loss);
    visit("validation_loss", r.validation_loss);
    visit("validation_tokens", r.validation_tokens);
    visit("validation_sum", r.validation_sum);
    visit("eval_slices", r.eval_slices);
    visit("outer_lr", r.outer_lr);
    visit("share", r.share);
    visit("carried_steps", r.carried_steps);
    visit("job_tokens", r.job_tokens);
  }
};

template <>
struct Table<ContributionRecord> {
  static constexpr const char* kTable = "contributions";
  static constexpr const char* kKey = "job, lineage, round, replica";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit_round_key(visit, "", r.key);
    visit("replica", r.replica);
    visit("agent", r.agent);
    visit("stage", r.stage);
    visit("group_index", r.group);
    visit("reducer", r.reducer);
    visit("state", r.state);
    visit("reject_reason", r.reject_reason);
    visit("leases", r.leases);
    visit_round_key(visit, "report_", r.report.key);
    visit("report_tokens", r.report.tokens);
    visit("report_steps", r.report.steps);
    visit("report_train_loss", r.report.train_loss);
    visit("report_norm", r.report.norm);
    visit("report_max_abs", r.report.max_abs);
    visit("report_nonfinite", r.report.nonfinite);
    visit("report_compute_s", r.report.compute_s);
    visit("report_drawn", r.report.drawn);
    visit("report_stood_s", r.report.stood_s);
    visit("report_skipped", r.report.skipped);
    visit("reported_at_ns", r.reported_at);
    visit("voted_at_ns", r.voted_at);
    visit("applied_at_ns", r.applied_at);
    visit("weight", r.weight);
    visit("clip_factor", r.clip_factor);
    visit("member_index", r.member_index);
    visit("part_first", r.part_first);
    visit("part_count", r.part_count);
    visit("left_out", r.left_out);
    visit("average", r.average);
    visit("anchor", r.anchor);
    visit("momentum", r.momentum);
    visit("base", r.base);
    visit("base_momentum", r.base_momentum);
    visit("added", r.added);
    visit("bytes_sent", r.stats.sent);
    visit("bytes_received", r.stats.received);
    visit("reduce_s", r.stats.reduce_s);
    visit("eval_slice", r.eval_slice);
    visit("evaluated", r.evaluated);
  }
};

template <>
struct Table<CheckpointRecord> {
  static constexpr const char* kTable = "checkpoints";
  static constexpr const char* kKey = "id";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit("id", r.id);
    visit_round_key(visit, "", r.key);
    visit("state", r.state);
    visit("final", r.final);
    visit("parts", r.parts);
    visit("step", r.step);
    visit("tokens", r.tokens);
    visit("next_sequence", r.next_sequence);
    visit("returned", r.returned);
    visit("detail", r.detail);
    visit("sample", r.sample);
    visit("created_at_ns", r.created_at);
    visit("updated_at_ns", r.updated_at);
  }
};

template <>
struct Table<EventRecord> {
  static constexpr const char* kTable = "events";
  static constexpr const char* kKey = "";  // appended, never replaced
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit("seq", r.seq);
    visit("at_ns", r.at);
    visit("severity", r.severity);
    visit("kind", r.kind);
    visit("job", r.job);
    visit("agent", r.agent);
    visit("replica", r.replica);
    visit("round", r.round);
    visit("message", r.message);
  }
};

template <>
struct Table<LinkRecord> {
  static constexpr const char* kTable = "links";
  static constexpr const char* kKey = "from_agent, to_agent";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit("from_agent", r.from);
    visit("to_agent", r.to);
    visit("round_trip_ns", r.round_trip);
    visit("bytes_per_s", r.bytes_per_s);
    visit("dialled", r.dialled);
    visit("measured_at_ns", r.measured_at);
  }
};

template <>
struct Table<SubmittedText> {
  static constexpr const char* kTable = "submitted_texts";
  static constexpr const char* kKey = "job";
  template <typename Visit, typename R>
  static void columns(Visit& visit, R& r) {
    visit("job", r.job);
    visit("media_type", r.media_type);
    visit("text", r.text);
  }
};

}  // namespace shoal::coordinator
