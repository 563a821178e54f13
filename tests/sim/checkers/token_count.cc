// Tokens are counted once. A committed round counts the tokens of its committed contributions
// (those of groups that gave up are kept) and the job the sum of its rounds; the sequences that
// those replicas really trained (seen at their reports) were not in any round that this epoch
// committed before, and were leased to them for this round.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"
#include "tests/sim/checkers/continued.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionRecord;
using coordinator::ContributionState;
using coordinator::RoundRecord;

class TokenCount final : public CommitChecker {
 public:
  using CommitChecker::CommitChecker;
  const char* name() const override { return "token_count"; }

  void reported(const Reported& r) override {
    reports_[{r.report.key, r.replica}].insert_or_assign(r.report.steps, r.sequences);
  }

  // An epoch begins with what the job was after any of its rounds; its tokens, and what is to be
  // given out again, tell after which.
  void durable(const Record& record, const Tables& before) override {
    CommitChecker::durable(record, before);
    const auto* job = std::get_if<coordinator::JobRecord>(&record);
    if (job == nullptr || !epochs_.insert({job->id, job->epoch}).second) return;
    begun_.push_back(*job);
  }

  void written(const Tables& tables) override {
    for (const coordinator::JobRecord& job : std::exchange(begun_, {})) begin_epoch(job, tables);
    CommitChecker::written(tables);
  }

  void restored(const Tables& tables, bool forgotten) override {
    CommitChecker::restored(tables, forgotten);
    begun_.clear();
  }

 private:
  // What a round added to the one before, and all tokens until then.
  struct Counted {
    RoundKey before;
    std::vector<DataLease> trained;
    std::int64_t tokens = 0;
  };
  struct Sequences {
    RoundKey until;  // the round after which these are trained
    std::set<std::int64_t> trained;
  };

  void begin_epoch(const coordinator::JobRecord& job, const Tables& tables) {
    const RoundKey here{job.id, job.epoch, job.committed_round};
    const std::vector<DataLease> left = left_to_train(job, tables);
    const auto same = std::ranges::find_if(after_, [&](const auto& entry) {
      return entry.first.job == here.job && entry.first.round == here.round &&
             entry.second.tokens == job.committed_tokens.count() &&
             trains_none_again(left, entry.first);
    });
    if (same == after_.end() && takes_over(job, left, tables)) return;
    const bool at_the_start = here.round == 0 && job.committed_tokens.count() == 0;
    if (same == after_.end() && !at_the_start) {
      return violated(to_text(here) + " begins with " +
                      std::to_string(job.committed_tokens.count()) + " tokens, as after no round " +
                      std::to_string(here.round));
    }
    after_[here] = at_the_start ? Counted{} : Counted{same->first, {}, same->second.tokens};
  }

  // It begins with a cut of another job, and trains nothing that is in there.
  bool takes_over(const coordinator::JobRecord& job, const std::vector<DataLease>& left,
                  const Tables& tables) {
    const coordinator::CheckpointRecord* cut = continued_cut(job, tables);
    const auto known = cut == nullptr ? after_.end() : after_.find(cut->key);
    if (known == after_.end() || job.committed_round != cut->key.round) return false;
    if (known->second.tokens != job.committed_tokens.count()) return false;
    if (!trains_none_again(left, cut->key)) return false;
    after_[{job.id, job.epoch, job.committed_round}] = {cut->key, {}, known->second.tokens};
    return true;
  }

