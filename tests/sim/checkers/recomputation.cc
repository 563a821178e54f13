// The numbers are right, not only equal. The weighted mean of the contributions that a commit
// counts, computed here in double from what the trainers put in, must be the committed average up
// to the codec's rounding. Every outer step is done again here from its definition and must give
// the same bits.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/check.h"
#include "outer_opt/core/codec.h"
#include "outer_opt/core/groups.h"
#include "outer_opt/core/sparse2.h"
#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::RoundRecord;

class Recomputation final : public CommitChecker {
 public:
  using CommitChecker::CommitChecker;
  const char* name() const override { return "recomputation"; }

  void contributed(const Contributed& c) override {
    const RoundKey& key = c.plan.key;
    attempts_[{key, c.plan.attempt, c.replica}] = {
        c.plan, as_sent(c), outer_opt::averages_in_groups(c.spec.sync), {}, {}};
    const RoundKey oldest{key.job, key.lineage, key.round - 1};
    attempts_.erase(attempts_.lower_bound({RoundKey{oldest.job, 0, 0}, 0, {}}),
                    attempts_.lower_bound({oldest, 0, {}}));
  }

  void averaged(const Averaged& a) override {
    const auto it = attempts_.find({a.key, a.attempt, a.replica});
    if (it == attempts_.end()) return;
    it->second.digest = a.digest;
    it->second.average.assign(a.average.begin(), a.average.end());
  }

  void outer_stepped(const OuterStepped& s) override {
    if (outer_opt::averages_in_groups(s.spec.sync)) return check_group_step(s);
    const float lr = static_cast<float>(s.options.lr);
    const float beta = static_cast<float>(s.options.momentum);
    for (std::size_t k = 0; const std::size_t i : values_in(s.fragment)) {
      const float average = s.average[k++];
      const float decayed = beta * s.momentum_before[i];
      const float momentum = decayed + average;
      const float ahead = beta * momentum;
      const float direction = average + ahead;
      const float move = lr * direction;
      const float anchor = s.anchor_before[i] - move;
      if (momentum != s.momentum[i] || anchor != s.anchor[i]) {
        return violated(to_string(s.replica) + ": outer step of " + to_text(s.key) +
                        " is wrong at value " + std::to_string(i));
      }
    }
  }

 private:
  static std::vector<std::size_t> values_in(const outer_opt::Fragment& fragment) {
    std::vector<std::size_t> values;
    for (const outer_opt::ValueRange& range : fragment) {
      for (std::int64_t i = 0; i < range.count; ++i) {
        values.push_back(static_cast<std::size_t>(range.first + i));
      }
    }
    return values;
  }

  // pull is 1.
  void check_group_step(const OuterStepped& s) {
    const float beta = static_cast<float>(s.options.momentum);
    for (std::size_t i = 0; i < s.average.size(); ++i) {
      const float towards = s.average[i] - s.anchor_before[i];
      const float decayed = beta * s.momentum_before[i];
      const float delta = decayed + towards;
      if (delta != s.momentum[i] || s.anchor_before[i] + delta != s.anchor[i]) {
        return violated(to_string(s.replica) + ": the step in its group of " + to_text(s.key) +
                        " is wrong at value " + std::to_string(i));
      }
    }
  }

  struct Attempt {  // of one member
    ReducePlan plan;
    std::vector<float> sent;
    bool in_group = false;  // what is sent is clipped already
    Digest digest;
    std::vector<float> average;
  };

  void committed(const RoundRecord& round, const Tables& tables) override {
    for (std::size_t reduce = 0; reduce < round.stages.size(); ++reduce) {
      if (round.stages[reduce].given_up) continue;
      check_average(round, static_cast<coordinator::ReduceIndex>(reduce), tables);
    }
  }

  const Attempt* attempt_of(const RoundKey& key, std::int32_t attempt, ReplicaId member) const {
    const auto found = attempts_.find({key, attempt, member});
    return found == attempts_.end() ? nullptr : &found->second;
  }

