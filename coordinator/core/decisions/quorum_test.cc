// When a round is frozen, and who is waited for. Constructed input and a chosen now.
#include "coordinator/core/decisions/quorum.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr Instant kStart{1'000'000'000'000};
Instant at(double s) { return kStart + seconds_f(s); }

QuorumInput three_trainers(std::vector<std::optional<double>> reports, double now) {
  QuorumInput input;
  input.now = at(now);
  input.opened_at = kStart;
  input.min_replicas = 2;
  input.in_sync = 3;
  std::uint64_t id = 1;
  for (const auto& report : reports) {
    QuorumMember member{.replica = ReplicaId(id++), .reported_at = {}, .serving_since = {}};
    if (report) member.reported_at = at(*report);
    input.trainers.push_back(member);
  }
  return input;
}

TEST(Quorum, FreezesWhenEverybodyReported) {
  const auto decision = decide_quorum(three_trainers({10.0, 11.0, 12.0}, 12), Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kFreeze);
  EXPECT_EQ(decision.reason, QuorumReason::kAllReported);
  EXPECT_EQ(decision.reported, 3);
  EXPECT_EQ(decision.trainers, 3);
  auto just_enough = three_trainers({10.0, 11.0, 12.0}, 12);
  just_enough.in_sync = just_enough.min_replicas;
  EXPECT_EQ(decide_quorum(just_enough, Options{}).verdict, QuorumVerdict::kFreeze);
}

TEST(Quorum, WaitsWithoutDeadlineWhileFewerThanHalfReported) {
  const auto decision = decide_quorum(three_trainers({10.0, {}, {}}, 5000), Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_FALSE(decision.wakeup_at);
}

TEST(Quorum, ClosesThenFreezesTheStraggler) {
  Options options;  // grace: max(30 s, half of 100 s)
  auto decision = decide_quorum(three_trainers({90.0, 100.0, {}}, 120), options);
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.wakeup_at, at(150));
  decision = decide_quorum(three_trainers({90.0, 100.0, {}}, 150), options);
  EXPECT_EQ(decision.verdict, QuorumVerdict::kClose);
  EXPECT_EQ(decision.silent, std::vector{ReplicaId(3)});
  EXPECT_EQ(decision.wakeup_at, at(180));
  decision = decide_quorum(three_trainers({90.0, 100.0, {}}, 180), options);
  EXPECT_EQ(decision.verdict, QuorumVerdict::kGiveUp);
}

// Half of four have reported, the later of them at 100 s, in whichever order they are listed.
TEST(Quorum, TheGraceBeginsWithTheReportThatMadeItHalf) {
  const auto decision = decide_quorum(three_trainers({100.0, 90.0, {}, {}}, 120), Options{});
  EXPECT_EQ(decision.wakeup_at, at(150));
}

// It says now and then that it trains: its step is what takes so long.
TEST(Quorum, AStragglerWithLongStepsHasTheTimeOfItsSteps) {
  auto input = three_trainers({90.0, 100.0, {}}, 181);
  input.trainers[2].patience = seconds(400);
  auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kClose);
  EXPECT_EQ(decision.wakeup_at, at(550));
  input.now = at(550);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kGiveUp);
}

TEST(Quorum, WhoHangsIsAskedAndThenFrozenBeforeAnybodyReported) {
  auto input = three_trainers({{}, {}, {}}, 99);
  input.trainers[1].hung_at = at(100);
  auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.wakeup_at, at(100));
  input.now = at(100);
  decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.hung, std::vector{ReplicaId(2)});
  EXPECT_EQ(decision.wakeup_at, at(130));
  input.now = at(130);
  decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kGiveUp);
  EXPECT_EQ(decision.reason, QuorumReason::kHung);
  EXPECT_EQ(decision.silent, std::vector{ReplicaId(2)}) << "the others train";
}

TEST(Quorum, TheOnlyReplicaOfAJobCanHang) {
  auto input = three_trainers({{}}, 130);
  input.min_replicas = input.in_sync = 1;
  input.trainers[0].hung_at = at(100);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kGiveUp);
}