  // Also what its first round has given out in the same batch.
  static std::vector<DataLease> left_to_train(const coordinator::JobRecord& job,
                                              const Tables& tables) {
    std::vector<DataLease> left = job.returned;
    left.push_back({job.next_sequence, kNoEnd});
    const RoundKey next{job.id, job.epoch, job.committed_round + 1};
    for (auto it = tables.contributions.lower_bound({next, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == next; ++it) {
      left.insert(left.end(), it->second.leases.begin(), it->second.leases.end());
    }
    return left;
  }

  void committed(const RoundRecord& round, const Tables& tables) override {
    const RoundKey before{round.key.job, round.key.epoch, round.key.round - 1};
    Counted now{before, {}, after_[before].tokens};
    Sequences& sequences = all_until(before);
    std::int64_t tokens = 0;
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      const ContributionRecord& contribution = it->second;
      const bool counts = contribution.state == ContributionState::kCommitted ||
                          contribution.state == ContributionState::kKept;
      if (!counts) continue;
      if (contribution.stage != 0) continue;  // only routers draw
      tokens += contribution.report.drawn.count();
      take(contribution, tables.jobs.at(round.key.job), sequences.trained, now.trained);
    }
    if (round.tokens.count() != tokens) {
      violated(to_text(round.key) + " counts " + std::to_string(round.tokens.count()) +
               " tokens, its contributions " + std::to_string(tokens));
    }
    now.tokens += tokens;
    const coordinator::JobRecord& job = tables.jobs.at(round.key.job);
    if (job.committed_round == round.key.round && job.committed_tokens.count() != now.tokens) {
      violated(to_string(job.id) + " counts " + std::to_string(job.committed_tokens.count()) +
               " tokens, its rounds " + std::to_string(now.tokens));
    }
    after_[round.key] = std::move(now);
    sequences.until = round.key;
  }

  bool trains_none_again(const std::vector<DataLease>& left, const RoundKey& round) const {
    return std::ranges::none_of(trained_until(round), [&](std::int64_t sequence) {
      return std::ranges::any_of(left, [sequence](const DataLease& lease) {
        return sequence >= lease.first && sequence - lease.first < lease.count;
      });
    });
  }

  Sequences& all_until(const RoundKey& round) {
    Sequences& all = sequences_[round.job];
    if (all.until != round) all = {round, trained_until(round)};
    return all;
  }

  std::set<std::int64_t> trained_until(const RoundKey& round) const {
    std::set<std::int64_t> all;
    for (auto it = after_.find(round); it != after_.end(); it = after_.find(it->second.before)) {
      for (const DataLease& lease : it->second.trained) {
        for (std::int64_t i = 0; i < lease.count; ++i) all.insert(lease.first + i);
      }
    }
    return all;
  }

  void take(const ContributionRecord& contribution, const coordinator::JobRecord& job,
            std::set<std::int64_t>& all, std::vector<DataLease>& trained) {
    const std::string who = to_string(contribution.replica) + " in " + to_text(contribution.key);
    const auto reports = reports_.find({contribution.key, contribution.replica});
    if (reports == reports_.end() || !reports->second.contains(contribution.report.steps)) {
      return violated(who + " counts without a report of its trainer");
    }
    std::int64_t count = 0;
    for (const DataLease& lease : reports->second.at(contribution.report.steps)) {
      trained.push_back(lease);
      count += lease.count;
      for (std::int64_t s = lease.first; s < lease.first + lease.count; ++s) {
        if (!all.insert(s).second) {
          return violated(who + " counts sequence " + std::to_string(s) + " a second time");
        }
        if (!leased(contribution, s)) {
          return violated(who + " trained sequence " + std::to_string(s) + ", not leased to it");
        }
      }
    }
    if (count * job.spec.model.context != contribution.report.drawn.count()) {
      violated(who + " reports " + std::to_string(contribution.report.drawn.count()) +
               " tokens of " + std::to_string(count) + " sequences");
    }
  }

  static bool leased(const ContributionRecord& contribution, std::int64_t sequence) {
    return std::any_of(contribution.leases.begin(), contribution.leases.end(),
                       [sequence](const DataLease& lease) {
                         return sequence >= lease.first && sequence < lease.first + lease.count;
                       });
  }

  std::map<std::pair<RoundKey, ReplicaId>, std::map<Steps, std::vector<DataLease>>> reports_;
  static constexpr std::int64_t kNoEnd = INT64_MAX;

  std::set<std::pair<JobId, std::int64_t>> epochs_;
  std::vector<coordinator::JobRecord> begun_;  // epochs of the batch that is being written
  std::map<RoundKey, Counted> after_;
  std::map<JobId, Sequences> sequences_;  // of the newest committed round
};

}  // namespace

std::unique_ptr<Checker> make_token_count(const Checker::Context& context) {
  return std::make_unique<TokenCount>(context);
}

}  // namespace shoal::sim
