#include "outer_opt/core/joining/join_session.h"

#include "outer_opt/core/joining/joining_test_util.h"

namespace shoal::outer_opt {
namespace {

using Fate = JoinHarness::Fate;

// A state of 640 kB over a line of 80 kB/s: 8 s bare; int4 averages of 41 kB a round.
constexpr double kSlow = 80e3, kState = 640e3;

TEST(JoinSession, ComesToTheStateWhileRoundsGoOn) {
  for (const std::int64_t fragments : {1, 4}) {
    JoinHarness harness({.fragments = fragments}, {}, small_runs(), kSlow);
    harness.run(seconds(60));
    ASSERT_TRUE(harness.level());
    EXPECT_TRUE(harness.equal());
    EXPECT_GT(harness.stage.round(), 8);
    EXPECT_EQ(harness.session->fetched_again().count(), 0);
  }
}

// Bare transfer / (1 - r), and a round or two until it is level.
TEST(JoinSession, TakesNoLongerThanItsShareOfTheLineAllows) {
  for (const Duration round : {seconds(1), seconds(2), seconds(4)}) {
    JoinHarness harness({.round = round}, {}, small_runs(), kSlow);
    const double bare = kState / kSlow, averages = 80'000.0 / 2 * (1 + 2.0 / 64);
    const double r = averages / (kSlow * round.seconds());
    harness.run(seconds(120));
    ASSERT_TRUE(harness.level());
    EXPECT_LT(harness.now.ns * 1e-9, bare / (1 - r) * 1.1 + round.seconds()) << "r " << r;
  }
}

TEST(JoinSession, GoesOnWhereItWasWhenEverythingBreaks) {
  for (std::uint64_t from = 1; from <= 36; from += 5) {
    JoinHarness harness({.seed = from}, {}, small_runs(), kSlow);
    int broken = 0;
    harness.fate = [&](std::uint64_t id, const auto&) {
      if (id < from || id >= from + 5) return Fate::kAnswered;
      ++broken;
      return Fate::kBroken;
    };
    harness.run(seconds(120));
    ASSERT_TRUE(harness.level()) << "from ask " << from;
    EXPECT_EQ(broken, 5);
    EXPECT_TRUE(harness.equal());
    EXPECT_EQ(harness.session->fetched_again().count(), 0);
  }
}

TEST(JoinSession, AsksOthersWhenASourceFallsSilentAtAnyMessage) {
  for (std::uint64_t from = 1; from <= 50; from += 7) {
    JoinHarness harness({.sources = 3, .seed = from}, {}, small_runs(), kSlow);
    harness.fate = [&](std::uint64_t id, const JoinSession::Ask& ask) {
      return id >= from && ask.source.replica == ReplicaId(2) ? Fate::kSilent : Fate::kAnswered;
    };
    harness.run(seconds(300));
    ASSERT_TRUE(harness.level()) << "from ask " << from;
    EXPECT_TRUE(harness.equal());
  }
}

// The averages outweigh the log: int8 of a state of two vectors, so that an eighth falls behind.
TEST(JoinSession, FetchesAnewWhatTheSourcesDoNotKeep) {
  JoinHarness harness({.codec = CodecKind::kFp32, .round = seconds(4)}, {}, small_runs(),
                      kSlow * 1.4);
  int silent = 0;
  harness.fate = [&](std::uint64_t id, const JoinSession::Ask&) {
    // A while without any line: the log holds two rounds.
    if (id < 40 || silent >= 12) return Fate::kAnswered;
    ++silent;
    return Fate::kBroken;
  };
  harness.run(seconds(200));
  ASSERT_TRUE(harness.level());
  EXPECT_TRUE(harness.equal());
}

TEST(JoinSession, GivesUpWhenNoSourceAnswers) {
  JoinHarness harness({}, {}, small_runs(), kSlow);
  harness.fate = [](std::uint64_t id, const auto&) {
    return id > 9 ? Fate::kBroken : Fate::kAnswered;
  };
  harness.run(seconds(600));
  EXPECT_EQ(harness.session->state(), JoinSession::State::kGivenUp);
  EXPECT_EQ(harness.session->error().message, "the line broke");
  EXPECT_LT(harness.now, Instant{} + seconds(60));
}

TEST(JoinSession, TakesNewSourcesInPlaceOfThoseThatLeft) {
  JoinHarness harness({.sources = 3}, {}, small_runs(), kSlow);
  const auto all = JoinHarness::names(3);
  harness.session->set_sources({all[0]}, harness.now);
  int asked = 0;
  harness.fate = [&](std::uint64_t, const JoinSession::Ask& ask) {
    if (++asked == 30) harness.session->set_sources({all[1], all[2]}, harness.now);
    if (asked >= 30 && ask.source == all[0]) return Fate::kSilent;
    return Fate::kAnswered;
  };
  harness.run(seconds(120));
  ASSERT_TRUE(harness.level());
  EXPECT_TRUE(harness.equal());
}

TEST(JoinSession, GivesUpAtOnceWhenNobodyHasTheStateAnyMore) {
  JoinHarness harness({.sources = 2}, {}, small_runs(), kSlow);
  Instant told;
  harness.fate = [&](std::uint64_t id, const JoinSession::Ask&) {
    if (id == 20) harness.session->set_sources({}, told = harness.now);
    return id >= 20 ? Fate::kSilent : Fate::kAnswered;
  };
  harness.run(seconds(120));
  ASSERT_EQ(harness.session->state(), JoinSession::State::kGivenUp);
  EXPECT_EQ(harness.session->error().code, Code::kUnavailable);
  EXPECT_LT(harness.now - told, seconds(1));
}

TEST(JoinSession, WhatIsLevelNeedsNoSource) {
  JoinHarness harness({}, {}, small_runs(), kSlow);
  harness.commits = false;
  harness.run(seconds(120));
  ASSERT_TRUE(harness.level());
  harness.session->set_sources({}, harness.now);
  harness.session->next(harness.now + seconds(60));
  EXPECT_EQ(harness.session->state(), JoinSession::State::kLevel);
}

TEST(JoinSession, TakesOneStateOfOneSourceWhereRunsCannotFollow) {
  JoinHarness harness({}, {.mode = JoinMode::kAnyRound}, small_runs(), kSlow);
  harness.run(seconds(30));
  ASSERT_EQ(harness.session->state(), JoinSession::State::kLevel);
  TestStage first(StageSetup{});
  EXPECT_EQ(harness.target.anchor, first.state().anchor);  // that of the round when it began
}

TEST(JoinSession, BeginsAnewAtAnotherSourceWhereThePinnedOneLeft) {
  JoinHarness harness({}, {.mode = JoinMode::kAnyRound}, small_runs(), kSlow);
  const auto all = JoinHarness::names(2);
  harness.fate = [&](std::uint64_t id, const JoinSession::Ask& ask) {
    if (id == 20)
      harness.session->set_sources({ask.source == all[0] ? all[1] : all[0]}, harness.now);
    return Fate::kAnswered;
  };
  harness.run(seconds(60));
  ASSERT_EQ(harness.session->state(), JoinSession::State::kLevel);
  EXPECT_GT(harness.session->fetched_again().count(), 0);
}

}  // namespace
}  // namespace shoal::outer_opt
