// What the checker takes for a checkpoint of sharded momentum when nobody is left that has it.
#include <gtest/gtest.h>

#include "tests/sim/checkers/checker_test_util.h"

namespace shoal::sim {
namespace {

using outer_opt::MomentumShards;
using outer_opt::ValueRange;

// Two replicas that own half of four values each, so that both keep all, have committed round 1.
struct Committed : CheckerRig {
  Committed() : CheckerRig(make_sharded_momentum) {
    plan.key = key;
    plan.value_count = 4;
    plan.members = {{ReplicaId(1), "a:1", 1, 1, 0, 2}, {ReplicaId(2), "b:1", 1, 1, 2, 2}};
    plan.owner_step = OwnerStep{{1, 0.5}, {}};
    MomentumShards shards(outer_opt::kept_ranges(plan.members, ReplicaId(1)));
    shards.follow(plan.owner_step->outer, {0, std::ssize(step)}, step);
    checker->momentum_followed({ReplicaId(1), 0, plan, step, before, after, shards});
  }
  // Saves `value` four times, from nobody.
  void save(float value) { checker->momentum_kept({ReplicaId(3), 0, key, whole(value), &nobody}); }
  void load(float value) { checker->momentum_kept({ReplicaId(4), 0, key, whole(value)}); }
  const MomentumShards& whole(float value) {
    const ValueRange all{0, 4};
    shards_ = MomentumShards({all});
    for (float& v : shards_.at(all)) v = value;
    return shards_;
  }

  RoundKey key{JobId(1), 0, 1};
  ReducePlan plan;
  std::vector<float> step{1, 2, 3, 4}, before{9, 9, 9, 9}, after{8, 7, 6, 5};
  std::vector<MomentumHolder> nobody;

 private:
  MomentumShards shards_;
};

TEST(ShardedMomentum, WhatNobodyHasIsSavedAsZeroAndLoadedAsThat) {
  Committed c;
  c.save(0);
  c.load(0);
  EXPECT_FALSE(c.broken) << c.broken->what;
}

TEST(ShardedMomentum, NothingElseIsSavedOrLoaded) {
  Committed saved;
  saved.save(1);
  EXPECT_TRUE(saved.broken);
  Committed loaded;
  loaded.save(0);
  loaded.load(1);
  EXPECT_TRUE(loaded.broken);
  Committed unsaved;
  unsaved.load(0);
  EXPECT_TRUE(unsaved.broken);
}

}  // namespace
}  // namespace shoal::sim
