#include "coordinator/service/http/round_tally.h"

#include <algorithm>

namespace shoal::coordinator::rest {

Status RoundTally::begin(Reader& reader) {
  PageRequest page;
  page.limit = 500;
  for (;;) {
    const auto jobs = reader.jobs(page, {});
    if (!jobs.ok()) return jobs.error();
    for (const JobRecord& job : jobs.value().items) {
      jobs_.put(job.id, {job.lineage, job.committed_round, {}});
    }
    if (!jobs.value().next) return Status();
    page.after = *jobs.value().next;
  }
}

// A job that went back to a checkpoint is counted from there: its lineage is another one.
Status RoundTally::count(Reader& reader, const JobRecord& job) {
  Tally& tally = jobs_[job.id];
  const auto is_new = [&](const RoundKey& key) {
    return key.lineage == job.lineage && (tally.lineage != job.lineage || key.round > tally.round);
  };
  PageRequest page;
  page.newest_first = true;
  page.after = job.committed_round + 1;
  bool more = is_new({job.id, job.lineage, job.committed_round}) && job.committed_round > 0;
  for (int counted = 0; more && counted < kRoundsMax; counted += page.limit) {
    const std::int64_t behind =
        job.lineage == tally.lineage ? job.committed_round - tally.round : 500;
    page.limit = static_cast<int>(std::clamp<std::int64_t>(behind, 1, 500));
    const auto rounds = reader.rounds(job.id, page);
    if (!rounds.ok()) return rounds.error();
    for (const RoundRecord& round : rounds.value().items) {
      more = is_new(round.key);
      if (!more) break;
      if (round.state != RoundState::kCommitted || round.key.round == 0) continue;
      if (const Status read = add_round(reader, round.key, tally.counts); !read.ok()) return read;
    }
    if (!rounds.value().next) break;
    page.after = *rounds.value().next;
  }
  tally.lineage = job.lineage;
  tally.round = job.committed_round;
  return Status();
}

Status RoundTally::add_round(Reader& reader, const RoundKey& key, Counts& counts) {
  const auto contributions = reader.contributions(key);
  if (!contributions.ok()) return contributions.error();
  ++counts.committed;
  for (const ContributionRecord& one : contributions.value()) {
    ++counts.contributions[static_cast<std::size_t>(one.state)];
    if (one.state == ContributionState::kRejected)
      ++counts.rejected[static_cast<std::size_t>(one.reject_reason)];
  }
  return Status();
}

RoundTally::Counts RoundTally::of(JobId job) const {
  const Tally* tally = jobs_.find(job);
  return tally == nullptr ? Counts() : tally->counts;
}

}  // namespace shoal::coordinator::rest
