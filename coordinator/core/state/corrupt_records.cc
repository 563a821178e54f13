#include "coordinator/core/state/corrupt_records.h"

#include <algorithm>
#include <limits>

#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

// Sorted, disjoint, none empty, all below `end`.
bool is_ledger(const std::vector<DataLease>& runs, std::int64_t end) {
  std::int64_t at = 0;
  for (const DataLease& run : runs) {
    if (run.first < at || run.count <= 0 || run.count > end - run.first) return false;
    at = run.first + run.count;
  }
  return true;
}

bool is_cut(const std::vector<JobStage>& stages, const JobSpec& spec) {
  std::int64_t end = 0;
  for (const JobStage& stage : stages) {
    if (stage.units.first != end || stage.units.last <= stage.units.first) return false;
    end = stage.units.last;
  }
  return stages.empty() || end == static_cast<std::int64_t>(spec.model.layers) + 2;
}

std::string why_bad_progress(const JobRecord& job) {
  const auto within = [](std::int64_t value) {
    return value >= 0 && value < std::numeric_limits<std::int64_t>::max() / 2;
  };
  if (job.id.n > kIdMax) return "its id is beyond all that were given out";
  if (!within(job.epoch) || !within(job.committed_round)) return "its epoch or round";
  if (job.committed_step.n < 0 || job.committed_step > job.spec.train.steps) {
    return "committed_step " + std::to_string(job.committed_step.n) + " of " +
           std::to_string(job.spec.train.steps.n) + " steps";
  }
  if (!within(job.committed_tokens.n)) return "committed_tokens";
  if (!within(job.next_sequence)) return "next_sequence";
  if (!is_ledger(job.returned, job.next_sequence)) {
    return "returned sequences that overlap or were never leased";
  }
  return is_cut(job.stages, job.spec) ? "" : "stages that do not cover the model";
}

// The leases of the open round: with what was returned, each sequence once.
std::string why_bad_leases(const State& state, const JobRecord& job) {
  std::vector<DataLease> all = job.returned;
  const RoundKey open{job.id, job.epoch, job.committed_round + 1};
  for (const auto& [key, contribution] : state.contributions) {
    if (key.first != open) continue;
    all.insert(all.end(), contribution.leases.begin(), contribution.leases.end());
  }
  std::sort(all.begin(), all.end());
  std::erase_if(all, [](const DataLease& run) { return run.count == 0; });
  return is_ledger(all, job.next_sequence) ? "" : "sequences that are leased twice or never were";
}

std::string why_bad_rounds(const State& state, const JobRecord& job) {
  const auto stages = static_cast<StageIndex>(job.stages.size());
  for (const auto& [key, round] : state.rounds) {
    if (key.job != job.id) continue;
    const std::string name = "round " + std::to_string(key.round);
    if (round.from_step.n < 0 || round.from_step > round.to_step) return name + ": its steps";
    if (round.reduces.empty()) return name + ": it averages nothing";
  }
  for (const auto& [key, contribution] : state.contributions) {
    if (key.first.job != job.id) continue;
    const auto reduces = state.rounds.at(key.first).reduces.size();
    const auto index = reduce_index(contribution);
    if (contribution.stage < 0 || contribution.stage >= stages || index < 0 ||
        static_cast<std::size_t>(index) >= reduces) {
      return to_string(key.second) + ": the stage or group of its contribution";
    }
  }
  return "";
}

std::string why_bad_replicas(const State& state, const JobRecord& job) {
  const auto stages = static_cast<StageIndex>(job.stages.size());
  for (const auto& [id, replica] : state.replicas) {
    const bool fits = replica.stage >= 0 && replica.stage < stages && id.n <= kIdMax;
    if (replica.job == job.id && !fits) return to_string(id) + ": its stage";
  }
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job != job.id) continue;
    const bool fits = !checkpoint.parts.empty() && checkpoint.next_sequence >= 0 &&
                      is_ledger(checkpoint.returned, checkpoint.next_sequence);
    if (!fits) return to_string(id) + ": its parts or its ledger";
  }
  return "";
}

template <typename Map>
std::uint64_t highest_id(const Map& map) {
  std::uint64_t highest = 0;
  for (const auto& [id, record] : map) {
    if (id.n <= kIdMax) highest = std::max(highest, id.n);
  }
  return highest;
}

void take_back(Transaction& tx, std::uint64_t CounterRecord::*next, std::uint64_t to,
               const char* what) {
  const std::uint64_t was = tx.state().counters.*next;
  if (was <= kIdMax && (was >= to || to > kIdMax)) return;
  tx.counters().*next = to;
  tx.event(Severity::kError, event_kind::kRecordCorrupt, {},
           std::string("the next id of ") + what + " was " + std::to_string(was) +
               ", which no coordinator has given out; the next one is " + std::to_string(to));
}

void fail_silently(Transaction& tx, ReplicaId id, const std::string& detail) {
  ReplicaRecord& replica = tx.replica(id);
  replica.state = ReplicaState::kFailed;
  replica.detail = detail;
  tx.drop_replica(id);
}

}  // namespace

void mend_records(Transaction& tx) {
  // Ended replicas and deleted checkpoints are not in memory: their ids are left out with a gap.
  constexpr std::uint64_t kGap = std::uint64_t{1} << 32;
  const State& state = tx.state();
  take_back(tx, &CounterRecord::next_job, highest_id(state.jobs) + 1, "jobs");
  take_back(tx, &CounterRecord::next_agent, highest_id(state.agents) + 1, "agents");
  const auto beyond = [](std::uint64_t next) { return next > kIdMax; };
  if (beyond(state.counters.next_replica)) {
    take_back(tx, &CounterRecord::next_replica, highest_id(state.replicas) + kGap, "replicas");
  }
  if (beyond(state.counters.next_checkpoint)) {
    take_back(tx, &CounterRecord::next_checkpoint, highest_id(state.checkpoints) + kGap,
              "checkpoints");
  }
  std::vector<ReplicaId> lost;
  for (const auto& [id, replica] : state.replicas) {
    if (!state.jobs.contains(replica.job) || !state.agents.contains(replica.agent)) {
      lost.push_back(id);
    }
  }
  for (const ReplicaId id : lost) {
    const ReplicaRecord replica = state.replicas.at(id);
    tx.event(Severity::kError, event_kind::kRecordCorrupt, {},
             to_string(id) + " of " + to_string(replica.job) + " on " + to_string(replica.agent) +
                 " is dropped: the database does not have both of them");
    fail_silently(tx, id, "the database does not have its job and its agent");
  }
}

void set_aside(Transaction& tx, JobId id) {
  std::vector<ReplicaId> replicas;
  for (const auto& [replica, record] : tx.state().replicas) {
    if (record.job == id) replicas.push_back(replica);
  }
  std::vector<RoundKey> rounds;
  for (const auto& [key, record] : tx.state().rounds) {
    if (key.job == id) rounds.push_back(key);
  }
  for (const ReplicaId replica : replicas) fail_silently(tx, replica, "its job has a bad record");
  for (const RoundKey& key : rounds) tx.drop_round(key);
  JobRecord& job = tx.job(id);
  job.next_sequence = 0;
  job.returned.clear();
}

std::string why_corrupt(const State& state, const JobRecord& job) {
  for (const auto& why : {why_bad_progress(job), why_bad_rounds(state, job),
                          why_bad_leases(state, job), why_bad_replicas(state, job)}) {
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace shoal::coordinator
