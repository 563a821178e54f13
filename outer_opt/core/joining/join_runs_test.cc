// What answers do to the runs of a joiner.
#include <optional>

#include "outer_opt/core/joining/join_session.h"
#include "outer_opt/core/joining/joining_test_util.h"

namespace shoal::outer_opt {
namespace {

using Fate = JoinHarness::Fate;

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
    JoinHarness harness({.sources = 2}, {}, small_runs(), kSlow);
    harness.spoil = lies[lie];
    harness.fate = [](std::uint64_t id, const JoinSession::Ask& ask) {
      return id > 20 && ask.source.replica == ReplicaId(1) ? Fate::kSpoiled : Fate::kAnswered;
    };
    harness.run(seconds(120));
    ASSERT_TRUE(harness.level()) << "lie " << lie;
    EXPECT_TRUE(harness.equal());
    const auto complaints = harness.session->take_complaints();
    ASSERT_EQ(complaints.size(), 1u);
    EXPECT_NE(complaints[0].find("host:1"), std::string::npos) << complaints[0];
  }
}

TEST(JoinRuns, DropsASourceThatIsOlderThanItSays) {
  JoinHarness harness({.sources = 3}, {}, small_runs(), kSlow);
  harness.spoil = [](StateAnswer& answer) { answer.held += 1'000'000'000; };
  harness.fate = [](auto, const JoinSession::Ask& ask) {
    const bool lies = ask.source.replica == ReplicaId(2) && ask.ask.kind == AskKind::kState;
    return lies ? Fate::kSpoiled : Fate::kAnswered;
  };
  harness.run(seconds(300));
  ASSERT_TRUE(harness.level());
  EXPECT_TRUE(harness.equal());
  const auto complaints = harness.session->take_complaints();
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find("host:2"), std::string::npos) << complaints[0];
}

