// What sparse2 did not send is neither lost nor sent twice. Each replica's residual is kept here,
// in the same fp32 operations, from what was seen: it changes when the replica takes the outer step
// of a round to which it contributed, and never before. What it sends in an attempt must be the
// encoding of that residual and its pseudo-gradient.
#include <algorithm>
#include <map>

#include "outer_opt/core/codec/sparse2.h"
#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/lives.h"

namespace shoal::sim {
namespace {

using outer_opt::sparse2_decode;
using outer_opt::sparse2_encode;

class Feedback final : public LifeChecker {
 public:
  using LifeChecker::LifeChecker;
  const char* name() const override { return "feedback"; }

  // Told to continue in another epoch, it still owes what it did not send.
  void state_held(const StateHeld&) override {}

  void contributed(const Contributed& c) override {
    Owed& owed = owed_[c.replica];
    owed.round = c.plan.key;
    owed.left.clear();
    if (c.encoded.empty()) return;
    const std::vector<float> sum = summed(owed.residual, c);
    std::vector<std::byte> encoded(c.encoded.size());
    sparse2_encode(sum, encoded);
    if (!std::ranges::equal(encoded, c.encoded)) {
      return violated(to_string(c.replica) + " sends something else to " + to_text(c.plan.key) +
                      " than its pseudo-gradient and what it owes");
    }
    owed.left = sum;
    std::vector<float> sent(sum.size());
    if (!sparse2_decode(encoded, sent).ok()) return violated("an encoding that cannot be read");
    for (std::size_t i = 0; i < sum.size(); ++i) owed.left[i] = sum[i] - sent[i];
  }

  void outer_stepped(const OuterStepped& s) override {
    const auto owed = owed_.find(s.replica);
    if (owed == owed_.end() || owed->second.round != s.commit.key || owed->second.left.empty())
      return;
    owed->second.residual = std::move(owed->second.left);
    owed->second.left.clear();
  }

 private:
  void begins_anew(ReplicaId replica) override { owed_.erase(replica); }

  struct Owed {
    RoundKey round;
    std::vector<float> residual;  // empty: nothing
    std::vector<float> left;      // the residual if `round` is committed; empty: no contribution
  };

  static std::vector<float> summed(const std::vector<float>& residual, const Contributed& c) {
    const float decay = static_cast<float>(c.spec.sync.feedback);
    std::vector<float> sum(c.pseudo_gradient.begin(), c.pseudo_gradient.end());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float kept = decay * (residual.empty() ? 0.0f : residual[i]);
      sum[i] = kept + sum[i];
    }
    return sum;
  }

  std::map<ReplicaId, Owed> owed_;
};

}  // namespace

std::unique_ptr<Checker> make_feedback(const Checker::Context& context) {
  return std::make_unique<Feedback>(context);
}

}  // namespace shoal::sim
