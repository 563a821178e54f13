// See control_log.h. Each note() is one kind of line.
#include "agent_channel/control_log.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace shoal::agent_channel {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string field(const char* name, const std::string& value) {
  return std::string(" ") + name + "=" + value;
}
std::string field(const char* name, double value) { return field(name, number(value)); }
std::string field(const char* name, std::int64_t value) {
  return field(name, std::to_string(value));
}
std::string field(const char* name, ReplicaId id) { return field(name, to_string(id)); }

// Free text comes last.
std::string detail(const std::string& text) { return text.empty() ? "" : ": " + text; }

}  // namespace

void ControlLog::heard(const ToTrainer& command) {
  const MutexLock lock(mutex_);
  std::visit([this](const auto& one) SHOAL_REQUIRES(mutex_) { note(one); }, command);
}

void ControlLog::said(const FromTrainer& message) {
  const MutexLock lock(mutex_);
  std::visit([this](const auto& one) SHOAL_REQUIRES(mutex_) { note(one); }, message);
}

void ControlLog::line(LogLevel level, const std::string& text) {
  write_(std::string(to_string(level)) + ": " + text);
}

void ControlLog::note(const LoadReplica& load) {
  const Assign& assign = load.assign;
  every_step_ = assign.spec.sync.algorithm == SyncAlgorithm::kDdp;
  members_.clear();
  std::string text =
      "loads" + field("replica", assign.replica) + field("job", to_string(assign.job)) +
      field("stage", std::int64_t{assign.stage}) +
      field("state_from", to_string(assign.source.kind)) + field("round", assign.source.key.round);
  if (assign.source.kind == SourceKind::kPeer) text += field("source", assign.source.replica);
  line(LogLevel::kInfo, text);
}

void ControlLog::note(const OpenRound& round) {
  line(of_round(), "round_open" + field("round", round.key.round) +
                       field("from_step", round.from_step.count()) +
                       field("to_step", round.to_step.count()) +
                       field("sequences", count_sequences(round.leases)));
}

void ControlLog::note(const CloseRound& round) {
  line(LogLevel::kInfo, "round_closing" + field("round", round.key.round));
}

void ControlLog::note(const CommitRound& commit) {
  line(of_round(), "round_committed" + field("round", commit.key.round) +
                       field("attempt", std::int64_t{commit.attempt}) +
                       field("outer_lr", commit.outer_lr));
  if (!commit.last) note(commit.next);
}

void ControlLog::note(const AbortRound& abort) {
  line(LogLevel::kWarning, "round_aborted" + field("round", abort.key.round) +
                               field("reason", to_string(abort.reason)));
  note(abort.next);
}

void ControlLog::note(const ResumeAt& resume) {
  line(LogLevel::kWarning,
       "resumes" + field("round", resume.key.round) + field("epoch", resume.key.epoch));
}

void ControlLog::note(const PipelineView& view) {
  std::vector<ReplicaId> members, gone;
  for (const PipelineMember& member : view.members) members.push_back(member.replica);
  std::sort(members.begin(), members.end());
  std::set_difference(members_.begin(), members_.end(), members.begin(), members.end(),
                      std::back_inserter(gone));
  for (const ReplicaId id : gone) {
    line(LogLevel::kWarning, "peer_gone" + field("peer", id) + field("view", view.number));
  }
  line(LogLevel::kInfo, "view" + field("number", view.number) +
                            field("members", static_cast<std::int64_t>(members.size())));
  members_ = std::move(members);
}

void ControlLog::note(const Release& release) {
  line(LogLevel::kInfo, "released" + field("replica", release.replica));
}

void ControlLog::note(const WriteCheckpointTo& write) {
  line(LogLevel::kInfo, "checkpoint_due" +
                            field("checkpoint", to_string(write.command.checkpoint)) +
                            field("round", write.command.key.round));
}

void ControlLog::note(const Loaded& loaded) {
  line(LogLevel::kInfo, "loaded" + field("replica", loaded.replica) +
                            field("round", loaded.key.round) +
                            field("parameters", loaded.value_count));
}

void ControlLog::note(const ReplicaFailed& failed) {
  line(LogLevel::kError, "failed" + field("replica", failed.replica) +
                             field("failure", to_string(failed.failure)) + detail(failed.detail));
}

void ControlLog::note(const RoundReport& report) {
  const bool sound = report.nonfinite == 0;
  line(sound ? of_round() : LogLevel::kWarning,
       "round_trained" + field("round", report.key.round) + field("steps", report.steps.count()) +
           field("tokens", report.tokens.count()) + field("train_loss", report.train_loss) +
           field("norm", report.norm) + field("nonfinite", report.nonfinite) +
           field("compute_s", report.compute_s));
}

void ControlLog::note(const Vote& vote) {
  std::string text =
      "reduced" + field("round", vote.key.round) + field("attempt", std::int64_t{vote.attempt}) +
      field("sent_bytes", vote.stats.sent.count()) +
      field("received_bytes", vote.stats.received.count()) + field("seconds", vote.stats.reduce_s);
  for (const ReplicaId replica : vote.seen.excluded) text += field("excluded", replica);
  line(of_round(), text);
}

void ControlLog::note(const ReduceFailed& failed) {
  std::string text = "reduce_failed" + field("round", failed.key.round) +
                     field("attempt", std::int64_t{failed.attempt}) +
                     field("failure", to_string(failed.failure));
  if (failed.lost) text += field("lost_peer", failed.lost);
  line(LogLevel::kWarning, text + detail(failed.detail));
}

void ControlLog::note(const CopiesHeld& held) {
  for (const HeldCopy& copy : held.copies) {
    line(LogLevel::kInfo, "copy_held" + field("copy", copy.copy) + field("round", copy.key.round));
  }
}

void ControlLog::note(const Evaluated& evaluated) {
  const std::int64_t tokens = evaluated.tokens.count();
  std::string text = "evaluated" + field("round", evaluated.key.round) + field("tokens", tokens);
  if (tokens > 0) text += field("loss", evaluated.loss_sum / static_cast<double>(tokens));
  line(of_round(), text);
}

void ControlLog::note(const CheckpointReady& ready) {
  line(LogLevel::kInfo, "checkpoint_written" + field("checkpoint", to_string(ready.checkpoint)) +
                            field("round", ready.key.round));
}

void ControlLog::note(const CheckpointFailed& failed) {
  line(LogLevel::kWarning, "checkpoint_failed" + field("checkpoint", to_string(failed.checkpoint)) +
                               detail(failed.detail));
}

}  // namespace shoal::agent_channel
