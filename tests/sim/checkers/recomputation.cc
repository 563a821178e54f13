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
    const ReplicaId first = c.plan.members.front().replica;
    first_[{c.plan.key, c.plan.attempt, c.replica}] = first;
    Attempt& attempt = attempts_[{c.plan.key, c.plan.attempt, first}];
    attempt.plan = c.plan;
    attempt.in_group = outer_opt::averages_in_groups(c.spec.sync);
    attempt.vectors[c.replica] = as_sent(c);
    note_momentum(c, attempt.momentum);
    const RoundKey oldest{c.plan.key.job, c.plan.key.lineage, c.plan.key.round - 1};
    forget_before(oldest, attempts_);
    forget_before(oldest, first_);
  }

  void averaged(const Averaged& a) override {
    const auto first = first_.find({a.key, a.attempt, a.replica});
    if (first == first_.end()) return;
    attempts_.at({a.key, a.attempt, first->second})
        .averages[a.digest]
        .assign(a.average.begin(), a.average.end());
  }

  void outer_stepped(const OuterStepped& s) override {
    if (s.spec.sync.algorithm == SyncAlgorithm::kAsync) return delayed(s);
    if (outer_opt::averages_in_groups(s.spec.sync)) return step_in_group(s);
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
      if (momentum != s.momentum[i] || anchor != s.anchor[i]) return wrong_step(s, i);
    }
  }

 private:
  void wrong_step(const OuterStepped& s, std::size_t value) {
    violated(to_string(s.replica) + ": outer step of " + to_text(s.key) + " is wrong at value " +
             std::to_string(value));
  }

  // Between two renewals of momentum a plain step; with one, a step of Nesterov's.
  void delayed(const OuterStepped& s) {
    const float lr = static_cast<float>(s.options.lr);
    const float beta = static_cast<float>(s.options.momentum);
    for (std::size_t i = 0; i < s.average.size(); ++i) {
      const float part = static_cast<float>(s.terms.share) * s.average[i];
      const float sum = s.momentum_before[i] + part;
      const float pushed = beta * sum;
      const float direction = s.terms.refresh ? part + pushed : part;
      const float move = lr * direction;
      const float anchor = s.anchor_before[i] - move;
      const float kept = s.terms.refresh ? pushed : sum;
      if (kept != s.momentum[i] || anchor != s.anchor[i]) return wrong_step(s, i);
    }
  }

  // The pull is 1.
  void step_in_group(const OuterStepped& s) {
    const float beta = static_cast<float>(s.options.momentum);
    for (std::size_t i = 0; i < s.average.size(); ++i) {
      const float towards = s.average[i] - s.anchor_before[i];
      const float kept = beta * s.momentum_before[i];
      const float delta = kept + towards;
      const float anchor = s.anchor_before[i] + delta;
      if (delta != s.momentum[i] || anchor != s.anchor[i]) return wrong_step(s, i);
    }
  }

  static std::vector<std::size_t> values_in(const outer_opt::Fragment& fragment) {
    std::vector<std::size_t> values;
    for (const outer_opt::ValueRange& range : fragment) {
      for (std::int64_t i = 0; i < range.count; ++i) {
        values.push_back(static_cast<std::size_t>(range.first + i));
      }
    }
    return values;
  }

  struct Attempt {
    ReducePlan plan;
    std::map<ReplicaId, std::vector<float>> vectors;
    std::map<Digest, std::vector<float>> averages;
    std::vector<float> momentum;  // of the owners of parts, when it is sharded
    bool in_group = false;        // clip factors are in what was sent

    // What the owner of value i makes of an average: the outer step, or nothing.
    double outcome(double average, std::size_t i) const {
      if (!plan.owner_step) return average;
      const auto& [lr, beta] = plan.owner_step->outer;
      return lr * ((1 + beta) * average + beta * beta * static_cast<double>(momentum[i]));
    }
  };

  static void note_momentum(const Contributed& c, std::vector<float>& all) {
    all.resize(static_cast<std::size_t>(c.plan.value_count));
    for (const ReduceMember& member : c.plan.members) {
      if (member.replica != c.replica || c.momentum.empty()) continue;
      std::copy(c.momentum.begin(), c.momentum.end(), all.begin() + member.part_first);
    }
  }

  using Name = std::tuple<RoundKey, std::int32_t, ReplicaId>;  // of an attempt, by a member

  template <typename Map>
  static void forget_before(const RoundKey& oldest, Map& map) {
    map.erase(map.lower_bound({RoundKey{oldest.job, 0, 0}, 0, {}}),
              map.lower_bound({oldest, 0, {}}));
  }

  void committed(const RoundRecord& round, const Tables& tables) override {
    for (std::size_t reduce = 0; reduce < round.stages.size(); ++reduce) {
      if (round.stages[reduce].given_up) continue;
      check_average(round, static_cast<coordinator::ReduceIndex>(reduce), tables);
    }
  }

  // The attempt of a reduce that was committed, as one of its members saw it.
  const Attempt* attempt_of(const RoundRecord& round, coordinator::ReduceIndex reduce,
                            const Tables& tables) const {
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      if (coordinator::reduce_index(it->second) != reduce) continue;
      const std::int32_t number = stage_of(round, reduce).attempt;
      const auto first = first_.find({round.key, number, it->second.replica});
      if (first != first_.end()) return &attempts_.at({round.key, number, first->second});
    }
    return nullptr;
  }

  void check_average(const RoundRecord& round, coordinator::ReduceIndex index,
                     const Tables& tables) {
    const coordinator::RoundStage& reduce = stage_of(round, index);
    const std::string what = to_text(round.key) + " reduce " + std::to_string(index) + " attempt " +
                             std::to_string(reduce.attempt);
    const Attempt* found = attempt_of(round, index, tables);
    if (found == nullptr) return violated(what + " committed, but nobody reduced");
    const Attempt& attempt = *found;
    const auto average = attempt.averages.find(reduce.average);
    if (average == attempt.averages.end()) return violated(what + " committed an unseen average");
    const auto n = static_cast<std::size_t>(attempt.plan.value_count);
    const bool sparse = attempt.plan.codec == CodecKind::kSparse2;
    double largest = 0, total = 0;
    std::vector<double> sum(n, 0.0), weights(n, 0.0);
    for (const ReduceMember& member : attempt.plan.members) {
      const auto contribution = tables.contributions.find({round.key, member.replica});
      const bool counts = contribution != tables.contributions.end() && member.weight > 0 &&
                          contribution->second.state == ContributionState::kCommitted;
      if (!counts) continue;
      const auto vector = attempt.vectors.find(member.replica);
      if (vector == attempt.vectors.end() || vector->second.size() != n) {
        return violated(to_string(member.replica) + " counts in " + what + " without a vector");
      }
      total += member.weight;
      for (std::size_t i = 0; i < n; ++i) {
        const auto value = static_cast<double>(vector->second[i]);
        sum[i] += member.weight * (attempt.in_group ? 1 : member.clip_factor) * value;
        weights[i] += sparse && value == 0 ? 0 : member.weight;
        largest = std::max(largest, std::fabs(value));
      }
    }
    if (total <= 0) return;  // the quorum checker's business
    const double tolerance = rounding(attempt, largest) + 1e-12;
    if (attempt.plan.aggregator != Aggregator::kMean) {
      return check_range(attempt, average->second, tolerance, what);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = attempt.outcome(weights[i] > 0 ? sum[i] / weights[i] : 0, i);
      if (std::fabs(static_cast<double>(average->second[i]) - mean) > tolerance) {
        return violated("the average of " + what + " is off at value " + std::to_string(i));
      }
    }
  }

  // A robust average lies between the smallest and the largest contribution to each value.
  void check_range(const Attempt& attempt, const std::vector<float>& average, double tolerance,
                   const std::string& what) {
    for (std::size_t i = 0; i < average.size(); ++i) {
      double least = INFINITY, most = -INFINITY;
      for (const ReduceMember& member : attempt.plan.members) {
        const auto vector = attempt.vectors.find(member.replica);
        if (vector == attempt.vectors.end() || vector->second.size() != average.size()) continue;
        const double value = member.clip_factor * static_cast<double>(vector->second.at(i));
        least = std::min(least, value);
        most = std::max(most, value);
      }
      least = attempt.outcome(least, i), most = attempt.outcome(most, i);
      const auto got = static_cast<double>(average[i]);
      if (got < least - tolerance || got > most + tolerance) {
        return violated("the average of " + what + " is out of range at value " +
                        std::to_string(i));
      }
    }
  }

  static double rounding(const Attempt& attempt, double largest) {
    return attempt.plan.owner_step ? step_rounding(attempt, largest)
                                   : rounding(attempt.plan) * largest;
  }

  // An owner step is taken with averages of rounded contributions and rounded itself.
  static double step_rounding(const Attempt& attempt, double largest) {
    const auto& [lr, beta] = attempt.plan.owner_step->outer;
    double momentum = 0;
    for (const float value : attempt.momentum) {
      momentum = std::max(momentum, std::fabs(static_cast<double>(value)));
    }
    const double bound = outer_opt::codec(attempt.plan.codec).error_bound();
    const double step = lr * ((1 + beta) * largest + beta * beta * momentum);
    return 1.01 * bound * (lr * (1 + beta) * largest * (1 + bound) + step) + 1e-5 * step;
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

  std::map<Name, Attempt> attempts_;  // by the first member of the plan
  std::map<Name, ReplicaId> first_;   // it, by each member
};

}  // namespace

std::unique_ptr<Checker> make_recomputation(const Checker::Context& context) {
  return std::make_unique<Recomputation>(context);
}

}  // namespace shoal::sim
