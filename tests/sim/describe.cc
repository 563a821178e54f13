// Messages and records as short lines: see describe.h.
#include "tests/sim/describe.h"

#include "tests/sim/checker.h"

namespace shoal::sim {
namespace {

std::string text(const Digest& digest) { return to_hex(digest).substr(0, 6); }
std::string number(std::int64_t n) { return std::to_string(n); }

std::string text(const DataLease& lease) {
  return "[" + number(lease.first) + "+" + number(lease.count) + ")";
}

std::string text(const OpenRound& o) {
  std::string leases;
  for (const DataLease& lease : o.leases) leases += " " + text(lease);
  return to_text(o.key) + " steps " + number(o.from_step.count()) + ".." +
         number(o.to_step.count()) + leases;
}

struct Describe {
  std::string operator()(const Heartbeat&) { return {}; }
  std::string operator()(const Progress&) { return {}; }
  std::string operator()(const LoadProgress&) { return {}; }
  std::string operator()(const PipelineStats&) { return {}; }
  std::string operator()(const PortRefusals&) { return {}; }
  std::string operator()(const DeviceMeasured&) { return "device measured"; }
  std::string operator()(const MeasureBlock& m) { return "measure a block on " + number(m.device); }
  std::string operator()(const BlockMeasured& m) {
    return "block on " + number(m.device) + " " +
           (m.error.empty() ? number(m.times.block.ns) + " ns" : m.error);
  }
  std::string operator()(const MeasureLine&) { return "measure the line"; }
  std::string operator()(const LineMeasured&) { return "line measured"; }
  std::string operator()(const TrainerReady&) { return "ready"; }
  std::string operator()(const Goodbye& m) { return "goodbye"; }
  std::string operator()(const Loaded& m) {
    return "loaded " + to_string(m.replica) + " " + to_text(m.key) + " " + text(m.anchor);
  }
  std::string operator()(const ReplicaFailed& m) {
    return "failed " + to_string(m.replica) + " " + to_string(m.failure) + ": " + m.detail;
  }
  std::string operator()(const RoundReport& m) {
    return "report " + to_text(m.key) + " steps " + number(m.steps.count()) + " tokens " +
           number(m.tokens.count()) + (m.nonfinite > 0 ? " NON-FINITE" : "");
  }
  std::string operator()(const Vote& m) {
    return "vote " + to_text(m.key) + " attempt " + number(m.attempt) + " " + text(m.average);
  }
  std::string operator()(const ReduceFailed& m) {
    return "reduce failed " + to_text(m.key) + " attempt " + number(m.attempt) + " " +
           to_string(m.failure) + (m.lost ? " lost " + to_string(m.lost) : "");
  }
  std::string operator()(const Applied& m) {
    return "applied " + to_text(m.key) + " " + text(m.anchor);
  }
  std::string operator()(const Evaluated& m) {
    return "evaluated " + to_text(m.key) + " " + number(m.slice.slice) + "/" +
           number(m.slice.slices);
  }
  std::string operator()(const CopiesHeld& m) {
    std::string line = "copies held";
    for (const HeldCopy& copy : m.copies)
      line += " " + to_string(copy.copy) + "@" + to_text(copy.key);
    return line;
  }
  std::string operator()(const CheckpointWritten& m) {
    return "written " + to_string(m.checkpoint) + " " + to_text(m.key);
  }
  std::string operator()(const CheckpointReady& m) {
    return "checkpoint ready " + to_string(m.checkpoint) + " " + to_text(m.key);
  }
  std::string operator()(const CheckpointFailed& m) {
    return "failed " + to_string(m.checkpoint) + ": " + m.detail;
  }
  template <typename Body>
  std::string operator()(const FromReplica<Body>& m) {
    return to_string(m.replica) + " " + (*this)(m.body);
  }

