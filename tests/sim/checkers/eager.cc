// An eager step is what its definition gives (outer_opt/core/step/eager.h), computed here in
// double: the outer step with the last average of the fragment, in which the replica's own part is
// replaced by what it has now; nothing where it had no part in one. When the result is adopted,
// local parameters move by what the step was wrong by, after an abort back by the step, and by
// nothing else.
#include <cmath>
#include <map>
#include <utility>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/fragment_values.h"
#include "tests/sim/checkers/lives.h"

namespace shoal::sim {
namespace {

class Eager final : public LifeChecker {
 public:
  using LifeChecker::LifeChecker;
  const char* name() const override { return "eager"; }

  void contributed(const Contributed& c) override {
    if (!c.spec.sync.eager) return;
    Part& part = newest_[c.replica];
    part = {};
    for (const ReduceMember& member : c.plan.members) {
      part.weights += member.weight;
      if (member.replica == c.replica) part.weight = member.weight * member.clip_factor;
    }
    part.values.assign(c.pseudo_gradient.begin(), c.pseudo_gradient.end());
  }

  void outer_stepped(const OuterStepped& s) override {
    if (!s.spec.sync.eager) return;
    const auto newest = newest_.find(s.replica);
    const bool counts = newest != newest_.end() && !newest->second.values.empty();
    if (!counts) {
      last_.erase({s.replica, s.number});
      begun_.erase(s.replica);
      return;
    }
    OuterSpec outer = s.spec.sync.outer;
    outer.lr = s.commit.outer_lr;
    // The estimate is for the next step of the fragment.
    const std::int64_t steps = (s.commit.key.round - 1) / s.spec.sync.fragments + 2;
    last_[{s.replica, s.number}] = {
        newest->second, {s.average.begin(), s.average.end()}, outer, static_cast<double>(steps)};
  }

  void eagerly_begun(const EagerlyBegun& e) override {
    Begun& begun = begun_[e.replica];
    begun.boundary.assign(e.local_before.begin(), e.local_before.end());
    begun.start.assign(e.local.begin(), e.local.end());
    const auto last = last_.find({e.replica, e.number});
    std::vector<double> wanted(e.local_before.begin(), e.local_before.end());
    if (last != last_.end()) put_start(last->second, e, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (near(e.local[i], wanted[i])) continue;
      return violated(to_string(e.replica) + " begins elsewhere than it should behind " +
                      to_text(e.key) + ", at value " + std::to_string(i));
    }
  }

  void taken_back(const TakenBack& t) override {
    if (is_tainted(t.replica)) return;  // what it began with may be what has changed
    const auto found = begun_.find(t.replica);
    if (found == begun_.end()) return violated(to_string(t.replica) + " takes back no step");
    const Begun& begun = found->second;
    for (std::size_t i = 0; i < t.local.size(); ++i) {
      const double back =
          static_cast<double>(begun.boundary[i]) - static_cast<double>(begun.start[i]);
      if (near(t.local[i], static_cast<double>(t.local_before[i]) + back)) continue;
      return violated(to_string(t.replica) + " takes its step back wrongly at value " +
                      std::to_string(i));
    }
  }

  void adopted(const Adopted& a) override {
    if (!a.spec.sync.eager || is_tainted(a.replica)) return;
    const std::string who = to_string(a.replica) + " in " + to_text(a.key);
    const auto begun = begun_.find(a.replica);
    if (begun == begun_.end()) return violated(who + " adopts what it did not begin");
    std::vector<double> wanted(a.local_before.begin(), a.local_before.end());
    for (const std::size_t i : values_in(a.fragment)) {
      wanted[i] += static_cast<double>(a.anchor[i]) - static_cast<double>(begun->second.start[i]);
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (near(a.local[i], wanted[i])) continue;
      return violated(who + " corrects its step wrongly at value " + std::to_string(i));
    }
  }

 private:
  void begins_anew(ReplicaId replica) override {
    newest_.erase(replica);
    begun_.erase(replica);
    std::erase_if(last_, [replica](const auto& entry) { return entry.first.first == replica; });
  }

  struct Part {  // of a replica in an average
    double weight = 0, weights = 0;
    std::vector<float> values;
  };
  struct Last {
    Part own;
    std::vector<float> average;
    OuterSpec outer;
    double step = 0;  // of the estimate, the first one is 1
  };

  struct Begun {  // local parameters
    std::vector<float> boundary, start;
  };

  static bool near(float value, double wanted) {
    const double difference = std::fabs(static_cast<double>(value) - wanted);
    const bool neither = std::isnan(value) && std::isnan(wanted);
    return neither || difference <= 1e-4 * (1 + std::fabs(wanted));
  }

  // The values of the fragment after the step with the estimate.
  static void put_start(const Last& last, const EagerlyBegun& e, std::vector<double>& values) {
    const double share = last.own.weight / last.own.weights;
    for (std::size_t packed = 0; const std::size_t i : values_in(e.fragment)) {
      const double news = static_cast<double>(e.pseudo_gradient[packed]) -
                          static_cast<double>(last.own.values[packed]);
      const double estimate = static_cast<double>(last.average[packed]) + share * news;
      values[i] = static_cast<double>(e.anchor[i]) - move_of(last, e, i, estimate);
      ++packed;
    }
  }

  // By how much the outer step with the estimate moves value i.
  static double move_of(const Last& last, const EagerlyBegun& e, std::size_t i, double estimate) {
    const OuterSpec& outer = last.outer;
    const auto before = [&](std::size_t v) { return double{e.vectors.at(v).values[i]}; };
    switch (outer.method) {
      case OuterMethod::kNesterov: {
        const double momentum = outer.momentum * before(0) + estimate;
        return outer.lr * (estimate + outer.momentum * momentum);
      }
      case OuterMethod::kSgd:
        return outer.lr * (outer.momentum * before(0) + estimate);
      case OuterMethod::kAdam: {
        const double m = outer.beta1 * before(0) + (1 - outer.beta1) * estimate;
        const double v = outer.beta2 * before(1) + (1 - outer.beta2) * estimate * estimate;
        const double root = std::sqrt(v / (1 - std::pow(outer.beta2, last.step)));
        return outer.lr * m / (1 - std::pow(outer.beta1, last.step)) / (root + outer.eps);
      }
    }
    return 0;
  }

  std::map<ReplicaId, Part> newest_;
  std::map<std::pair<ReplicaId, std::int32_t>, Last> last_;  // by fragment
  std::map<ReplicaId, Begun> begun_;
};

}  // namespace

std::unique_ptr<Checker> make_eager(const Checker::Context& context) {
  return std::make_unique<Eager>(context);
}

}  // namespace shoal::sim
