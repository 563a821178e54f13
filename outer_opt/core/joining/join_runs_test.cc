// What answers do to the runs of a joiner.
#include "outer_opt/core/joining/join_session.h"
#include "outer_opt/core/joining/joining_test_util.h"

namespace shoal::outer_opt {
namespace {

using Fate = JoinWorld::Fate;

// A state of 640 kB over a line of 80 kB/s: 8 s bare; int4 averages of 41 kB a round.
constexpr double kSlow = 80e3;

TEST(JoinRuns, DropsASourceThatSendsWhatCannotBe) {
  const std::vector<std::function<void(StateAnswer&)>> lies = {
      [](StateAnswer& a) { a.values.push_back(1); },
      [](StateAnswer& a) { a.rounds.clear(), a.values.clear(); },
      [](StateAnswer& a) {
        for (AverageSlice& round : a.rounds) ++round.terms.round;
        if (a.rounds.empty()) a.values.clear();
      },
      [](StateAnswer& a) {
        for (AverageSlice& round : a.rounds) round.terms.fragment = 99;
        if (a.rounds.empty()) a.values.clear();
      },
      [](StateAnswer& a) {
        for (AverageSlice& round : a.rounds) {
          for (AverageSegment& segment : round.segments) segment.count = INT64_MAX;
        }
        if (a.rounds.empty()) a.values.clear();
      },
  };
  for (std::size_t lie = 0; lie < lies.size(); ++lie) {
    JoinWorld world({.sources = 2}, {}, small_runs(), kSlow);
    world.spoil = lies[lie];
    world.fate = [](std::uint64_t id, const JoinSession::Ask& ask) {
      return id > 20 && ask.source.replica == ReplicaId(1) ? Fate::kSpoiled : Fate::kAnswered;
    };
    world.run(seconds(120));
    ASSERT_TRUE(world.level()) << "lie " << lie;
    EXPECT_TRUE(world.equal());
    const auto complaints = world.session->take_complaints();
    ASSERT_EQ(complaints.size(), 1u);
    EXPECT_NE(complaints[0].find("host:1"), std::string::npos) << complaints[0];
  }
}

TEST(JoinRuns, TakesTheMomentsOfOneCopyLast) {
  JoinWorld world({}, {.moments = 80'007}, small_runs(), kSlow);
  world.run(seconds(120));
  ASSERT_TRUE(world.level());
  EXPECT_TRUE(world.equal());
  ASSERT_EQ(world.target.moments.size(), 80'007u);
  EXPECT_EQ(world.target.moments[0], 1.5f);
  EXPECT_EQ(world.target.moments[80'006], 2.5f);
  EXPECT_GT(world.session->adam_step(), 10);
}

TEST(JoinRuns, SaysHowFarItIs) {
  JoinWorld world({}, {}, small_runs(), kSlow);
  EXPECT_EQ(world.session->total(), Bytes(640'000));
  EXPECT_EQ(world.session->done(), Bytes(0));
  world.run(seconds(60));
  EXPECT_EQ(world.session->done(), Bytes(640'000));
}

// Copies of the outer state have no moments to give: a joiner begins with none.
TEST(JoinRuns, GoesWithoutMomentsWhereEverySourceKeepsNone) {
  JoinWorld world({}, {.moments = 80'007}, small_runs(), kSlow);
  for (const auto& source : world.sources) source->keep_no_moments();
  world.run(seconds(60));
  ASSERT_TRUE(world.level());
  EXPECT_TRUE(world.equal());
  EXPECT_EQ(world.session->adam_step(), 0);
  ASSERT_EQ(world.target.moments.size(), 80'007u);
  EXPECT_EQ(world.target.moments[80'006], 0.0f);
}

TEST(JoinRuns, TakesTheMomentsOfTheOneSourceThatHasThem) {
  JoinWorld world({}, {.moments = 80'007}, small_runs(), kSlow);
  world.sources[0]->keep_no_moments();
  world.run(seconds(60));
  ASSERT_TRUE(world.level());
  EXPECT_GT(world.session->adam_step(), 0);
  EXPECT_EQ(world.target.moments[80'006], 2.5f);
}

}  // namespace
}  // namespace shoal::outer_opt
