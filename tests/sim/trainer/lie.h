// What a simulated trainer lies about, and for how long: one lie of one replica, in one round. The
// attempts and audits that follow in that round are told the same lie, and what a replica sends is
// not false from an audit on: an owner that got other contributions than the one before it cannot
// be told from one that averages falsely (docs/verification.md, "What is not seen"). A lie that is
// under way is neither replaced nor taken over by the replica that comes next.
#pragma once

#include <optional>

#include "outer_opt/core/round/reduce_plan.h"
#include "tests/sim/faults.h"

namespace shoal::sim {

class Lie {
 public:
  enum class Told { kNo, kBegins, kGoesOn };

  // In the next reduce that allows it. No effect while a lie is under way.
  void intend(Fault how) {
    if (!round_) how_ = how;
  }
  // The round has ended, or the replica.
  void end() { how_.reset(), round_.reset(); }

  bool is_under_way() const { return round_.has_value(); }

  // Whether `how` is told in this reduce. The caller shows a lie that begins.
  Told tell(Fault how, const ReducePlan& plan) {
    if (how_ != how) return Told::kNo;
    if (round_) return *round_ == plan.key ? Told::kGoesOn : Told::kNo;
    if (how == Fault::kFalseNorm && !plan.audited.empty()) return Told::kNo;
    round_ = plan.key;
    return Told::kBegins;
  }

 private:
  std::optional<Fault> how_;
  std::optional<RoundKey> round_;  // from the first reduce on that it was told in
};

}  // namespace shoal::sim
