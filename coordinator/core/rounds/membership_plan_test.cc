// Which replicas take part in an attempt, over which lines, and which parts they own.
#include "coordinator/core/rounds/membership_plan.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

// Two replicas of a job with these words report norms of 4 and 2; the plan they get.
struct Reduced : Rig {
  explicit Reduced(const SyncSpec& sync) {
    const auto a = join("a"), b = join("b");
    JobSpec spec = small_job();
    const Steps every = spec.sync.every;
    spec.sync = sync;
    change_sync(spec, [&](SyncSpec& options) { options.every = every; });
    const JobId id = *submit(spec);
    const auto first = load(a), second = load(b);
    wait(seconds(3));
    key = {id, 0, 1};
    report(a, first, key, 4.0);
    report(b, second, key, 2.0);
    plan = last<ToReplica<ReducePlan>>(a)->body;
  }
  const Reduce& stage() const { return state().rounds.at(key).reduces.at(0); }
  RoundKey key;
  ReducePlan plan;
};

TEST(MembershipPlan, TheTopologyOfAnAttemptIsKeptWithItsReason) {
  using outer_opt::TopologyReason;
  const auto with = [](Topology topology) {
    return sync_with([&](SyncSpec& sync) { sync.topology = topology; });
  };
  const Reduced chosen(with(Topology::kAuto));
  EXPECT_EQ(chosen.plan.topology, Topology::kButterfly);
  EXPECT_EQ(chosen.stage().choice.reason, TopologyReason::kFewestHops);
  const Reduced ring(with(Topology::kRing));
  EXPECT_EQ(ring.plan.topology, Topology::kRing);
  EXPECT_EQ(ring.stage().choice.reason, TopologyReason::kAsked);
  EXPECT_EQ(ring.plan.members[1].part_first, ring.plan.members[0].part_count);
}

TEST(MembershipPlan, NobodyOwnsAPartOfAnAllGather) {
  const Reduced sparse(sync_with([](SyncSpec& sync) {
    sync.topology = Topology::kAuto;
    sync.codec = CodecKind::kSparse2;
    sync.outer = {1, 0};
  }));
  EXPECT_EQ(sparse.plan.topology, Topology::kAllgather);
  EXPECT_EQ(sparse.plan.codec, CodecKind::kSparse2);
  for (const ReduceMember& member : sparse.plan.members) EXPECT_EQ(member.part_count, 0);
}

TEST(MembershipPlan, ClippingAndTheAggregatorAreWhatTheJobSays) {
  const Reduced usual{SyncSpec()};
  EXPECT_DOUBLE_EQ(usual.plan.members[0].clip_factor, 0.75);
  EXPECT_EQ(usual.plan.aggregator, Aggregator::kMean);
  const Reduced unclipped(sync_with([](SyncSpec& sync) {
    sync.clip = false;
    sync.aggregator = Aggregator::kCenteredClip;
  }));
  EXPECT_DOUBLE_EQ(unclipped.plan.members[0].clip_factor, 1.0);
  EXPECT_EQ(unclipped.plan.aggregator, Aggregator::kCenteredClip);
}

// 1,000 values among three members.
ReducePlan plan_of_three(Topology topology) {
  ReducePlan plan;
  plan.topology = topology;
  plan.value_count = 1000;
  plan.frame_values = 100;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ReduceMember member;
    member.replica = ReplicaId(id);
    member.part_count = 1;
    plan.members.push_back(member);
  }
  return plan;
}
MembershipPlan membership_of_three() {
  MembershipPlan membership;
  membership.members = {ReplicaId(1), ReplicaId(2), ReplicaId(3)};
  membership.links.resize(3);
  return membership;
}

TEST(CutParts, APartForEverybodyWithoutGaps) {
  for (const Topology topology : {Topology::kRing, Topology::kButterfly}) {
    ReducePlan plan = plan_of_three(topology);
    cut_parts(plan, membership_of_three());
    std::int64_t next = 0;
    for (const ReduceMember& member : plan.members) {
      EXPECT_EQ(member.part_first, next);
      EXPECT_GT(member.part_count, 0);
      next += member.part_count;
    }
    EXPECT_EQ(next, 1000);
  }
}

TEST(CutParts, NobodyHasOneInAnAllGather) {
  ReducePlan plan = plan_of_three(Topology::kAllgather);
  cut_parts(plan, membership_of_three());
  for (const ReduceMember& member : plan.members) EXPECT_EQ(member.part_count, 0);
}

// A line that is worth all others would leave sharded momentum without a backup.
TEST(CutParts, ShardedMomentumHasMoreThanOneOwner) {
  MembershipPlan membership = membership_of_three();
  const auto owners = [&](bool sharded) {
    ReducePlan plan = plan_of_three(Topology::kButterfly);
    if (sharded) plan.owner_step = OwnerStep{};
    cut_parts(plan, membership);
    int count = 0;
    for (const ReduceMember& member : plan.members) count += member.part_count > 0;
    return count;
  };
  EXPECT_EQ(owners(true), 3);
  membership.links[1].reachable = membership.links[2].reachable = false;
  EXPECT_EQ(owners(true), 1) << "nobody else can be one";
}

}  // namespace
}  // namespace shoal::coordinator
