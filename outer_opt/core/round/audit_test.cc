#include "outer_opt/core/round/audit.h"

#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "outer_opt/core/round/plan_test_util.h"

namespace shoal::outer_opt {
namespace {

// Five owners, 25 frames of 10 values and a short one each.
ReducePlan plan_of_five() {
  ReducePlan plan = make_plan(CodecKind::kInt8, 5 * 253, {1, 1, 1, 1, 1});
  plan.frame_values = 10;
  return plan;
}

const ReduceMember& member(const ReducePlan& plan, ReplicaId id) {
  return *std::ranges::find(plan.members, id, &ReduceMember::replica);
}

TEST(Audit, FramesOfAnOwnerHaveOneOtherOwnerAndLieWhereItsFramesDo) {
  const ReducePlan plan = plan_of_five();
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::map<ReplicaId, ReplicaId> second_of, owner_of;
    for (const AuditedRange& range : draw_audit(plan, 0.3, seed)) {
      const ReduceMember& owner = member(plan, range.owner);
      EXPECT_NE(range.owner, range.second);
      EXPECT_EQ((range.first - owner.part_first) % 10, 0);
      EXPECT_LE(range.first + range.count, owner.part_first + owner.part_count);
      EXPECT_EQ(second_of.emplace(range.owner, range.second).first->second, range.second);
      EXPECT_EQ(owner_of.emplace(range.second, range.owner).first->second, range.owner);
    }
  }
}

TEST(Audit, AFrameIsDrawnAsOftenAsTheShareSays) {
  const ReducePlan plan = plan_of_five();
  std::size_t drawn = 0;
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    for (const AuditedRange& range : draw_audit(plan, 0.1, seed)) ++drawn, seen.insert(range.first);
  }
  // A part of 26 frames has none in 6 % of the draws, and then one.
  EXPECT_NEAR(static_cast<double>(drawn) / (1000 * 130), 0.1 + std::pow(0.9, 26) / 26, 0.005);
  EXPECT_EQ(seen.size(), 130u) << "no frame is safe";
  EXPECT_TRUE(draw_audit(plan, 0, 1).empty());
  EXPECT_EQ(draw_audit(plan, 1, 1).size(), 130u);
}

TEST(Audit, OneFrameOfEachOwnerIsDrawnWhereTheShareAloneDrawsNone) {
  const ReducePlan plan = plan_of_five();
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    std::set<ReplicaId> owners;
    const auto ranges = draw_audit(plan, 1e-9, seed);
    for (const AuditedRange& range : ranges) owners.insert(range.owner), seen.insert(range.first);
    ASSERT_EQ(ranges.size(), 5u);
    ASSERT_EQ(owners.size(), 5u);
  }
  EXPECT_EQ(seen.size(), 130u) << "any frame may be the one";
}

TEST(Audit, ThePlanHasTheRangesOneAfterAnotherWithTheirSecondOwners) {
  const ReducePlan plan = plan_of_five();
  const auto ranges = draw_audit(plan, 0.3, 7);
  const ReducePlan audit = audit_plan(plan, ranges);
  EXPECT_EQ(audit.audited, ranges);
  std::int64_t at = 0;
  for (const AuditedRange& range : ranges) {
    const ReduceMember& second = member(audit, range.second);
    EXPECT_GE(at, second.part_first);
    EXPECT_EQ((at - second.part_first) % 10, 0) << "frames begin where they did";
    at += range.count;
    EXPECT_LE(at, second.part_first + second.part_count);
  }
  EXPECT_EQ(audit.value_count, at);
  std::int64_t next = 0;
  for (const ReduceMember& one : audit.members) {
    EXPECT_EQ(one.part_first, next);
    next += one.part_count;
  }
  EXPECT_EQ(next, at);
}

TEST(Audit, AThirdMakesTheFramesOfOneOwnerAgain) {
  const ReducePlan plan = plan_of_five();
  const auto ranges = draw_audit(plan, 1, 3);
  const ReplicaId owner = ranges.front().owner, second = ranges.front().second;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto again = ask_third(plan, ranges, owner, seed);
    EXPECT_EQ(again.size(), 26u);
    for (const AuditedRange& range : again) {
      EXPECT_EQ(range.owner, owner);
      EXPECT_NE(range.second, owner);
      EXPECT_NE(range.second, second);
    }
  }
  EXPECT_TRUE(ask_third(plan, {}, owner, 1).empty());
}

TEST(Audit, NobodyIsAuditedWhereNobodyCouldDecide) {
  EXPECT_TRUE(draw_audit(make_plan(CodecKind::kInt8, 100, {1, 1}), 1, 1).empty());
  EXPECT_TRUE(draw_audit(make_plan(CodecKind::kInt8, 100, {1, 1, 1}, {1, 1, 0}), 1, 1).empty());
  ReducePlan ring = make_plan(CodecKind::kInt8, 100, {1, 1, 1});
  EXPECT_EQ(draw_audit(ring, 1, 1).size(), 3u);
  ring.topology = Topology::kRing;
  EXPECT_TRUE(draw_audit(ring, 1, 1).empty());
}

}  // namespace
}  // namespace shoal::outer_opt
