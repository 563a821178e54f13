// Rounds of the small model in which two members lie: the last one reports a norm that is the
// median of the others' and sends -10 times its pseudo-gradient, the one before it averages its
// part with -10 times its own contribution as often as all others together. Reduces are those of
// the product (outer_opt/core/reduce), and so are the decisions of who is believed
// (coordinator/core/decisions): what a job makes of a reduce, without a coordinator. A
// member that would be quarantined is out for the rest of the run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "outer_opt/core/reduce/reduce_session.h"

namespace shoal::bench {

struct LiarSetting {
  bool lie = true;      // false: all are honest
  bool verify = true;   // false: as it was before sums and audits
  double audit = 0.02;  // share of the frames
  CodecKind codec = CodecKind::kInt8;
  std::int64_t frame_values = 256;
};

// The rounds in which the liars were found; 0: never.
struct Named {
  std::int64_t norm = 0, average = 0;  // the round
  std::int64_t others = 0;             // honest members that were blamed
};

class VerifiedRounds {
 public:
  VerifiedRounds(const LiarSetting& setting, std::size_t members, std::uint64_t seed);

  // The average that round `round` commits; zeros when none is left to believe.
  std::vector<float> average(std::int64_t round,
                             const std::vector<std::span<const float>>& pseudo_gradients);

  const Named& named() const { return named_; }

 private:
  struct Attempt;
  std::size_t norm_liar() const { return members_ - 1; }
  std::size_t false_owner() const { return members_ - 2; }
  ReducePlan plan_of(std::int64_t round, const Attempt& attempt) const;
  void falsify(const ReducePlan& plan, std::vector<std::vector<float>>& inputs) const;
  std::vector<float> first_average(const ReducePlan& plan, Attempt& attempt);
  bool norms_hold(const ReducePlan& plan, Attempt& attempt);
  bool audits_hold(const ReducePlan& plan, Attempt& attempt);
  std::vector<ReplicaId> disputed(const ReducePlan& plan, const std::vector<AuditedRange>& audited,
                                  const Attempt& attempt) const;
  void blame(std::size_t member, std::int64_t round, bool for_average);

  const LiarSetting setting_;
  const std::size_t members_;
  const std::uint64_t seed_;
  std::vector<int> violations_;
  std::vector<bool> out_;  // quarantined
  Named named_;
};

}  // namespace shoal::bench