// It was heard once: the others cannot tell it from one that died right after a commit.
TEST(JoinRuns, ForgetsWhatASourceSaidThatIsSilentSince) {
  JoinHarness harness({.sources = 2}, {}, small_runs(), kSlow);
  harness.spoil = [](StateAnswer& answer) { answer.held += 1'000'000'000; };
  bool once = true;
  harness.fate = [&](auto, const JoinSession::Ask& ask) {
    if (ask.source.replica != ReplicaId(2)) return Fate::kAnswered;
    return std::exchange(once, false) ? Fate::kSpoiled : Fate::kSilent;
  };
  harness.run(seconds(400));
  ASSERT_TRUE(harness.level());
  EXPECT_TRUE(harness.equal());
  EXPECT_TRUE(harness.session->take_complaints().empty());
}

TEST(JoinRuns, TakesTheMomentsOfOneCopyLast) {
  JoinHarness harness({}, {.moments = 80'007}, small_runs(), kSlow);
  harness.run(seconds(120));
  ASSERT_TRUE(harness.level());
  EXPECT_TRUE(harness.equal());
  ASSERT_EQ(harness.target.moments.size(), 80'007u);
  EXPECT_EQ(harness.target.moments[0], 1.5f);
  EXPECT_EQ(harness.target.moments[80'006], 2.5f);
  EXPECT_GT(harness.session->adam_step(), 10);
}

// One value of one run, as a copy that changes while it is read, or a damaged memory, would have.
TEST(JoinRuns, MomentsThatAreNotThoseAnnouncedAreTakenFromAnotherSource) {
  JoinHarness harness({.sources = 2}, {.moments = 80'007}, small_runs(), kSlow);
  std::optional<ReplicaId> liar;
  harness.fate = [&](std::uint64_t, const JoinSession::Ask& ask) {
    const bool is_second = ask.ask.kind == AskKind::kMoments && ask.ask.run.first == 4096;
    if (is_second && !liar) liar = ask.source.replica;
    return is_second && ask.source.replica == liar ? Fate::kSpoiled : Fate::kAnswered;
  };
  harness.spoil = [](StateAnswer& answer) { answer.values[7] += 1; };
  harness.run(seconds(240));
  ASSERT_TRUE(harness.level());
  EXPECT_TRUE(harness.equal());
  EXPECT_EQ(harness.target.moments[4096 + 7], 1.5f);
  const auto complaints = harness.session->take_complaints();
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find("announced"), std::string::npos) << complaints[0];
}

TEST(JoinRuns, SaysHowFarItIs) {
  JoinHarness harness({}, {}, small_runs(), kSlow);
  EXPECT_EQ(harness.session->total(), Bytes(640'000));
  EXPECT_EQ(harness.session->done(), Bytes(0));
  harness.run(seconds(60));
  EXPECT_EQ(harness.session->done(), Bytes(640'000));
}

// 80'007 values end within a run, 20 x 4096 with one.
TEST(JoinRuns, TakesAllOfACopyWhoseSizeOnlyItsSourceKnows) {
  for (const std::int64_t size : {1, 4'096, 80'007, 81'920}) {
    JoinHarness harness({.values = size - 7 > 0 ? size - 7 : 1}, {.open_moments = true},
                        small_runs(), kSlow);
    const std::int64_t copied = std::max<std::int64_t>(size, 8);  // seven second ones
    harness.run(seconds(240));
    ASSERT_TRUE(harness.level()) << size;
    EXPECT_TRUE(harness.equal());
    ASSERT_EQ(std::ssize(harness.target.moments), copied);
    EXPECT_EQ(harness.target.moments.front(), 1.5f);
    EXPECT_EQ(harness.target.moments.back(), 2.5f);
    EXPECT_TRUE(harness.session->take_complaints().empty());
  }
}

TEST(JoinRuns, AnOpenCopyThatChangesIsTakenFromAnotherSource) {
  JoinHarness harness({.sources = 2}, {.open_moments = true}, small_runs(), kSlow);
  std::optional<ReplicaId> liar;
  harness.fate = [&](std::uint64_t, const JoinSession::Ask& ask) {
    const bool is_second = ask.ask.kind == AskKind::kMoments && ask.ask.run.first == 4096;
    if (is_second && !liar) liar = ask.source.replica;
    return is_second && ask.source.replica == liar ? Fate::kSpoiled : Fate::kAnswered;
  };
  harness.spoil = [](StateAnswer& answer) { answer.values[7] += 1; };
  harness.run(seconds(240));
  ASSERT_TRUE(harness.level());
  EXPECT_EQ(harness.target.moments[4096 + 7], 1.5f);
  EXPECT_EQ(std::ssize(harness.target.moments), 80'007);
  EXPECT_EQ(harness.session->take_complaints().size(), 1u);
}

// Copies of the outer state have no moments to give: a joiner begins with none.
TEST(JoinRuns, GoesWithoutMomentsWhereEverySourceKeepsNone) {
  JoinHarness harness({}, {.moments = 80'007}, small_runs(), kSlow);
  for (const auto& source : harness.sources) source->keep_no_moments();
  harness.run(seconds(60));
  ASSERT_TRUE(harness.level());
  EXPECT_TRUE(harness.equal());
  EXPECT_EQ(harness.session->adam_step(), 0);
  ASSERT_EQ(harness.target.moments.size(), 80'007u);
  EXPECT_EQ(harness.target.moments[80'006], 0.0f);
}

TEST(JoinRuns, TakesTheMomentsOfTheOneSourceThatHasThem) {
  JoinHarness harness({}, {.moments = 80'007}, small_runs(), kSlow);
  harness.sources[0]->keep_no_moments();
  harness.run(seconds(60));
  ASSERT_TRUE(harness.level());
  EXPECT_GT(harness.session->adam_step(), 0);
  EXPECT_EQ(harness.target.moments[80'006], 2.5f);
}

}  // namespace
}  // namespace shoal::outer_opt
