#include "outer_opt/core/joining/state_source.h"

#include <array>

#include "outer_opt/core/joining/joining_test_util.h"

namespace shoal::outer_opt {
namespace {

class StateSourceTest : public testing::Test {
 protected:
  StateSourceTest() { stage_.publish({&source_}); }

  void step(Instant now) { stage_.step({&source_}, now); }
  StateAsk ask(AskKind kind, RoundNumber round = 0, ValueRange run = {100, 50}) const {
    return {ReplicaId(1), {JobId(1), 0, round}, kind, run};
  }
  StateAnswer answer(const StateAsk& ask, Instant now = {}) { return *source_.answer(ask, now); }

  TestStage stage_{StageSetup{.values = 4'000}};
  StateSource source_;
};

TEST_F(StateSourceTest, GivesARunOfEachVectorAtItsNewestRound) {
  step({});
  const StateAnswer run = answer(ask(AskKind::kState));
  EXPECT_EQ(run.held, 1);
  ASSERT_EQ(run.values.size(), 100u);
  EXPECT_EQ(run.values[0], stage_.state().anchor[100]);
  EXPECT_EQ(run.values[50], stage_.state().momentum[100]);
}

TEST_F(StateSourceTest, KeepsAveragesFromTheFirstAskOnUntilNobodyAsks) {
  EXPECT_FALSE(source_.keeps_averages({}));
  answer(ask(AskKind::kState));
  EXPECT_TRUE(source_.keeps_averages({}));
  step({});
  step({});
  const StateAnswer both = answer(ask(AskKind::kAverages, 0));
  EXPECT_EQ(both.rounds.size(), 2u);
  EXPECT_EQ(answer(ask(AskKind::kAverages, 2)).refusal, StateRefusal::kNotYet);
  const Instant later = Instant{} + seconds(600);
  EXPECT_FALSE(source_.keeps_averages(later));
  step(later);
  EXPECT_EQ(answer(ask(AskKind::kAverages, 2), later).refusal, StateRefusal::kGone);
}

TEST_F(StateSourceTest, KeepsAveragesForWhoStaysHoweverLongARoundIs) {
  StateAsk first = ask(AskKind::kState);
  first.stays = true;
  answer(first);
  const Instant later = Instant{} + seconds(6000);
  EXPECT_TRUE(source_.keeps_averages(later));
  step(later);
  StateAsk next = ask(AskKind::kAverages, 0);
  next.stays = true;
  EXPECT_EQ(answer(next, later).rounds.size(), 1u);
  const Instant at_last = later + seconds(6000);
  for (int rounds = 0; rounds < 3; ++rounds) {
    EXPECT_TRUE(source_.keeps_averages(at_last)) << rounds;
    step(at_last);
  }
  EXPECT_FALSE(source_.keeps_averages(at_last)) << "it has not asked for three rounds";
}

TEST_F(StateSourceTest, RefusesWhatItDoesNotHold) {
  StateAsk other = ask(AskKind::kState);
  other.replica = ReplicaId(9);
  EXPECT_EQ(answer(other).refusal, StateRefusal::kNotHere);
  StateAsk epoch = ask(AskKind::kState);
  epoch.key.epoch = 4;
  EXPECT_EQ(answer(epoch).refusal, StateRefusal::kNotHere);
  for (const ValueRange run :
       {ValueRange{3'990, 11}, ValueRange{-1, 5}, ValueRange{0, 0}, ValueRange{1, INT64_MAX}}) {
    EXPECT_EQ(answer(ask(AskKind::kState, 0, run)).refusal, StateRefusal::kNotHere);
    EXPECT_EQ(answer(ask(AskKind::kAverages, 0, run)).refusal, StateRefusal::kNotHere);
  }
  source_.withdraw();
  EXPECT_EQ(answer(ask(AskKind::kState)).refusal, StateRefusal::kNotHere);
}

TEST_F(StateSourceTest, KeepsAPinnedStateWhileItIsAskedFor) {
  StateAsk pin = ask(AskKind::kState);
  pin.pinned = true;
  pin.key.round = -1;
  const StateAnswer first = answer(pin);
  step({});
  pin.key.round = first.held;
  EXPECT_EQ(first.held, 0);
  step({});
  EXPECT_EQ(answer(pin).values, first.values);
  EXPECT_NE(answer(ask(AskKind::kState)).values, first.values);
  pin.key.round = 1;
  EXPECT_EQ(answer(pin).refusal, StateRefusal::kGone);
}

TEST_F(StateSourceTest, SharesOneCopyOfTheMoments) {
  StateAsk moments = ask(AskKind::kMoments, 0, {1, 3});
  EXPECT_FALSE(source_.answer(moments, {}).has_value());
  auto copy = std::make_shared<MomentsCopy>();
  copy->first = {1, 2}, copy->second = {3, 4}, copy->step = 8;
  source_.provide_moments(copy, {});
  const StateAnswer both = answer(moments);
  EXPECT_EQ(both.values, (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(both.adam_step, 8);
  EXPECT_TRUE(both.digests.empty());
  moments.piece = 3;
  const std::array<float, 3> front = {1, 2, 3};
  const std::array<float, 1> back = {4};
  const std::array pieces = {digest_of(std::span<const float>(front)),
                             digest_of(std::span<const float>(back))};
  EXPECT_EQ(answer(moments).digests, std::vector{digest_of_moments(pieces)});
  moments.piece = 2;  // differs between replicas
  EXPECT_TRUE(answer(moments).digests.empty());
  moments.adam_step = 7;
  EXPECT_EQ(answer(moments).refusal, StateRefusal::kGone);
  moments.adam_step = 0;
  EXPECT_FALSE(source_.answer(moments, Instant{} + seconds(600)).has_value());
}

TEST_F(StateSourceTest, AnOpenCopyAnswersWithWhatThereIsOfARun) {
  auto copy = std::make_shared<MomentsCopy>();
  copy->first = {1, 2, 3}, copy->step = 8, copy->is_open = true;
  source_.provide_moments(copy, {});
  EXPECT_EQ(answer(ask(AskKind::kMoments, 0, {1, 9})).values, (std::vector<float>{2, 3}));
  EXPECT_TRUE(answer(ask(AskKind::kMoments, 0, {3, 9})).values.empty());
  EXPECT_TRUE(answer(ask(AskKind::kMoments, 0, {90, 9})).values.empty());
  EXPECT_EQ(answer(ask(AskKind::kMoments, 0, {-1, 2})).refusal, StateRefusal::kNotHere);
}

}  // namespace
}  // namespace shoal::outer_opt
