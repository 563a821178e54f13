// A source that sends other bytes than it holds, with a SHA-256 that matches them: only the digests
// of the committed state tell.
#include <gmock/gmock.h>

#include "outer_opt/core/joining/joining_test_util.h"

namespace shoal::outer_opt {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kLine = 400e3;  // bytes per second: two seconds for the state, two rounds

struct Doubted : JoinHarness {
  explicit Doubted(int sources, double line = kLine)
      : JoinHarness({.codec = CodecKind::kInt4, .sources = sources, .round = seconds(5)}, {},
                    small_runs(), line) {
    fate = [this](auto, const JoinSession::Ask& ask) {
      last = ask;
      const bool state = ask.ask.kind == AskKind::kState;
      return state && lies(ask) ? Fate::kSpoiled : Fate::kAnswered;
    };
    spoil = [](StateAnswer& answer) { answer.values.at(3) += 1; };
  }
  std::function<bool(const JoinSession::Ask&)> lies = [](const auto&) { return false; };
  JoinSession::Ask last;
};

bool is(const JoinSession::Ask& ask, std::uint64_t source) {
  return ask.source.replica == ReplicaId(source);
}

TEST(JoinDoubt, WhoSentOtherBytesIsNamedAndReplaced) {
  for (const std::uint64_t liar : {1u, 2u, 3u}) {
    Doubted harness(3);
    harness.lies = [&](const auto& ask) { return is(ask, liar); };
    harness.run_in_doubt(seconds(60));
    ASSERT_TRUE(harness.equal()) << liar;
    EXPECT_THAT(harness.session->found_liars(), ElementsAre(ReplicaId(liar)));
    EXPECT_THAT(harness.session->take_complaints(),
                testing::Contains(testing::HasSubstr("rep_" + std::to_string(liar) + " at")));
  }
}

// Its bytes are of the round before, as of one that missed the step.
TEST(JoinDoubt, WhoIsOlderThanItSaysIsNamedAndReplaced) {
  Doubted harness(3);
  harness.lies = [](const auto& ask) { return is(ask, 2); };
  harness.spoil = [](StateAnswer& answer) { ++answer.held; };
  harness.run_in_doubt(seconds(120));
  ASSERT_TRUE(harness.equal());
  EXPECT_THAT(harness.session->found_liars(), ElementsAre(ReplicaId(2)));
}

TEST(JoinDoubt, OneRunIsFetchedAgainNotTheState) {
  Doubted harness(2);
  bool once = true;
  harness.lies = [&](const auto& ask) { return is(ask, 1) && std::exchange(once, false); };
  harness.run_in_doubt(seconds(60));
  ASSERT_TRUE(harness.equal());
  EXPECT_EQ(harness.session->fetched_again(), Bytes(2 * 4096 * 4));
  EXPECT_THAT(harness.session->found_liars(), ElementsAre(ReplicaId(1)));
}

// With two sources it is one word against another: what was committed decides.
TEST(JoinDoubt, OfTwoSourcesTheCommittedStateTellsWhichOneLied) {
  for (const std::uint64_t liar : {1u, 2u}) {
    Doubted harness(2);
    harness.lies = [&](const auto& ask) { return is(ask, liar); };
    harness.run_in_doubt(seconds(60));
    ASSERT_TRUE(harness.equal()) << liar;
    EXPECT_THAT(harness.session->found_liars(), ElementsAre(ReplicaId(liar)));
  }
}

// It says of honest runs that they are wrong, and gives wrong ones instead.
TEST(JoinDoubt, AWitnessThatLiesNamesNobodyElse) {
  Doubted harness(3);
  harness.fate = [&](auto, const JoinSession::Ask& ask) {
    return is(ask, 2) ? JoinHarness::Fate::kSpoiled : JoinHarness::Fate::kAnswered;
  };
  harness.spoil = [](StateAnswer& answer) {
    if (!answer.values.empty()) answer.values.at(3) += 1;
    for (Digest& digest : answer.digests) digest.low ^= 1;
  };
  harness.run_in_doubt(seconds(120));
  ASSERT_TRUE(harness.equal());
  EXPECT_THAT(harness.session->found_liars(), ElementsAre(ReplicaId(2)));
}

// Their bytes came by way of both: no source is named, and the state is mended nevertheless.
TEST(JoinDoubt, WhereTwoGaveARunNobodyIsNamed) {
  Doubted harness(2, 60e3);  // rounds pass while it loads, and runs follow them
  bool once = true;
  harness.lies = [&](const auto& ask) { return is(ask, 1) && std::exchange(once, false); };
  harness.run_in_doubt(seconds(300));
  ASSERT_TRUE(harness.equal());
  for (const ReplicaId liar : harness.session->found_liars()) EXPECT_EQ(liar, ReplicaId(1));
}

TEST(JoinDoubt, OneSourceAloneCannotBeDoubted) {
  Doubted harness(1);
  harness.lies = [](const auto&) { return true; };
  harness.run_in_doubt(seconds(60));
  EXPECT_TRUE(harness.level());
  EXPECT_FALSE(harness.equal());
  EXPECT_FALSE(harness.session->doubt(harness.now));
}

TEST(JoinDoubt, ItEndsThoughAllLie) {
  Doubted harness(3);
  harness.lies = [](const auto&) { return true; };
  harness.run_in_doubt(seconds(60));
  EXPECT_TRUE(harness.level());
  EXPECT_FALSE(harness.equal());
}

TEST(JoinDoubt, AWitnessThatIsSilentIsNotWaitedForForEver) {
  Doubted harness(3);
  const auto lies = harness.fate;
  harness.lies = [](const auto& ask) { return is(ask, 1); };
  std::optional<ReplicaId> silent;
  harness.fate = [&](auto id, const JoinSession::Ask& ask) {
    if (ask.ask.kind == AskKind::kDigests && !silent) silent = ask.source.replica;
    return ask.source.replica == silent ? JoinHarness::Fate::kSilent : lies(id, ask);
  };
  harness.run_in_doubt(seconds(400));
  EXPECT_TRUE(harness.equal());
}

TEST(JoinDoubt, ASourceGivesDigestsOfTheRoundThatItHoldsOnly) {
  Doubted harness(1);
  StateSource& source = *harness.sources[0];
  StateAsk ask{ReplicaId(1), harness.stage.key(), AskKind::kDigests, {0, 10'000}};
  ask.piece = 4096;
  const auto answer = source.answer(ask, harness.now);
  ASSERT_EQ(answer->digests.size(), 3u);
  TestTarget same(80'000);
  same.anchor = harness.stage.state().anchor, same.momentum = harness.stage.state().momentum;
  EXPECT_EQ(answer->digests[2], same.digest_of({8192, 1808}));
  ask.key.round += 1;
  EXPECT_EQ(source.answer(ask, harness.now)->refusal, StateRefusal::kNotYet);
  ask.key.round -= 2;
  EXPECT_EQ(source.answer(ask, harness.now)->refusal, StateRefusal::kGone);
  ask.key.round += 1, ask.piece = 1;
  EXPECT_EQ(source.answer(ask, harness.now)->refusal, StateRefusal::kNotHere) << "too many";
}

}  // namespace
}  // namespace shoal::outer_opt