  std::string operator()(const Welcome& m) {
    std::string line = "welcome " + to_string(m.agent) + " #" +
                       number(static_cast<std::int64_t>(m.incarnation.n)) + " keep";
    for (const ReplicaId replica : m.keep) line += " " + to_string(replica);
    return line;
  }
  std::string operator()(const Refused& m) { return "refused: " + m.error.message; }
  std::string operator()(const Assign& m) {
    return "assign " + to_string(m.replica) + " stage " + number(m.stage) + " device " +
           number(m.device) + " from " + to_string(m.source.kind) + " " + to_text(m.source.key);
  }
  std::string operator()(const Release& m) {
    return "release " + to_string(m.replica) + " " + to_string(m.reason);
  }
  std::string operator()(const PipelineView& m) {
    return "view " + number(m.number) + " of " +
           number(static_cast<std::int64_t>(m.members.size()));
  }
  std::string operator()(const OpenRound& m) { return "open " + text(m); }
  std::string operator()(const CloseRound& m) { return "close " + to_text(m.key); }
  std::string operator()(const ReducePlan& m) {
    std::string line = "reduce " + to_text(m.key) + " attempt " + number(m.attempt) + " with";
    for (const ReduceMember& member : m.members) {
      line += " " + to_string(member.replica) + (member.weight > 0 ? "" : "(0)");
    }
    if (!m.owner_step) return line;
    for (const MomentumHolder& holder : m.owner_step->holders) {
      line += ", " + to_string(holder.replica) + " keeps [" + number(holder.first) + "+" +
              number(holder.count) + ")";
    }
    return line;
  }
  std::string operator()(const CommitRound& m) {
    return "commit " + to_text(m.key) + " attempt " + number(m.attempt) + " " + text(m.average) +
           (m.last ? " last" : " then " + text(m.next));
  }
  std::string operator()(const AbortRound& m) {
    return "abort " + to_text(m.key) + " " + to_string(m.reason) + " then " + text(m.next);
  }
  std::string operator()(const ResumeAt& m) { return "resume at " + to_text(m.key); }
  std::string operator()(const KeepRecord& m) {
    return "keep the record of " + to_text(m.record.key);
  }
  std::string operator()(const Evaluate& m) { return "evaluate " + to_text(m.key); }
  std::string operator()(const KeepCopies& m) {
    std::string line = "keep copies";
    for (const StageCopy& copy : m.copies) {
      line += " " + to_string(copy.copy) + " of stage " + number(copy.stage) + " " +
              to_text(copy.key) + " from " + number(std::ssize(copy.sources));
    }
    return line;
  }
  std::string operator()(const WriteCheckpoint& m) {
    return "write " + to_string(m.checkpoint) + " " + to_text(m.key);
  }
  std::string operator()(const Relays& m) { return "relays: " + number(std::ssize(m.addresses)); }
  std::string operator()(const ForgetCheckpoint& m) { return "forget " + to_string(m.checkpoint); }
  template <typename Body>
  std::string operator()(const ToReplica<Body>& m) {
    return to_string(m.replica) + " " + (*this)(m.body);
  }

  std::string operator()(const coordinator::CounterRecord&) { return {}; }
  std::string operator()(const coordinator::EventRecord& r) {
    return "event " + r.kind + ": " + r.message;
  }
  std::string operator()(const coordinator::SubmittedText&) { return {}; }
  std::string operator()(const coordinator::ForgottenAgent& r) {
    return to_string(r.id) + " forgotten";
  }
  std::string operator()(const coordinator::LinkRecord& r) {
    return "link " + to_string(r.from) + " " + to_string(r.to);
  }
  std::string operator()(const coordinator::JobRecord& r) {
    return to_string(r.id) + " " + to_string(r.phase) + " (" + to_string(r.reason) + ") round " +
           number(r.epoch) + "/" + number(r.committed_round);
  }
  std::string operator()(const coordinator::AgentRecord& r) {
    return to_string(r.id) + " " + to_string(r.state);
  }
  std::string operator()(const coordinator::ReplicaRecord& r) {
    return to_string(r.id) + " of " + to_string(r.agent) + " " + to_string(r.state) +
           (r.state == coordinator::ReplicaState::kFailed
                ? std::string(" ") + to_string(r.failure) + ": " + r.detail
                : std::string());
  }
  std::string operator()(const coordinator::RoundRecord& r) {
    std::string line = "round " + to_text(r.key) + " " + to_string(r.state) + " attempt";
    for (const auto& reduce : r.reduces) line += " " + number(reduce.attempt);
    return line;
  }
  std::string operator()(const coordinator::ContributionRecord& r) {
    return "contribution " + to_text(r.key) + " " + to_string(r.replica) + " " + to_string(r.state);
  }
  std::string operator()(const coordinator::CheckpointRecord& r) {
    return to_string(r.id) + " " + to_text(r.key) + " " + to_string(r.state) +
           (r.final ? " final" : "");
  }
};

}  // namespace

std::string describe(const FromAgent& message) { return std::visit(Describe{}, message); }
std::string describe(const ToAgent& message) { return std::visit(Describe{}, message); }
std::string describe(const FromTrainer& message) { return std::visit(Describe{}, message); }
std::string describe(const coordinator::Record& record) { return std::visit(Describe{}, record); }

}  // namespace shoal::sim
