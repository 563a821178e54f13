// With fragments a round changes the values of its own fragment and no other, and which one that is
// follows from its number; only the round that ends the job changes all. With overlap a result
// becomes local exactly sync.overlap_steps behind the boundary, unless the replica was told to
// stop, and there in the proportion of sync.blend, elsewhere not at all.
#include <vector>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

class Streaming final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "streaming"; }

  void outer_stepped(const OuterStepped& s) override {
    const std::int64_t fragments = s.spec.sync.fragments;
    const std::string who = to_string(s.replica) + " in " + to_text(s.commit.key);
    const bool all = fragments == 1 || s.number == 0;
    if (!all && s.number != (s.commit.key.round - 1) % fragments + 1) {
      return violated(who + " averages fragment " + std::to_string(s.number));
    }
    const std::vector<bool> inside = members(s.fragment, s.after.anchor.size());
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (inside[i]) continue;
      bool same = s.after.anchor[i] == s.before.anchor[i];
      for (std::size_t v = 0; v < s.after.vectors.size(); ++v) {
        same = same && s.after.vectors[v].values[i] == s.before.vectors[v].values[i];
      }
      if (!same) {
        return violated(who + " changes value " + std::to_string(i) + " of another fragment");
      }
    }
  }

  void adopted(const Adopted& a) override {
    const std::string who = to_string(a.replica) + " in " + to_text(a.key);
    // Less is left of the lease after an abort that added no steps.
    const bool early = a.ahead < a.spec.sync.overlap_steps && !a.stopped && !near_the_end(a);
    if (early || a.ahead > a.spec.sync.overlap_steps) {
      return violated(who + " adopts " + std::to_string(a.ahead.count()) +
                      " steps behind the boundary");
    }
    if (a.spec.sync.eager) return;  // the checker of that looks at the values
    const auto kept = static_cast<float>(a.spec.sync.blend), taken = 1.0f - kept;
    const std::vector<bool> inside = members(a.fragment, a.local.size());
    for (std::size_t i = 0; i < inside.size(); ++i) {
      const float mine = kept * a.local_before[i], theirs = taken * a.anchor[i];
      const float wanted = !inside[i] ? a.local_before[i] : kept == 0 ? a.anchor[i] : mine + theirs;
      const bool same = a.local[i] == wanted || (a.local[i] != a.local[i] && wanted != wanted);
      if (!same) return violated(who + " adopts another value at " + std::to_string(i));
    }
  }

 private:
  static std::vector<bool> members(const outer_opt::Fragment& fragment, std::size_t values) {
    std::vector<bool> inside(values, false);
    for (const outer_opt::ValueRange& range : fragment) {
      for (std::int64_t i = 0; i < range.count; ++i) {
        inside[static_cast<std::size_t>(range.first + i)] = true;
      }
    }
    return inside;
  }

  // There the schedule ends before the overlap does.
  static bool near_the_end(const Adopted& a) {
    return a.at + a.spec.sync.overlap_steps - a.ahead > a.spec.train.steps;
  }
};

}  // namespace

std::unique_ptr<Checker> make_streaming(const Checker::Context& context) {
  return std::make_unique<Streaming>(context);
}

}  // namespace shoal::sim