  // One of the members whose average was committed.
  const Attempt* committed_attempt(const RoundRecord& round, coordinator::ReduceIndex reduce,
                                   const Tables& tables) const {
    const coordinator::RoundStage& record = stage_of(round, reduce);
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      if (coordinator::reduce_index(it->second) != reduce) continue;
      const Attempt* attempt = attempt_of(round.key, record.attempt, it->second.replica);
      if (attempt != nullptr && attempt->digest == record.average) return attempt;
    }
    return nullptr;
  }

  void check_average(const RoundRecord& round, coordinator::ReduceIndex reduce,
                     const Tables& tables) {
    const std::string what = to_text(round.key) + " reduce " + std::to_string(reduce) +
                             " attempt " + std::to_string(stage_of(round, reduce).attempt);
    const Attempt* found = committed_attempt(round, reduce, tables);
    if (found == nullptr) return violated(what + " committed an unseen average");
    const Attempt& attempt = *found;
    const auto n = static_cast<std::size_t>(attempt.plan.value_count);
    const bool sparse = attempt.plan.codec == CodecKind::kSparse2;
    double largest = 0, total = 0;
    std::vector<double> sum(n, 0.0), weights(n, 0.0);
    for (const ReduceMember& member : attempt.plan.members) {
      const auto contribution = tables.contributions.find({round.key, member.replica});
      const bool counts = contribution != tables.contributions.end() && member.weight > 0 &&
                          contribution->second.state == ContributionState::kCommitted;
      if (!counts) continue;
      const Attempt* own = attempt_of(round.key, attempt.plan.attempt, member.replica);
      if (own == nullptr || own->sent.size() != n) {
        return violated(to_string(member.replica) + " counts in " + what + " without a vector");
      }
      total += member.weight;
      const double clip = attempt.in_group ? 1 : member.clip_factor;
      for (std::size_t i = 0; i < n; ++i) {
        const auto value = static_cast<double>(own->sent[i]);
        sum[i] += member.weight * clip * value;
        weights[i] += sparse && value == 0 ? 0 : member.weight;
        largest = std::max(largest, std::fabs(value));
      }
    }
    if (total <= 0) return;  // the quorum checker's business
    const double tolerance = rounding(attempt.plan) * largest + 1e-12;
    if (attempt.plan.aggregator != Aggregator::kMean) {
      return check_range(attempt, tolerance, what);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = weights[i] > 0 ? sum[i] / weights[i] : 0;
      if (std::fabs(static_cast<double>(attempt.average[i]) - mean) > tolerance) {
        return violated("the average of " + what + " is off at value " + std::to_string(i));
      }
    }
  }

  // A robust average lies between the smallest and the largest contribution to each value.
  void check_range(const Attempt& attempt, double tolerance, const std::string& what) {
    const std::vector<float>& average = attempt.average;
    for (std::size_t i = 0; i < average.size(); ++i) {
      double least = INFINITY, most = -INFINITY;
      for (const ReduceMember& member : attempt.plan.members) {
        const Attempt* own = attempt_of(attempt.plan.key, attempt.plan.attempt, member.replica);
        if (own == nullptr || own->sent.size() != average.size()) continue;
        const double value = member.clip_factor * static_cast<double>(own->sent.at(i));
        least = std::min(least, value);
        most = std::max(most, value);
      }
      const auto got = static_cast<double>(average[i]);
      if (got < least - tolerance || got > most + tolerance) {
        return violated("the average of " + what + " is out of range at value " +
                        std::to_string(i));
      }
    }
  }

  // Relative to the largest value. In a butterfly a value is rounded on the way to its owner and on
  // the way back. In a ring every hop rounds a sum of up to k values and the errors before it; the
  // owner divides by all weights and rounds once more.
  static double rounding(const ReducePlan& plan) {
    if (plan.codec == CodecKind::kSparse2) return 1e-5;  // what was sent is compared
    const double bound = outer_opt::codec(plan.codec).error_bound();
    if (plan.topology != Topology::kRing) return 2.02 * bound + 1e-5;
    double heaviest = 0, total = 0, error = 0;
    for (const ReduceMember& member : plan.members) {
      heaviest = std::max(heaviest, member.weight);
      total += member.weight;
    }
    for (std::size_t k = 1; k < plan.members.size(); ++k) {
      error += bound * (static_cast<double>(k) + error);
    }
    const double divided = error * heaviest / total;
    return divided + 1.02 * bound * (1 + divided) + 1e-5;
  }

  // What a pseudo-gradient was sent as: itself, or what sparse2 kept of it.
  static std::vector<float> as_sent(const Contributed& c) {
    std::vector<float> sent(c.sent.begin(), c.sent.end());
    if (c.encoded.empty()) return sent;
    SHOAL_CHECK(outer_opt::sparse2_decode(c.encoded, sent).ok());
    return sent;
  }

  std::map<std::tuple<RoundKey, std::int32_t, ReplicaId>, Attempt> attempts_;
};

}  // namespace

std::unique_ptr<Checker> make_recomputation(const Checker::Context& context) {
  return std::make_unique<Recomputation>(context);
}

}  // namespace shoal::sim
