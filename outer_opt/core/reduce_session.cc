// The checks and small sums that sessions have in common.
#include "outer_opt/core/reduce_session.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace shoal::outer_opt {
namespace {

Status check_member(const ReduceMember& member) {
  const std::string name = to_string(member.replica);
  if (!(member.weight >= 0) || !std::isfinite(member.weight)) {
    return refused_plan("members.weight",
                        name + " has the weight " + std::to_string(member.weight));
  }
  if (!(member.clip_factor > 0 && member.clip_factor <= 1)) {
    return refused_plan("members.clip_factor", name + " has " + std::to_string(member.clip_factor));
  }
  return {};
}

}  // namespace

Error refused_plan(std::string field, std::string message) {
  return Error{Code::kValidation, std::move(message), std::move(field),
               "the coordinator and this replica disagree; the attempt is planned again"};
}

Status check_plan_members(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                          std::size_t average_count) {
  if (frame_values < 1 || frame_values > kFrameValuesMax) {
    return refused_plan("frame_values",
                        "must be in [1, 1048576], got " + std::to_string(frame_values));
  }
  if (plan.value_count < 0 || average_count != static_cast<std::size_t>(plan.value_count)) {
    return refused_plan("value_count", "the plan has " + std::to_string(plan.value_count) +
                                           " values, this replica " +
                                           std::to_string(average_count));
  }
  int found = 0;
  for (const ReduceMember& member : plan.members) {
    if (Status s = check_member(member); !s.ok()) return s;
    found += member.replica == self ? 1 : 0;
  }
  if (found > 1) return refused_plan("members", to_string(self) + " is there twice");
  if (found == 0) return refused_plan("members", to_string(self) + " is not one of them");
  return {};
}

int index_of(const ReducePlan& plan, ReplicaId self) {
  const auto at = std::ranges::find(plan.members, self, &ReduceMember::replica);
  SHOAL_CHECK(at != plan.members.end());
  return static_cast<int>(at - plan.members.begin());
}

std::vector<double> weight_shares(const ReducePlan& plan) {
  double heaviest = 0;
  for (const ReduceMember& m : plan.members) heaviest = std::max(heaviest, m.weight);
  std::vector<double> shares;
  for (const ReduceMember& m : plan.members) {
    shares.push_back(heaviest > 0 ? m.weight / heaviest : 0);
  }
  return shares;
}

SessionFailure failure_of(const ReducePlan& plan, const Work& work, const Error& error) {
  if (work.peer < 0 || error.code == Code::kInternal) {
    return {ReduceFailure::kInternal, -1, error.message};
  }
  const std::string name = to_string(plan.members[work.peer].replica);
  return {ReduceFailure::kBadFrame, work.peer, name + ": " + error.message};
}

}  // namespace shoal::outer_opt
