#include "coordinator/core/rounds/lineup.h"

#include <algorithm>

#include "coordinator/core/replicas/reducers.h"
#include "coordinator/core/rounds/links.h"

namespace shoal::coordinator {
namespace {

outer_opt::TopologyChoice choose_for(const JobRecord& job,
                                     const std::vector<outer_opt::LinkedMember>& links) {
  if (job.spec.sync.algorithm() == SyncAlgorithm::kNone) return {};  // nobody to speak to
  return outer_opt::choose_topology(job.spec.sync, links);
}

// Those without a part have nothing to do.
void leave_out_idle_reducers(Lineup& lineup) {
  const std::vector<double> shares = outer_opt::part_shares(lineup.links);
  for (std::size_t i = shares.size(); i-- > 0;) {
    if (!lineup.links[i].reducer || shares[i] > 0) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    lineup.members.erase(lineup.members.begin() + at);
    lineup.links.erase(lineup.links.begin() + at);
  }
}

void put_in_order(Lineup& lineup) {
  if (lineup.choice.topology != Topology::kRing) return;
  const Lineup before = lineup;
  lineup.members.clear();
  lineup.links.clear();
  for (const std::size_t at : outer_opt::ring_order(before.links)) {
    lineup.members.push_back(before.members[at]);
    lineup.links.push_back(before.links[at]);
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

Lineup line_up(const State& state, Instant now, JobId job, StageIndex stage,
               std::vector<ReplicaId> training) {
  const std::size_t count = training.size();
  Lineup lineup;
  lineup.members = std::move(training);
  const std::vector<ReplicaId> reducers = serving_reducers(state, job, stage);
  lineup.members.insert(lineup.members.end(), reducers.begin(), reducers.end());
  lineup.links = links_of(state, now, lineup.members);
  for (std::size_t i = count; i < lineup.links.size(); ++i) lineup.links[i].reducer = true;
  lineup.choice = choose_for(state.jobs.at(job), lineup.links);
  leave_out_idle_reducers(lineup);
  put_in_order(lineup);
  const CodecKind codec = state.jobs.at(job).spec.sync.codec();
  lineup.frame_values = outer_opt::frame_values_for(codec, lineup.links);
  lineup.entropy_coding = outer_opt::pays_entropy_coding(codec, lineup.links);
  return lineup;
}

void cut_parts(ReducePlan& plan, const Lineup& lineup) {
  if (plan.topology == Topology::kAllgather) {
    for (ReduceMember& member : plan.members) member.part_first = member.part_count = 0;
  } else if (plan.topology == Topology::kRing) {
    assign_parts(plan, std::vector<double>(lineup.links.size(), 1.0));
  } else {
    assign_parts(plan, plan.owner_step ? shares_with_backup(lineup.links)
                                       : outer_opt::part_shares(lineup.links));
  }
}

}  // namespace shoal::coordinator
