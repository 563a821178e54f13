// Which keys of [sync] apply: the others get their defaults.
#include "job/sync_spec.h"

#include <gtest/gtest.h>

#include "job/job_rules.h"

namespace shoal {
namespace {

// The effective table of a job whose [sync] is `sync`.
SyncSpec effective(const SyncSpec& sync, std::int64_t stages = 1) {
  JobSpec spec;
  spec.sync = sync;
  spec.swarm.stages = stages;
  return effective_sync(spec);
}

TEST(EffectiveSync, DefaultsOfEveryAlgorithmApply) {
  for (const auto& [algorithm, name] : kEnumerators<SyncAlgorithm>) {
    const JobSpec spec = default_spec(algorithm);
    EXPECT_EQ(effective_sync(spec), spec.sync) << name;
  }
}

TEST(EffectiveSync, LocalSgdAndDdpOnlyAverage) {
  for (const SyncAlgorithm algorithm : {SyncAlgorithm::kLocalSgd, SyncAlgorithm::kDdp}) {
    EXPECT_EQ(effective({.algorithm = algorithm, .outer = {0.7, 0.9}}).outer, (OuterSpec{1, 0}));
  }
}

TEST(EffectiveSync, DdpAveragesAtEveryStep) {
  EXPECT_EQ(effective({.algorithm = SyncAlgorithm::kDdp, .every = Steps(7)}).every, Steps(1));
}

TEST(EffectiveSync, NoneKeepsOnlyItsPeriod) {
  const SyncSpec none = effective({.algorithm = SyncAlgorithm::kNone,
                                   .every = Steps(7),
                                   .codec = CodecKind::kFp16,
                                   .clip = false,
                                   .audit = 0.5});
  EXPECT_EQ(none, (SyncSpec{.algorithm = SyncAlgorithm::kNone, .every = Steps(7)}));
}

TEST(EffectiveSync, AnOverlapBlendsOrIsEager) {
  const SyncSpec both{
      .every = Steps(60), .fragments = 3, .overlap_steps = Steps(7), .blend = 0.25, .eager = true};
  EXPECT_TRUE(effective(both).eager);
  EXPECT_EQ(effective(both).blend, 0);
  SyncSpec robust = both;
  robust.aggregator = Aggregator::kTrimmedMean;
  EXPECT_FALSE(effective(robust).eager);
  EXPECT_EQ(effective(robust).blend, 0.25);
}

TEST(EffectiveSync, ASparseCodecGathers) {
  const SyncSpec sparse = effective({.codec = CodecKind::kSparse2, .feedback = 0.5});
  EXPECT_EQ(sparse.topology, Topology::kAllgather);
  EXPECT_EQ(sparse.feedback, 0.5);
  EXPECT_EQ(effective({.feedback = 0.5}).feedback, SyncSpec().feedback) << "of a dense codec";
}

TEST(EffectiveSync, ARoundByTimeIsBoundByAllSteps) {
  const SyncSpec timed = effective({.every = Steps(3), .every_s = 600, .balance = Balance::kSpeed});
  EXPECT_EQ(timed.every_s, 600);
  EXPECT_EQ(timed.every, TrainSpec().steps);
  EXPECT_EQ(timed.balance, Balance::kEqual);
}

TEST(EffectiveSync, GroupsExchangeParametersInFp32) {
  const SyncSpec pairs = effective({.topology = Topology::kGossip, .fragments = 2});
  EXPECT_EQ(pairs.topology, Topology::kGossip);
  EXPECT_EQ(pairs.codec, CodecKind::kFp32);
  EXPECT_EQ(pairs.fragments, 1);
}

TEST(EffectiveSync, APipelineStreamsNothing) {
  const SyncSpec sync{.every = Steps(60), .fragments = 3, .overlap_steps = Steps(7)};
  EXPECT_EQ(effective(sync, 2), (SyncSpec{.every = Steps(60)}));
}

TEST(EffectiveSync, OnlyDilocoHasOtherOuterOptimizersThanNesterov) {
  const OuterSpec adam{.method = OuterMethod::kAdam, .beta1 = 0.8};
  EXPECT_EQ(effective({.outer = adam}).outer, adam);
  EXPECT_EQ(effective({.algorithm = SyncAlgorithm::kAsync, .outer = adam}).outer, OuterSpec());
  EXPECT_EQ(effective({.topology = Topology::kGossip, .outer = adam}).outer, OuterSpec());
}

TEST(EffectiveSync, OnlyTheMomentumOfNesterovIsSharded) {
  SyncSpec sync{.outer_state = OuterState::kSharded};
  EXPECT_EQ(effective(sync).outer_state, OuterState::kSharded);
  sync.outer.method = OuterMethod::kSgd;
  EXPECT_EQ(effective(sync).outer_state, OuterState::kReplicated);
}

TEST(AuditShare, IsZeroWhereNoSecondMemberCanAverage) {
  JobSpec spec;
  EXPECT_EQ(audit_share(spec), kAuditUsual);
  spec.sync.topology = Topology::kRing;
  EXPECT_EQ(audit_share(spec), 0);
  EXPECT_EQ(audit_share(default_spec(SyncAlgorithm::kDdp)), 0);
}

}  // namespace
}  // namespace shoal
