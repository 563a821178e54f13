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

}  // namespace
}  // namespace shoal::sim
