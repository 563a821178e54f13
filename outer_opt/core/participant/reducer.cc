#include "outer_opt/core/participant/reducer.h"

#include <algorithm>
#include <utility>

#include "base/field_digest.h"

namespace shoal::outer_opt {
namespace {

bool names(const ReducePlan& plan, ReplicaId reducer) {
  return std::ranges::any_of(
      plan.members, [&](const ReduceMember& m) { return m.replica == reducer && m.reducer; });
}

std::pair<RoundKey, std::int32_t> order_of(const ReducePlan& plan) {
  return {plan.key, plan.attempt};
}

}  // namespace

bool Reducer::is_running(const RoundKey& key, std::int32_t attempt) const {
  return plan_ && !answer_ && plan_->key == key && plan_->attempt == attempt;
}

void Reducer::reduce(const ReducePlan& plan, Actions& out) {
  if (!names(plan, self_) || (plan_ && order_of(plan) < order_of(*plan_))) return;
  if (plan_ && order_of(plan) == order_of(*plan_)) {
    if (answer_) std::visit([&](const auto& answer) { out.push_back(Say{answer}); }, *answer_);
    return;
  }
  if (plan_ && !answer_) out.push_back(StopReduce{plan_->attempt});
  plan_ = plan;
  answer_.reset();
  out.push_back(StartReduce{plan, false});
}

void Reducer::reduced(const RoundKey& key, std::int32_t attempt, const ReduceStats& stats,
                      const PartSeen& seen, Actions& out) {
  if (!is_running(key, attempt)) return;
  const Vote done{key, attempt, {}, stats, seen};
  answer_ = done;
  out.push_back(Say{done});
}

void Reducer::reduce_failed(const ReduceFailed& failure, Actions& out) {
  if (!is_running(failure.key, failure.attempt)) return;
  answer_ = failure;
  out.push_back(Say{failure});
}

Digest Reducer::digest() const { return digest_of_fields(*this); }

}  // namespace shoal::outer_opt
