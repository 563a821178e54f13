// What the checker makes of an anchor that nobody holds as it should be.
#include <gtest/gtest.h>

#include "tests/sim/checkers/checker_test_util.h"

namespace shoal::sim {
namespace {

constexpr ReplicaId kSound{1}, kDamaged{2};

Digest digest_of_word(std::uint64_t word) { return Digester().add(word).finish(); }

struct Held : CheckerRig {
  Held() : CheckerRig(make_consistent_cut) { tainted.insert(kDamaged); }

  void hold(ReplicaId replica, std::int64_t epoch, std::uint64_t anchor) {
    StateHeld held;
    held.replica = replica;
    held.key = {JobId(1), epoch, 4};
    held.digests.anchor = digest_of_word(anchor);
    checker->state_held(held);
  }
  void commit(std::int64_t epoch, std::uint64_t anchor) {
    coordinator::JobRecord job;
    job.id = JobId(1);
    job.epoch = epoch;
    job.committed_round = 4;
    job.stages.resize(1);
    job.stages[0].anchor = digest_of_word(anchor);
    checker->durable(Record(job), Tables());
  }
};

TEST(ConsistentCut, ADamagedAnchorCountsWhereNobodyHeldASoundOne) {
  Held none;
  none.commit(0, 7);
  EXPECT_TRUE(none.broken);
  Held alone;
  alone.hold(kDamaged, 0, 7);
  alone.commit(0, 7);
  EXPECT_FALSE(alone.broken) << alone.broken->what;
  Held outvoted;
  outvoted.hold(kDamaged, 0, 7);
  outvoted.hold(kSound, 0, 6);
  outvoted.commit(0, 7);
  EXPECT_TRUE(outvoted.broken);
}

// It went back and trained the round again; the others had died before they could tell.
TEST(ConsistentCut, WhatAnOlderEpochHeldOfThatRoundIsAnother) {
  Held again;
  again.hold(kSound, 0, 6);
  again.hold(kDamaged, 1, 7);
  again.commit(1, 7);
  EXPECT_FALSE(again.broken) << again.broken->what;
  Held adopted;
  adopted.hold(kDamaged, 1, 7);
  adopted.commit(2, 7);
  EXPECT_FALSE(adopted.broken) << adopted.broken->what;
  Held sound;
  sound.hold(kDamaged, 0, 7);
  sound.hold(kSound, 1, 6);
  sound.commit(1, 7);
  EXPECT_TRUE(sound.broken);
}

// The job has two stages now. Whether a checkpoint is whole depends on its own units.
struct Stored : Held {
  void store(const std::vector<UnitRange>& cut) {
    coordinator::JobRecord job;
    job.id = JobId(1);
    job.spec.model.layers = 4;
    job.stages = {{{0, 3}, 0, {}, {}}, {{3, 6}, 0, {}, {}}};
    Tables tables;
    tables.jobs[job.id] = job;
    coordinator::CheckpointRecord checkpoint;
    checkpoint.id = CheckpointId(1);
    checkpoint.key = {JobId(1), 0, 4};
    checkpoint.state = coordinator::CheckpointState::kStored;
    for (std::size_t stage = 0; stage < cut.size(); ++stage) {
      StateHeld held;
      held.replica = kSound;
      held.stage = static_cast<StageIndex>(stage);
      held.key = checkpoint.key;
      held.digests.anchor = digest_of_word(stage + 1);
      checker->state_held(held);
      checkpoint.parts.push_back({.writer = kSound,
                                  .state = coordinator::CheckpointState::kStored,
                                  .anchor = held.digests.anchor,
                                  .momentum = {},
                                  .files = {},
                                  .units = cut[stage]});
    }
    checker->durable(Record(checkpoint), tables);
  }
};

TEST(ConsistentCut, PartsOfACheckpointCoverTheModelWhateverTheCutOfTheJob) {
  for (const std::vector<UnitRange>& whole : std::vector<std::vector<UnitRange>>{
           {{0, 6}}, {{0, 3}, {3, 6}}, {{0, 5}, {5, 6}}, {{0, 1}, {1, 2}, {2, 6}}}) {
    Stored stored;
    stored.store(whole);
    EXPECT_FALSE(stored.broken) << stored.broken->what;
  }
  for (const std::vector<UnitRange>& half : std::vector<std::vector<UnitRange>>{
           {}, {{0, 3}}, {{0, 2}, {3, 6}}, {{0, 4}, {3, 6}}, {{3, 6}, {0, 3}}, {{1, 6}}}) {
    Stored stored;
    stored.store(half);
    EXPECT_TRUE(stored.broken);
  }
}

}  // namespace
}  // namespace shoal::sim
