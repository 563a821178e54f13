// What the methods hold, in the flat form: of what a method has not, the value of a job file that
// does not say it.
#include "job/sync_spec.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(SyncSpec, TheUsualOneIsDilocoAsAJobFileHasIt) {
  EXPECT_EQ(SyncSpec().options(), SyncOptions());
}

TEST(SyncSpec, EveryMethodHasItsWord) {
  EXPECT_EQ(SyncSpec{DilocoSync{}}.algorithm(), SyncAlgorithm::kDiloco);
  EXPECT_EQ(SyncSpec{LocalSgdSync{}}.algorithm(), SyncAlgorithm::kLocalSgd);
  EXPECT_EQ(SyncSpec{DdpSync{}}.algorithm(), SyncAlgorithm::kDdp);
  EXPECT_EQ(SyncSpec{AsyncSync{}}.algorithm(), SyncAlgorithm::kAsync);
  EXPECT_EQ(SyncSpec{NoSync{}}.algorithm(), SyncAlgorithm::kNone);
  EXPECT_EQ(SyncSpec{GroupsSync{.outer = OuterSpec{}}}.algorithm(), SyncAlgorithm::kDiloco);
  EXPECT_EQ(SyncSpec{GroupsSync{}}.algorithm(), SyncAlgorithm::kLocalSgd);
}

TEST(SyncSpec, MethodsWithoutAnOuterStepOnlyAverage) {
  EXPECT_EQ(SyncSpec{LocalSgdSync{}}.outer(), (OuterSpec{1, 0}));
  EXPECT_EQ(SyncSpec{DdpSync{}}.outer(), (OuterSpec{1, 0}));
  EXPECT_EQ(SyncSpec{GroupsSync{}}.outer(), (OuterSpec{1, 0}));
}

TEST(SyncSpec, DdpAveragesAtEveryStep) { EXPECT_EQ(SyncSpec{DdpSync{}}.every(), Steps(1)); }

TEST(SyncSpec, AStreamedRoundHasFragmentsAndAnAdoption) {
  const StreamedRounds blended{Steps(60), 3, Overlap{Steps(7), Blend{0.25}}, {}, false};
  const SyncSpec blends{DilocoSync{blended}};
  EXPECT_EQ(blends.every(), Steps(60));
  EXPECT_EQ(blends.fragments(), 3);
  EXPECT_EQ(blends.overlap_steps(), Steps(7));
  EXPECT_EQ(blends.blend(), 0.25);
  EXPECT_FALSE(blends.eager());
  EXPECT_FALSE(blends.clip());
  const SyncSpec eager{LocalSgdSync{StreamedRounds{.overlap = Overlap{Steps(2), Eager{}}}}};
  EXPECT_TRUE(eager.eager());
  EXPECT_EQ(eager.blend(), 0);
}

TEST(SyncSpec, ASparseReduceGathers) {
  const SyncSpec sparse{DdpSync{{SparseReduce{0.5}, false}}};
  EXPECT_EQ(sparse.topology(), Topology::kAllgather);
  EXPECT_EQ(sparse.codec(), CodecKind::kSparse2);
  EXPECT_EQ(sparse.feedback(), 0.5);
}

TEST(SyncSpec, ARoundByTimeIsBoundByAllSteps) {
  const SyncSpec timed{LocalSgdSync{PlainRounds{ByTime{600, Steps(1000)}, {}}}};
  EXPECT_EQ(timed.every_s(), 600);
  EXPECT_EQ(timed.every(), Steps(1000));
  EXPECT_EQ(timed.balance(), Balance::kEqual);
}

TEST(SyncSpec, GroupsExchangeParametersAsTheyAre) {
  const SyncSpec pairs{GroupsSync{.topology = Topology::kGossip}};
  EXPECT_EQ(pairs.topology(), Topology::kGossip);
  EXPECT_EQ(pairs.codec(), CodecKind::kFp32);
}

}  // namespace
}  // namespace shoal
