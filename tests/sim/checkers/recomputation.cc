// The numbers are right, not only equal. The weighted mean of the contributions that a commit
// counts, computed here in double from what the trainers put in, must be the committed average up
// to the codec's rounding; a contribution that was excluded from a part may be in the first frames
// of it, and never counts. What an owner averages falsely is off, but not where an audit confirmed
// it. Every outer step is done again here from its definition and must give the same bits; that of
// ddp, an AdamW step, the same numbers except for their rounding.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/round/groups.h"
#include "replica/core/learning_rate.h"
#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"
#include "tests/sim/checkers/fragment_values.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::RejectReason;
using coordinator::RoundRecord;

class Recomputation final : public ReduceChecker {
 public:
  using ReduceChecker::ReduceChecker;
  const char* name() const override { return "recomputation"; }

  void contributed(const Contributed& c) override {
    const ReplicaId first = c.plan.members.front().replica;
    first_[{c.plan.key, c.plan.attempt, c.replica}] = first;
    Attempt& attempt = attempts_[{c.plan.key, c.plan.attempt, first}];
    attempt.plan = c.plan;
    const bool alone = c.spec.sync.algorithm == SyncAlgorithm::kNone && c.plan.members.size() == 1;
    attempt.unclipped = alone;
    attempt.vectors[c.replica] = as_sent(c);
    if (outer_opt::averages_in_groups(c.spec.sync)) {
      attempt.centers[c.replica].assign(c.anchor.begin(), c.anchor.end());
    }
    note_momentum(c, attempt.momentum);
    const RoundKey oldest{c.plan.key.job, c.plan.key.epoch, c.plan.key.round - 1};
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

  void excluded(const Excluded& l) override {
    const auto it = attempts_.find({l.plan.key, l.plan.attempt, l.plan.members.front().replica});
    if (it == attempts_.end()) return;
    it->second.excluded[l.owner] = {l.members.begin(), l.members.end()};
  }

  void lied(const Lied& l) override {
    if (l.how == Fault::kFalseAverage) false_owners_.insert({l.key, l.replica});
  }

  void outer_stepped(const OuterStepped& s) override {
    if (outer_opt::averages_in_groups(s.spec.sync)) return step_in_group(s);
    switch (s.spec.sync.algorithm) {
      case SyncAlgorithm::kNone:
        return step_alone(s);
      case SyncAlgorithm::kDdp:
        return adam_step(s);
      case SyncAlgorithm::kAsync:
        return delayed(s);
      case SyncAlgorithm::kDiloco:
      case SyncAlgorithm::kLocalSgd:
        return optimized(s);
    }
  }

 private:
  void wrong_step(const OuterStepped& s, std::size_t value) {
    violated(to_string(s.replica) + ": outer step of " + to_text(s.commit.key) +
             " is wrong at value " + std::to_string(value));
  }

  void optimized(const OuterStepped& s) {
    switch (s.spec.sync.outer.method) {
      case OuterMethod::kNesterov:
        return momentum_step(s, true);
      case OuterMethod::kSgd:
        return momentum_step(s, false);
      case OuterMethod::kAdam:
        return outer_adam_step(s);
    }
  }

  static const std::vector<float>& momentum_in(const replica::OuterState& state) {
    return vector_of(state.vectors, kMomentum[0]);
  }

  // `looks_ahead`: Nesterov's.
  void momentum_step(const OuterStepped& s, bool looks_ahead) {
    const auto& before = momentum_in(s.before);
    const auto& after = momentum_in(s.after);
    const float lr = static_cast<float>(s.commit.outer_lr);
    const float beta = static_cast<float>(s.spec.sync.outer.momentum);
    for (std::size_t k = 0; const std::size_t i : values_in(s.fragment)) {
      const float average = s.average[k++];
      const float decayed = beta * before[i];
      const float momentum = decayed + average;
      const float ahead = beta * momentum;
      const float direction = looks_ahead ? average + ahead : momentum;
      const float move = lr * direction;
      const float anchor = s.before.anchor[i] - move;
      if (momentum != after[i] || anchor != s.after.anchor[i]) return wrong_step(s, i);
    }
  }

  // FedAdam in double, from its definition: near, as the product rounds to fp32 at every operation.
  void outer_adam_step(const OuterStepped& s) {
    const auto& m_before = vector_of(s.before.vectors, "adam_m");
    const auto& v_before = vector_of(s.before.vectors, "adam_v");
    const auto& m_after = vector_of(s.after.vectors, "adam_m");
    const auto& v_after = vector_of(s.after.vectors, "adam_v");
    const OuterSpec outer = s.spec.sync.outer;
    const auto t = static_cast<double>((s.commit.key.round - 1) / s.spec.sync.fragments + 1);
    for (std::size_t k = 0; const std::size_t i : values_in(s.fragment)) {
      const double d = s.average[k++];
      const double kept_m = outer.beta1 * double{m_before[i]}, new_m = (1 - outer.beta1) * d;
      const double m = kept_m + new_m;
      const double v = outer.beta2 * double{v_before[i]} + (1 - outer.beta2) * d * d;
      const double root = std::sqrt(v / (1 - std::pow(outer.beta2, t))) + outer.eps;
      const double move = s.commit.outer_lr * m / (1 - std::pow(outer.beta1, t)) / root;
      const double anchor = double{s.before.anchor[i]} - move;
      const bool near =
          std::fabs(double{m_after[i]} - m) <=
              1e-5 * (std::fabs(kept_m) + std::fabs(new_m)) + 1e-12 &&
          std::fabs(double{v_after[i]} - v) <= 1e-5 * (1e-9 + v) &&
          std::fabs(double{s.after.anchor[i]} - anchor) <= 1e-5 * (1 + std::fabs(anchor));
      if (!near) return wrong_step(s, i);
    }
  }

  // While one takes over from another there are two, and they average what they trained.
  void step_alone(const OuterStepped& s) {
    for (std::size_t i = 0; i < s.average.size(); ++i) {
      const float wanted = s.members > 1 ? s.before.anchor[i] - s.average[i] : s.average[i];
      if (s.after.anchor[i] != wanted) return wrong_step(s, i);
    }
  }

  void delayed(const OuterStepped& s) {
    const auto& before = momentum_in(s.before);
    const auto& after = momentum_in(s.after);
    const float lr = static_cast<float>(s.commit.outer_lr);
    const float decay = static_cast<float>(s.commit.decay);
    const float push = static_cast<float>(s.commit.push);
    for (std::size_t i = 0; i < s.average.size(); ++i) {
      const float part = static_cast<float>(s.commit.share) * s.average[i];
      const float sum = before[i] + part;
      const float pushed = push * sum;
      const float direction = part + pushed;
      const float move = lr * direction;
      const float anchor = s.before.anchor[i] - move;
      const float kept = decay * sum;
      if (kept != after[i] || anchor != s.after.anchor[i]) return wrong_step(s, i);
    }
  }

  // The pull is 1.
  void step_in_group(const OuterStepped& s) {
    const auto& before = momentum_in(s.before);
    const auto& after = momentum_in(s.after);
    const float beta = static_cast<float>(s.spec.sync.outer.momentum);
    for (std::size_t i = 0; i < s.average.size(); ++i) {
      const float towards = s.average[i] - s.before.anchor[i];
      const float kept = beta * before[i];
      const float delta = kept + towards;
      const float anchor = s.before.anchor[i] + delta;
      if (delta != after[i] || anchor != s.after.anchor[i]) return wrong_step(s, i);
    }
  }

  // AdamW in double, from its definition: near, as the product rounds to fp32 at every operation.
  void adam_step(const OuterStepped& s) {
    const auto& m_before = vector_of(s.before.vectors, replica::kSharedMoments[0]);
    const auto& v_before = vector_of(s.before.vectors, replica::kSharedMoments[1]);
    const auto& m_after = vector_of(s.after.vectors, replica::kSharedMoments[0]);
    const auto& v_after = vector_of(s.after.vectors, replica::kSharedMoments[1]);
    const TrainSpec& train = s.spec.train;
    const auto step = static_cast<double>(s.commit.key.round);
    const double lr = replica::learning_rate(train, Steps(s.commit.key.round - 1));
    double squares = 0;
    for (const float value : s.average) squares += double{value} * double{value};
    const double norm = std::sqrt(squares);
    const double scale = train.clip > 0 && norm > train.clip ? train.clip / norm : 1;
    for (std::size_t i = 0; i < s.average.size(); ++i) {
      const double g = scale * double{s.average[i]};
      const double kept_m = train.beta1 * double{m_before[i]}, new_m = (1 - train.beta1) * g;
      const double m = kept_m + new_m;
      const double v = train.beta2 * double{v_before[i]} + (1 - train.beta2) * g * g;
      const double root = std::sqrt(v / (1 - std::pow(train.beta2, step))) + replica::kAdamEps;
      const double kept = double{s.before.anchor[i]} * (1 - lr * train.weight_decay);
      const double anchor = kept - lr * m / (1 - std::pow(train.beta1, step)) / root;
      const double size = std::fabs(kept_m) + std::fabs(new_m);
      const bool near = std::fabs(double{m_after[i]} - m) <= 1e-5 * size + 1e-12 &&
                        std::fabs(double{v_after[i]} - v) <= 1e-5 * (1e-9 + v) &&
                        std::fabs(double{s.after.anchor[i]} - anchor) <= 1e-5;
      if (!near) return wrong_step(s, i);
    }
  }

  struct Attempt {
    ReducePlan plan;
    std::map<ReplicaId, std::vector<float>> vectors;
    std::map<Digest, std::vector<float>> averages;
    std::map<ReplicaId, std::set<ReplicaId>> excluded;  // by owners that are done
    std::vector<float> momentum;                      // of the owners of parts, when it is sharded
    std::map<ReplicaId, std::vector<float>> centers;  // in a group: the anchors of its members
    bool unclipped = false;                           // nobody clips
    std::vector<AuditedRange> confirmed;

    // What the owner of a part pulls clipped members towards.
    double center(const ReduceMember& owner, std::size_t i) const {
      const auto own = centers.find(owner.replica);
      return own == centers.end() ? 0 : static_cast<double>(own->second.at(i));
    }
    double clip_factor(const ReduceMember& member) const {
      return unclipped ? 1 : member.clip_factor;
    }

    // What the owner of value i makes of an average: the outer step, or nothing.
    double outcome(double average, std::size_t i) const {
      if (!plan.owner_step) return average;
      const auto& [lr, beta] = plan.owner_step->outer;
      return lr * ((1 + beta) * average + beta * beta * static_cast<double>(momentum[i]));
    }
  };

  // Is a contribution in the average of one part?
  enum class Presence { kOut, kIn, kEither };
  struct Term {
    const ReduceMember* member;
    const std::vector<float>* vector;
    bool may_miss = false;
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

  void reduced(const RoundRecord& round, coordinator::ReduceIndex index,
               const Tables& tables) override {
    const coordinator::Reduce& reduce = reduce_at(round, index);
    const std::string what = to_text(round.key) + " reduce " + std::to_string(index) + " attempt " +
                             std::to_string(averaging_attempt(reduce));
    const ReplicaId* first = find_by_member(first_, round, index, tables);
    if (first == nullptr) return violated(what + " committed, but nobody reduced");
    Attempt& attempt = attempts_.at({round.key, averaging_attempt(reduce), *first});
    const auto average = attempt.averages.find(reduce.average);
    if (average == attempt.averages.end()) return violated(what + " committed an unseen average");
    if (!anybody_counts(attempt, tables)) return;  // the quorum checker's business
    attempt.confirmed = reduce.audited;
    const double tolerance = rounding(attempt, largest_value(attempt)) + 1e-12;
    if (attempt.plan.topology == Topology::kAllgather) {  // where nobody owns a part
      const ReduceMember whole{{}, "", 0, 1, 0, attempt.plan.value_count};
      return check_part(attempt, whole, tables, average->second, tolerance, what);
    }
    for (const ReduceMember& owner : attempt.plan.members) {
      if (owner.part_count == 0) continue;
      check_part(attempt, owner, tables, average->second, tolerance, what);
    }
  }

  static bool anybody_counts(const Attempt& attempt, const Tables& tables) {
    return std::ranges::any_of(attempt.plan.members, [&](const ReduceMember& member) {
      const auto contribution = tables.contributions.find({attempt.plan.key, member.replica});
      return member.weight > 0 && contribution != tables.contributions.end() &&
             contribution->second.state == ContributionState::kCommitted;
    });
  }

  // What the commit says of the contribution must be what the owner of the part did with it.
  static Presence presence(const Attempt& attempt, const ReduceMember& owner,
                           const ReduceMember& member, const Tables& tables) {
    const auto contribution = tables.contributions.find({attempt.plan.key, member.replica});
    if (contribution == tables.contributions.end() || member.weight <= 0) return Presence::kOut;
    if (contribution->second.state == ContributionState::kCommitted) return Presence::kIn;
    if (contribution->second.reject_reason != RejectReason::kExcluded) return Presence::kOut;
    const auto without = attempt.excluded.find(owner.replica);
    const bool may_miss =
        without == attempt.excluded.end() || without->second.contains(member.replica);
    return may_miss ? Presence::kEither : Presence::kIn;
  }

  void check_part(const Attempt& attempt, const ReduceMember& owner, const Tables& tables,
                  const std::vector<float>& average, double tolerance, const std::string& what) {
    std::vector<Term> terms;
    for (const ReduceMember& member : attempt.plan.members) {
      const Presence here = presence(attempt, owner, member, tables);
      const auto vector = attempt.vectors.find(member.replica);
      const bool there = vector != attempt.vectors.end() && vector->second.size() == average.size();
      const auto without = attempt.excluded.find(owner.replica);
      const bool counted_without = here == Presence::kIn && without != attempt.excluded.end() &&
                                   without->second.contains(member.replica);
      if (counted_without || (here == Presence::kIn && !there)) {
        return violated(to_string(member.replica) + " counts in " + what +
                        (there ? " and was excluded" : " without a vector"));
      }
      if (here == Presence::kOut || !there) continue;
      terms.push_back({&member, &vector->second, here == Presence::kEither});
    }
    if (attempt.plan.aggregator != Aggregator::kMean) {
      return check_range(attempt, owner, average, tolerance, what);
    }
    for (std::int64_t i = owner.part_first; i < owner.part_first + owner.part_count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (is_false(attempt, owner, i)) continue;
      const double center = attempt.center(owner, at);
      if (is_mean(attempt, terms, at, center, static_cast<double>(average[at]), tolerance))
        continue;
      return violated("the average of " + what + " is off at value " + std::to_string(i));
    }
  }

  // Whether nobody has looked at what a false owner made of this value.
  bool is_false(const Attempt& attempt, const ReduceMember& owner, std::int64_t value) const {
    if (!false_owners_.contains({attempt.plan.key, owner.replica})) return false;
    return std::ranges::none_of(attempt.confirmed, [&](const AuditedRange& range) {
      return value >= range.first && value < range.first + range.count;
    });
  }

  // Whether `average` is the mean of all terms that must be in it and any of those that may be
  // missing.
  static bool is_mean(const Attempt& attempt, const std::vector<Term>& terms, std::size_t at,
                      double center, double average, double tolerance) {
    const auto open = static_cast<unsigned>(std::ranges::count_if(terms, &Term::may_miss));
    SHOAL_CHECK(open < 16);
    for (unsigned missing = 0; missing < 1u << open; ++missing) {
      const double expected = attempt.outcome(mean(attempt, terms, at, center, missing), at);
      if (std::fabs(average - expected) <= tolerance) return true;
    }
    return false;
  }

  // Without those of the terms that may be missing whose bit is set.
  static double mean(const Attempt& attempt, const std::vector<Term>& terms, std::size_t at,
                     double center, unsigned missing) {
    const bool sparse = attempt.plan.codec == CodecKind::kSparse2;
    double sum = 0, weights = 0;
    for (unsigned bit = 1; const Term& term : terms) {
      const bool skip = term.may_miss && (missing & bit) != 0;
      if (term.may_miss) bit <<= 1;
      if (skip) continue;
      const auto value = static_cast<double>((*term.vector)[at]);
      const ReduceMember& member = *term.member;
      sum += member.weight * (center + attempt.clip_factor(member) * (value - center));
      weights += sparse && value == 0 ? 0 : member.weight;
    }
    return weights > 0 ? sum / weights : 0;
  }

  static double largest_value(const Attempt& attempt) {
    double largest = 0;
    for (const auto& [replica, vector] : attempt.vectors) {
      for (const float value : vector) largest = std::max(largest, std::fabs(double{value}));
    }
    return largest;
  }

  // A robust average lies between the smallest and the largest contribution to each value.
  void check_range(const Attempt& attempt, const ReduceMember& owner,
                   const std::vector<float>& average, double tolerance, const std::string& what) {
    const auto end = static_cast<std::size_t>(owner.part_first + owner.part_count);
    for (auto i = static_cast<std::size_t>(owner.part_first); i < end; ++i) {
      if (is_false(attempt, owner, static_cast<std::int64_t>(i))) continue;
      double least = INFINITY, most = -INFINITY;
      for (const ReduceMember& member : attempt.plan.members) {
        const auto vector = attempt.vectors.find(member.replica);
        if (vector == attempt.vectors.end() || vector->second.size() != average.size()) continue;
        const double value =
            attempt.clip_factor(member) * static_cast<double>(vector->second.at(i));
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
  std::set<std::pair<RoundKey, ReplicaId>> false_owners_;
};

}  // namespace

std::unique_ptr<Checker> make_recomputation(const Checker::Context& context) {
  return std::make_unique<Recomputation>(context);
}

}  // namespace shoal::sim