TEST(Quorum, WhoReportedDoesNotHang) {
  auto input = three_trainers({90.0, 95.0, 99.0}, 500);
  input.trainers[0].hung_at = at(100);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kFreeze);
}

// Half of them can continue without it.
TEST(Quorum, AnAsynchronousRoundIsFrozenWhoeverHangs) {
  auto input = three_trainers({80.0, 90.0, {}}, 500);
  input.enough = 2;
  input.trainers[2].hung_at = at(100);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kFreeze);
}

TEST(Quorum, WhoComesLateHasItsOwnTime) {
  auto input = three_trainers({90.0, 100.0, {}}, 500);
  input.trainers[2].serving_since = at(495);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decide_quorum(input, Options{}).wakeup_at, at(545));
}

TEST(Quorum, ShortRoundsGiveAtLeastTheMinimumGrace) {
  const auto decision = decide_quorum(three_trainers({1.0, 2.0, {}}, 3), Options{});
  EXPECT_EQ(decision.wakeup_at, at(32));
}

TEST(Quorum, NeverFreezesBelowTheMinimum) {
  auto input = three_trainers({10.0}, 1000);
  input.in_sync = 1;
  const auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.reason, QuorumReason::kBelowMinReplicas);
}

TEST(Quorum, GivesAJoinerAShortGrace) {
  auto input = three_trainers({10.0, 11.0, 12.0}, 12);
  input.loading_since = {at(9), at(2)};
  auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.reason, QuorumReason::kWaitingForJoiners);
  EXPECT_EQ(decision.wakeup_at, at(14));
  input.now = at(14);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kFreeze);
}

TEST(Quorum, ARoundThatWasLateGivesAJoinerNoGrace) {
  auto input = three_trainers({3.0, 4.0, 12.0}, 8);
  input.loading_since = {at(11)};
  input.trainers[2].reported_at = {};
  EXPECT_EQ(decide_quorum(input, Options{}).reason, QuorumReason::kWaitingForReports);
  input.now = at(12);
  input.trainers[2].reported_at = at(12);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kFreeze);
}

TEST(Quorum, SaysWhenNobodyTrains) {
  EXPECT_EQ(decide_quorum(three_trainers({}, 1), Options{}).reason, QuorumReason::kNobodyTrains);
}

// Asynchronous: two of three are enough, and a moment for those that come at about the same time.
TEST(Quorum, EnoughReportsFreezeAfterAMoment) {
  auto input = three_trainers({80.0, 100.0, {}}, 101);
  input.enough = 2;
  auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.wakeup_at, at(105));  // a twentieth of the round's age
  input.now = at(105);
  decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kFreeze);
  EXPECT_EQ(decision.reason, QuorumReason::kEnoughReported);
  EXPECT_EQ(decision.silent, std::vector<ReplicaId>{ReplicaId(3)});
}

TEST(Quorum, AnUnusableReportIsNotOneOfThose) {
  auto input = three_trainers({80.0, 100.0, {}}, 110);
  input.enough = 2;
  input.trainers[0].usable = false;
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kWait);
  input = three_trainers({80.0, 100.0, 110.0}, 110);
  input.enough = 2;
  input.trainers[0].usable = input.trainers[1].usable = false;
  EXPECT_EQ(decide_quorum(input, Options{}).reason, QuorumReason::kAllReported);
}

TEST(Quorum, WithFewerThanEnoughStragglersAreClosedAsEver) {
  auto input = three_trainers({90.0, 100.0, {}}, 150);
  input.enough = 3;
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kClose);
}

TEST(Quorum, HalfOfTheReplicasAreEnoughUnlessTheJobSaysOtherwise) {
  EXPECT_EQ(enough_reports(SyncSpec(), 4), 0);
  SyncSpec sync{.algorithm = SyncAlgorithm::kAsync};
  EXPECT_EQ(enough_reports(sync, 4), 2);
  EXPECT_EQ(enough_reports(sync, 5), 3);
  EXPECT_EQ(enough_reports(sync, 1), 1);
  sync.quorum = 3;
  EXPECT_EQ(enough_reports(sync, 8), 3);
  EXPECT_EQ(enough_reports(sync, 2), 2);
}

}  // namespace
}  // namespace shoal::coordinator
