#include "replica/core/state_copy.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/joining/joining_test_util.h"
#include "replica/core/replica_test_util.h"

namespace shoal::replica {
namespace {

using outer_opt::AskKind;
using outer_opt::Fragment;
using outer_opt::JoinSession;
using outer_opt::StateAnswer;
using outer_opt::StateAsk;
using outer_opt::StateRefusal;
using outer_opt::StateSource;

constexpr std::int64_t kValues = 1'000;
constexpr ReplicaId kServes{1}, kCopy{9};

// One replica that serves a stage, and a copy of it.
class StateCopyTest : public testing::Test {
 protected:
  StateCopyTest() {
    spec_.sync = {};
    algorithm_ = make_outer_algorithm(spec_, {});
    state_ = algorithm_->zero_state(kValues);
    for (float& value : state_.anchor) value = drawn();
    publish();
    outer_opt::JoinOptions options;
    options.run_values = 256;
    copy_.emplace(CopiedStage{kCopy, spec_, kValues, {whole()}}, round(), options, 1, now_);
  }

  float drawn() { return static_cast<float>(prng_.normal()); }
  static Fragment whole() { return {{0, kValues}}; }
  CopiedRound round() const { return {key_, digests_of(state_), {{kServes, "serves:1"}}}; }

  void publish() {
    serves_.publish(kServes, held_state(key_, std::make_shared<const OuterState>(state_)));
  }
  void commit() {
    ++key_.round;
    std::vector<float> average(kValues);
    for (float& value : average) value = 0.1f * drawn();
    CommitRound commit = commit_of(key_.round, 0.7);
    take_step(*algorithm_, commit, whole(), average, state_);
    if (serves_.keeps_averages(now_)) {
      serves_.averages().add({key_.round, 0, 0.7}, whole(), CodecKind::kFp32, {},
                             outer_opt::read_from(average));
    }
    publish();
  }

  // Asks are answered one by one, at most so many.
  CopyState run(int asks = 1'000) {
    CopyState state = copy_->settle();
    while (state == CopyState::kComing && asks > 0) {
      const JoinSession::Next next = copy_->session().next(now_);
      if (next.send.empty()) now_ = now_ + milliseconds(100);
      for (const JoinSession::Ask& ask : next.send) {
        kinds_.push_back(ask.ask.kind);
        if (asks-- > 0) copy_->session().answered(ask.id, *serves_.answer(ask.ask, now_), now_);
        if (asks <= 0) break;
      }
      state = copy_->settle();
    }
    return state;
  }
  StateAnswer ask(AskKind kind) {
    return copy_->answer({kCopy, key_, kind, {100, 50}, false, 0}, now_);
  }
  float first_value() { return ask(AskKind::kState).values.at(0); }

  JobSpec spec_;
  Prng prng_{7};
  std::unique_ptr<OuterAlgorithm> algorithm_;
  OuterState state_;
  RoundKey key_{JobId(1), 0, 3};
  StateSource serves_;
  Instant now_{1};
  std::optional<StateCopy> copy_;
  std::vector<AskKind> kinds_;
};

TEST_F(StateCopyTest, HoldsWhatTheStageCommittedAndGivesIt) {
  EXPECT_EQ(ask(AskKind::kState).refusal, StateRefusal::kNotHere);
  EXPECT_EQ(copy_->held(), std::nullopt);
  ASSERT_EQ(run(), CopyState::kHeld);
  EXPECT_EQ(copy_->held(), key_);
  const StateAnswer given = ask(AskKind::kState);
  ASSERT_EQ(given.values.size(), 100u) << "a run of the anchor and one of the momentum";
  EXPECT_EQ(given.held, 3);
  EXPECT_EQ(given.values[0], state_.anchor[100]);
  EXPECT_EQ(given.values[50], vector_of(state_.vectors, "momentum")[100]);
}

TEST_F(StateCopyTest, FollowsEachCommitByItsAverageAlone) {
  ASSERT_EQ(run(), CopyState::kHeld);
  kinds_.clear();
  for (int i = 0; i < 3; ++i) {
    commit();
    copy_->follow(round(), now_);
    ASSERT_EQ(run(), CopyState::kHeld);
    EXPECT_EQ(copy_->held(), key_);
    EXPECT_EQ(first_value(), state_.anchor[100]);
  }
  EXPECT_EQ(std::ranges::count(kinds_, AskKind::kState), 0);
}

TEST_F(StateCopyTest, GivesTheOlderRoundWholeUntilAllOfTheNewerOneIsHere) {
  ASSERT_EQ(run(), CopyState::kHeld);
  const RoundKey before = key_;
  const float value = first_value();
  commit();
  copy_->follow(round(), now_);
  EXPECT_EQ(run(/*asks=*/0), CopyState::kComing);
  EXPECT_EQ(copy_->held(), before);
  EXPECT_EQ(first_value(), value);
  EXPECT_EQ(run(), CopyState::kHeld);
  EXPECT_NE(first_value(), value);
}

TEST_F(StateCopyTest, HoldsNothingThatItsStageDidNotCommit) {
  ASSERT_EQ(run(), CopyState::kHeld);
  const RoundKey before = key_;
  commit();
  CopiedRound other = round();
  ++other.digests.momentum.low;
  copy_->follow(other, now_);
  ASSERT_EQ(run(), CopyState::kFailed);
  EXPECT_EQ(copy_->error().code, Code::kDataLoss);
  EXPECT_EQ(copy_->held(), before) << "the round before is what it was";
}

TEST_F(StateCopyTest, HasNoMomentsToGive) {
  ASSERT_EQ(run(), CopyState::kHeld);
  EXPECT_EQ(ask(AskKind::kMoments).refusal, StateRefusal::kNever);
}

TEST_F(StateCopyTest, FailsWhenItsSourcesAreGone) {
  serves_.withdraw();
  EXPECT_EQ(run(), CopyState::kFailed);
  EXPECT_EQ(copy_->held(), std::nullopt);
}

TEST_F(StateCopyTest, IgnoresAnOlderRound) {
  const CopiedRound older = round();
  commit();
  copy_->follow(round(), now_);
  copy_->follow(older, now_);
  ASSERT_EQ(run(), CopyState::kHeld);
  EXPECT_EQ(copy_->held(), key_);
}

}  // namespace
}  // namespace shoal::replica
