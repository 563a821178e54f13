#include "coordinator/core/rounds/membership_plan.h"

#include <algorithm>

#include "coordinator/core/replicas/reducers.h"
#include "coordinator/core/rounds/links.h"

namespace shoal::coordinator {
namespace {

outer_opt::TopologyChoice choose_for(const JobRecord& job,
                                     const std::vector<outer_opt::LinkedMember>& links) {
  if (job.spec.sync.algorithm == SyncAlgorithm::kNone) return {};  // nobody to speak to
  return outer_opt::choose_topology(job.spec.sync, links);
}

// Reducers without a part have nothing to do.
void exclude_idle_reducers(MembershipPlan& membership) {
  const std::vector<double> shares = outer_opt::part_shares(membership.links);
  for (std::size_t i = shares.size(); i-- > 0;) {
    if (!membership.links[i].reducer || shares[i] > 0) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    membership.members.erase(membership.members.begin() + at);
    membership.links.erase(membership.links.begin() + at);
  }
}

void put_in_order(MembershipPlan& membership) {
  if (membership.choice.topology != Topology::kRing) return;
  const MembershipPlan before = membership;
  membership.members.clear();
  membership.links.clear();
  for (const std::size_t at : outer_opt::ring_order(before.links)) {
    membership.members.push_back(before.members[at]);
    membership.links.push_back(before.links[at]);
  }
}

// Sharded momentum has its backup at another owner: one line that is worth all others would leave
// none.
std::vector<double> shares_with_backup(const std::vector<outer_opt::LinkedMember>& links) {
  std::vector<double> shares = outer_opt::part_shares(links);
  const auto owners = std::count_if(shares.begin(), shares.end(), [](double s) { return s > 0; });
  if (owners > 1) return shares;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i].reachable) shares[i] = 1;
  }
  return shares;
}

}  // namespace

MembershipPlan plan_membership(const State& state, Instant now, JobId job, StageIndex stage,
                               std::vector<ReplicaId> training) {
  const std::size_t count = training.size();
  MembershipPlan membership;
  membership.members = std::move(training);
  const std::vector<ReplicaId> reducers = serving_reducers(state, job, stage);
  membership.members.insert(membership.members.end(), reducers.begin(), reducers.end());
  membership.links = links_of(state, now, membership.members);
  for (std::size_t i = count; i < membership.links.size(); ++i) membership.links[i].reducer = true;
  membership.choice = choose_for(state.jobs.at(job), membership.links);
  exclude_idle_reducers(membership);
  put_in_order(membership);
  const CodecKind codec = state.jobs.at(job).spec.sync.codec;
  membership.frame_values = outer_opt::frame_values_for(codec, membership.links);
  membership.entropy_coding = outer_opt::pays_entropy_coding(codec, membership.links);
  return membership;
}

void cut_parts(ReducePlan& plan, const MembershipPlan& membership) {
  if (plan.topology == Topology::kAllgather) {
    for (ReduceMember& member : plan.members) member.part_first = member.part_count = 0;
  } else if (plan.topology == Topology::kRing) {
    assign_parts(plan, std::vector<double>(membership.links.size(), 1.0));
  } else {
    assign_parts(plan, plan.owner_step ? shares_with_backup(membership.links)
                                       : outer_opt::part_shares(membership.links));
  }
}

}  // namespace shoal::coordinator
