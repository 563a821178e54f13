// Numbers that are exact in fp32: learning rate and momentum are powers of two.
#include "outer_opt/core/step/eager.h"

#include <gtest/gtest.h>

#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {
namespace {

constexpr OuterSpec kOuter{0.5, 0.5};

const Nesterov kPlain({1, 0}), kNesterov(kOuter);

StepTerms terms_of(double lr, RoundNumber round = 1) { return {.round = round, .outer_lr = lr}; }

NamedVectors momentum_of(std::vector<float> values) { return {{"momentum", std::move(values)}}; }

std::vector<Fragment> whole(std::int64_t values) { return {{{0, values}}}; }

// One value. Before the boundary: anchor 100, momentum 2, an average of 8 that 4 went into with a
// share of a half; now it has trained 8.
struct OneValue {
  OneValue() {
    updates.committed(0, terms_of(0.5), 0.5, std::vector<float>{4}, std::vector<float>{8});
  }
  void begin() { updates.begin(0, news, momentum, anchor, local); }
  EagerUpdates updates{whole(1), kNesterov};
  NamedVectors momentum = momentum_of({2});
  std::vector<float> news{8}, anchor{100}, local{92};
};

// estimate 8 + (8 - 4) / 2 = 10; momentum 1 + 10 = 11; step 0.5 * (10 + 5.5) = 7.75.
TEST(Eager, BeginsWithTheStepOfItsEstimate) {
  OneValue one;
  one.begin();
  EXPECT_EQ(one.local, std::vector<float>{92.25});
  EXPECT_EQ(one.anchor, std::vector<float>{100});
  EXPECT_EQ(one.momentum, momentum_of({2}));
  EXPECT_EQ(one.updates.state(), EagerState::kAhead);
}

// The true average is 12: the anchor goes to 90.75. What was trained behind the boundary is 1.
TEST(Eager, TheResultCorrectsTheStepAndKeepsWhatWasTrained) {
  OneValue one;
  one.begin();
  one.local[0] -= 1;
  const std::vector<float> average{12};
  nesterov_step(kOuter, average, one.momentum[0].values, one.anchor);
  one.updates.committed(0, terms_of(0.5), 0.5, one.news, average);
  EXPECT_EQ(one.updates.state(), EagerState::kSettled);
  one.updates.adopt(one.anchor, one.local);
  EXPECT_EQ(one.anchor, std::vector<float>{90.75});
  EXPECT_EQ(one.local, std::vector<float>{89.75});
  EXPECT_EQ(one.updates.state(), EagerState::kNone);
}

TEST(Eager, AnAbortTakesTheStepBackAndKeepsWhatWasTrained) {
  OneValue one;
  one.begin();
  one.local[0] -= 1;
  one.updates.take_back(one.news, one.anchor, one.local);
  EXPECT_EQ(one.local, std::vector<float>{91});
  // The round continues from there, with more news and the same last average.
  one.news[0] = 9;
  one.begin();  // estimate 10.5: momentum 11.5, step 8.125
  EXPECT_EQ(one.local, std::vector<float>{91.875});
}

TEST(Eager, WhoKnowsNoAverageBeginsWhereItStands) {
  EagerUpdates updates(whole(2), kNesterov);
  std::vector<float> local{92, 3};
  const std::vector<float> news{8, 7};
  const NamedVectors momentum = momentum_of({2, 2});
  std::vector<float> anchor{100, 10};
  EXPECT_FALSE(updates.knows(0));
  updates.begin(0, news, momentum, anchor, local);
  EXPECT_EQ(local, (std::vector<float>{92, 3}));
  local[0] -= 1;
  updates.committed(0, terms_of(0.5), 1, news, news);
  EXPECT_TRUE(updates.knows(0));
  anchor = {80, 5};
  updates.adopt(anchor, local);
  EXPECT_EQ(local, (std::vector<float>{79, 5}));
}

TEST(Eager, WhoHadNoPartForgetsThatAverage) {
  OneValue one;
  one.begin();
  one.updates.dropped(0);
  EXPECT_EQ(one.updates.state(), EagerState::kNone);
  one.local = {93};
  one.begin();
  EXPECT_EQ(one.local, std::vector<float>{93});
}

TEST(Eager, TheRateIsThatOfTheLastCommit) {
  OneValue one;
  one.updates.committed(0, terms_of(0.25), 0.5, std::vector<float>{4}, std::vector<float>{8});
  one.begin();
  EXPECT_EQ(one.local, std::vector<float>{100 - 7.75f / 2});
}

TEST(Eager, EveryFragmentHasItsOwnAverage) {
  EagerUpdates updates({{{0, 1}, {2, 1}}, {{1, 1}}}, kPlain);
  const NamedVectors none = momentum_of({0, 0, 0});
  const std::vector<float> anchor{100, 100, 100};
  updates.committed(1, terms_of(1), 0.5, std::vector<float>{2, 4}, std::vector<float>{10, 20});
  updates.committed(2, terms_of(1), 0.5, std::vector<float>{8}, std::vector<float>{30});
  std::vector<float> local{1, 2, 3};
  updates.begin(1, std::vector<float>{4, 8}, none, anchor, local);
  EXPECT_EQ(local, (std::vector<float>{89, 2, 78}));
  updates.committed(1, terms_of(1), 0.5, std::vector<float>{4, 8}, std::vector<float>{10, 20});
  updates.adopt({{90, 100, 80}}, local);
  EXPECT_EQ(local, (std::vector<float>{90, 2, 80}));
  updates.begin(2, std::vector<float>{10}, none, anchor, local);
  EXPECT_EQ(local, (std::vector<float>{90, 69, 80}));
}

TEST(Eager, AnAbortTakesBackItsFragmentOnly) {
  EagerUpdates updates({{{0, 1}, {2, 3}}, {{1, 1}}}, kPlain);
  const NamedVectors none = momentum_of({0, 0, 0, 0, 0});
  const std::vector<float> anchor{10, 20, 30, 40, 50};
  const std::vector<float> news{1, 2, 3, 4};
  updates.committed(1, terms_of(1), 0.5, std::vector<float>{8, 8, 8, 8},
                    std::vector<float>{4, 5, 6, 7});
  const std::vector<float> before{9, 77, 28, 37, 46};  // the anchor less the news
  std::vector<float> local = before;
  updates.begin(1, news, none, anchor, local);
  EXPECT_NE(local, before);
  updates.take_back(news, anchor, local);
  EXPECT_EQ(local, before);
}

// The step of the estimate is the next one of its fragment: with two of them two rounds later.
TEST(Eager, TheEstimateTakesTheNextStepOfItsFragment) {
  struct Recorder final : OuterOptimizer {
    Recorder() : OuterOptimizer({}) {}
    void step(const StepTerms& terms, std::span<const float>, StateRuns,
              std::span<float>) const override {
      round = terms.round;
    }
    mutable RoundNumber round = 0;
  };
  const Recorder recorder;
  EagerUpdates updates({{{0, 1}}, {{1, 1}}}, recorder);
  updates.committed(2, terms_of(1, 4), 0.5, std::vector<float>{1}, std::vector<float>{1});
  std::vector<float> local{1, 2};
  updates.begin(2, std::vector<float>{1}, momentum_of({0, 0}), std::vector<float>{1, 2}, local);
  EXPECT_EQ(recorder.round, 6);
}

// The only member of its rounds estimates what comes, bit for bit, over any number of blocks.
TEST(Eager, AloneThereIsNothingToCorrect) {
  constexpr std::size_t kValues = 5000;
  const OuterSpec outer{0.7, 0.9};
  const Nesterov optimizer(outer);
  EagerUpdates updates(whole(kValues), optimizer);
  std::vector<float> news(kValues), momentum(kValues), anchor(kValues), local(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    news[i] = 0.001f * static_cast<float>(i);
    momentum[i] = 1 - news[i];
    anchor[i] = 3 * news[i];
    local[i] = anchor[i] - news[i];
  }
  updates.committed(0, terms_of(0.7), 1, momentum, momentum);
  updates.begin(0, news, momentum_of(momentum), anchor, local);
  nesterov_step(outer, news, momentum, anchor);
  EXPECT_EQ(local, anchor);
  updates.committed(0, terms_of(0.7), 1, news, news);
  updates.adopt(anchor, local);
  EXPECT_EQ(local, anchor);
}

TEST(Eager, AShareIsWeightAndClipFactorOfAllWeights) {
  ReducePlan plan;
  plan.members = {{ReplicaId(1), "", 30, 0.5}, {ReplicaId(2), "", 10, 1}, {ReplicaId(3), "", 0, 1}};
  EXPECT_EQ(share_of(plan, ReplicaId(1)), 0.375);
  EXPECT_EQ(share_of(plan, ReplicaId(2)), 0.25);
  EXPECT_EQ(share_of(plan, ReplicaId(3)), 0);
  EXPECT_EQ(share_of(plan, ReplicaId(4)), 0);
  for (ReduceMember& member : plan.members) member.weight = 0;
  EXPECT_EQ(share_of(plan, ReplicaId(1)), 0) << "nobody trained";
}

// Two replicas with minima of their own go for the mean of both, though every estimate of one lacks
// the news of the other; anchors are the same throughout, and the tail is not lost.
TEST(Eager, ReplicasConvergeOnTheMeanOfTheirMinima) {
  const float minima[] = {1, 3};
  const OuterSpec outer{0.7, 0.5};
  const Nesterov optimizer(outer);
  EagerUpdates updates[] = {EagerUpdates(whole(1), optimizer), EagerUpdates(whole(1), optimizer)};
  NamedVectors momentum = momentum_of({0});
  std::vector<float> anchor{10}, locals[] = {{10}, {10}}, news[] = {{0}, {0}};
  const auto train = [&](int steps) {
    for (int step = 0; step < steps; ++step) {
      for (int r = 0; r < 2; ++r) locals[r][0] -= 0.05f * (locals[r][0] - minima[r]);
    }
  };
  for (int round = 0; round < 60; ++round) {
    train(6);
    for (int r = 0; r < 2; ++r) {
      news[r][0] = anchor[0] - locals[r][0];
      updates[r].begin(0, news[r], momentum, anchor, locals[r]);
    }
    train(4);
    const std::vector<float> average{(news[0][0] + news[1][0]) / 2};
    nesterov_step(outer, average, momentum[0].values, anchor);
    for (int r = 0; r < 2; ++r) {
      updates[r].committed(0, terms_of(0.7), 0.5, news[r], average);
      updates[r].adopt(anchor, locals[r]);
    }
  }
  EXPECT_NEAR(anchor[0], 2, 1e-3);
}

}  // namespace
}  // namespace shoal::outer_opt
