#include "outer_opt/core/joining/join_session.h"

#include "outer_opt/core/joining/joining_test_util.h"

namespace shoal::outer_opt {
namespace {

using Fate = JoinWorld::Fate;

// A state of 640 kB over a line of 80 kB/s: 8 s bare; int4 averages of 41 kB a round.
constexpr double kSlow = 80e3, kState = 640e3;

TEST(JoinSession, ComesToTheStateWhileRoundsGoOn) {
  for (const std::int64_t fragments : {1, 4}) {
    JoinWorld world({.fragments = fragments}, {}, small_runs(), kSlow);
    world.run(seconds(60));
    ASSERT_TRUE(world.level());
    EXPECT_TRUE(world.equal());
    EXPECT_GT(world.stage.round(), 8);
    EXPECT_EQ(world.session->fetched_again().count(), 0);
  }
}

// Bare transfer / (1 - r), and a round or two until it is level.
TEST(JoinSession, TakesNoLongerThanItsShareOfTheLineAllows) {
  for (const Duration round : {seconds(1), seconds(2), seconds(4)}) {
    JoinWorld world({.round = round}, {}, small_runs(), kSlow);
    const double bare = kState / kSlow, averages = 80'000.0 / 2 * (1 + 2.0 / 64);
    const double r = averages / (kSlow * round.seconds());
    world.run(seconds(120));
    ASSERT_TRUE(world.level());
    EXPECT_LT(world.now.ns * 1e-9, bare / (1 - r) * 1.1 + round.seconds()) << "r " << r;
  }
}

TEST(JoinSession, GoesOnWhereItWasWhenEverythingBreaks) {
  for (std::uint64_t from = 1; from <= 36; from += 5) {
    JoinWorld world({.seed = from}, {}, small_runs(), kSlow);
    int broken = 0;
    world.fate = [&](std::uint64_t id, const auto&) {
      if (id < from || id >= from + 5) return Fate::kAnswered;
      ++broken;
      return Fate::kBroken;
    };
    world.run(seconds(120));
    ASSERT_TRUE(world.level()) << "from ask " << from;
    EXPECT_EQ(broken, 5);
    EXPECT_TRUE(world.equal());
    EXPECT_EQ(world.session->fetched_again().count(), 0);
  }
}

TEST(JoinSession, AsksOthersWhenASourceFallsSilentAtAnyMessage) {
  for (std::uint64_t from = 1; from <= 50; from += 7) {
    JoinWorld world({.sources = 3, .seed = from}, {}, small_runs(), kSlow);
    world.fate = [&](std::uint64_t id, const JoinSession::Ask& ask) {
      return id >= from && ask.source.replica == ReplicaId(2) ? Fate::kSilent : Fate::kAnswered;
    };
    world.run(seconds(300));
    ASSERT_TRUE(world.level()) << "from ask " << from;
    EXPECT_TRUE(world.equal());
  }
}

// The averages outweigh the log: int8 of a state of two vectors, so that an eighth falls behind.
TEST(JoinSession, FetchesAnewWhatTheSourcesDoNotKeep) {
  JoinWorld world({.codec = CodecKind::kFp32, .round = seconds(4)}, {}, small_runs(), kSlow * 1.4);
  int silent = 0;
  world.fate = [&](std::uint64_t id, const JoinSession::Ask&) {
    // A while without any line: the log holds two rounds.
    if (id < 40 || silent >= 12) return Fate::kAnswered;
    ++silent;
    return Fate::kBroken;
  };
  world.run(seconds(200));
  ASSERT_TRUE(world.level());
  EXPECT_TRUE(world.equal());
}

TEST(JoinSession, GivesUpWhenNoSourceAnswers) {
  JoinWorld world({}, {}, small_runs(), kSlow);
  world.fate = [](std::uint64_t id, const auto&) {
    return id > 9 ? Fate::kBroken : Fate::kAnswered;
  };
  world.run(seconds(600));
  EXPECT_EQ(world.session->state(), JoinSession::State::kGivenUp);
  EXPECT_EQ(world.session->error().message, "the line broke");
  EXPECT_LT(world.now, Instant{} + seconds(60));
}

TEST(JoinSession, TakesNewSourcesInPlaceOfThoseThatLeft) {
  JoinWorld world({.sources = 3}, {}, small_runs(), kSlow);
  const auto all = JoinWorld::names(3);
  world.session->set_sources({all[0]}, world.now);
  int asked = 0;
  world.fate = [&](std::uint64_t, const JoinSession::Ask& ask) {
    if (++asked == 30) world.session->set_sources({all[1], all[2]}, world.now);
    if (asked >= 30 && ask.source == all[0]) return Fate::kSilent;
    return Fate::kAnswered;
  };
  world.run(seconds(120));
  ASSERT_TRUE(world.level());
  EXPECT_TRUE(world.equal());
}

TEST(JoinSession, TakesOneStateOfOneSourceWhereRunsCannotFollow) {
  JoinWorld world({}, {.mode = JoinMode::kAnyRound}, small_runs(), kSlow);
  world.run(seconds(30));
  ASSERT_EQ(world.session->state(), JoinSession::State::kLevel);
  TestStage first(StageSetup{});
  EXPECT_EQ(world.target.anchor, first.state().anchor);  // that of the round when it began
}

TEST(JoinSession, BeginsAnewAtAnotherSourceWhereThePinnedOneLeft) {
  JoinWorld world({}, {.mode = JoinMode::kAnyRound}, small_runs(), kSlow);
  const auto all = JoinWorld::names(2);
  world.fate = [&](std::uint64_t id, const JoinSession::Ask& ask) {
    if (id == 20) world.session->set_sources({ask.source == all[0] ? all[1] : all[0]}, world.now);
    return Fate::kAnswered;
  };
  world.run(seconds(60));
  ASSERT_EQ(world.session->state(), JoinSession::State::kLevel);
  EXPECT_GT(world.session->fetched_again().count(), 0);
}

}  // namespace
}  // namespace shoal::outer_opt
