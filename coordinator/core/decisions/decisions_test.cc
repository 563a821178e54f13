// The pure decisions: quorum, arrivals, attempt, shares of a batch. Constructed state and a chosen
// now.
#include <cmath>

#include <gtest/gtest.h>

#include "coordinator/core/decisions/arrivals.h"
#include "coordinator/core/decisions/attempt.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/decisions/quorum.h"

namespace shoal::coordinator {
namespace {

constexpr Instant kStart{1'000'000'000'000};
Instant at(double s) { return kStart + seconds_f(s); }

// ---- quorum

QuorumInput three_trainers(std::vector<std::optional<double>> reports, double now) {
  QuorumInput input;
  input.now = at(now);
  input.opened_at = kStart;
  input.min_replicas = 2;
  input.holders = 3;
  std::uint64_t id = 1;
  for (const auto& report : reports) {
    QuorumMember member{.replica = ReplicaId(id++), .reported_at = {}, .serving_since = {}};
    if (report) member.reported_at = at(*report);
    input.trainers.push_back(member);
  }
  return input;
}

TEST(Quorum, SealsWhenEverybodyReported) {
  const auto decision = decide_quorum(three_trainers({10.0, 11.0, 12.0}, 12), Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kSeal);
  EXPECT_EQ(decision.reason, QuorumReason::kAllReported);
  EXPECT_EQ(decision.reported, 3);
  EXPECT_EQ(decision.trainers, 3);
  auto just_enough = three_trainers({10.0, 11.0, 12.0}, 12);
  just_enough.holders = just_enough.min_replicas;
  EXPECT_EQ(decide_quorum(just_enough, Options{}).verdict, QuorumVerdict::kSeal);
}

TEST(Quorum, WaitsWithoutDeadlineWhileFewerThanHalfReported) {
  const auto decision = decide_quorum(three_trainers({10.0, {}, {}}, 5000), Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_FALSE(decision.look_again_at);
}

TEST(Quorum, ClosesThenFreezesTheStraggler) {
  Options options;  // grace: max(30 s, half of 100 s)
  auto decision = decide_quorum(three_trainers({90.0, 100.0, {}}, 120), options);
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.look_again_at, at(150));
  decision = decide_quorum(three_trainers({90.0, 100.0, {}}, 150), options);
  EXPECT_EQ(decision.verdict, QuorumVerdict::kClose);
  EXPECT_EQ(decision.silent, std::vector{ReplicaId(3)});
  EXPECT_EQ(decision.look_again_at, at(180));
  decision = decide_quorum(three_trainers({90.0, 100.0, {}}, 180), options);
  EXPECT_EQ(decision.verdict, QuorumVerdict::kFreeze);
}

// Half of four have reported, the later of them at 100 s, whoever comes first in the list.
TEST(Quorum, TheGraceBeginsWithTheReportThatMadeItHalf) {
  const auto decision = decide_quorum(three_trainers({100.0, 90.0, {}, {}}, 120), Options{});
  EXPECT_EQ(decision.look_again_at, at(150));
}

// It says now and then that it trains: its step is what takes so long.
TEST(Quorum, AStragglerWithLongStepsHasTheTimeOfItsSteps) {
  auto input = three_trainers({90.0, 100.0, {}}, 181);
  input.trainers[2].patience = seconds(400);
  auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kClose);
  EXPECT_EQ(decision.look_again_at, at(550));
  input.now = at(550);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kFreeze);
}

TEST(Quorum, WhoHangsIsAskedAndThenFrozenBeforeAnybodyReported) {
  auto input = three_trainers({{}, {}, {}}, 99);
  input.trainers[1].hung_at = at(100);
  auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.look_again_at, at(100));
  input.now = at(100);
  decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.hung, std::vector{ReplicaId(2)});
  EXPECT_EQ(decision.look_again_at, at(130));
  input.now = at(130);
  decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kFreeze);
  EXPECT_EQ(decision.reason, QuorumReason::kHung);
  EXPECT_EQ(decision.silent, std::vector{ReplicaId(2)}) << "the others train";
}

TEST(Quorum, TheOnlyReplicaOfAJobCanHang) {
  auto input = three_trainers({{}}, 130);
  input.min_replicas = input.holders = 1;
  input.trainers[0].hung_at = at(100);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kFreeze);
}

TEST(Quorum, WhoReportedDoesNotHang) {
  auto input = three_trainers({90.0, 95.0, 99.0}, 500);
  input.trainers[0].hung_at = at(100);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kSeal);
}

// Half of them can go on without it.
TEST(Quorum, AnAsynchronousRoundIsSealedWhoeverHangs) {
  auto input = three_trainers({80.0, 90.0, {}}, 500);
  input.enough = 2;
  input.trainers[2].hung_at = at(100);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kSeal);
}

TEST(Quorum, WhoComesLateHasItsOwnTime) {
  auto input = three_trainers({90.0, 100.0, {}}, 500);
  input.trainers[2].serving_since = at(495);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decide_quorum(input, Options{}).look_again_at, at(545));
}

TEST(Quorum, ShortRoundsGiveAtLeastTheMinimumGrace) {
  const auto decision = decide_quorum(three_trainers({1.0, 2.0, {}}, 3), Options{});
  EXPECT_EQ(decision.look_again_at, at(32));
}

TEST(Quorum, NeverSealsBelowTheMinimum) {
  auto input = three_trainers({10.0}, 1000);
  input.holders = 1;
  const auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.reason, QuorumReason::kBelowMinReplicas);
}

TEST(Quorum, GivesAJoinerAShortGrace) {
  auto input = three_trainers({10.0, 11.0, 12.0}, 12);
  input.loading_since = {at(9), at(2)};
  auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.reason, QuorumReason::kWaitingForJoiners);
  EXPECT_EQ(decision.look_again_at, at(14));
  input.now = at(14);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kSeal);
}

TEST(Quorum, ARoundThatWasLateGivesAJoinerNoGrace) {
  auto input = three_trainers({3.0, 4.0, 12.0}, 8);
  input.loading_since = {at(11)};
  input.trainers[2].reported_at = {};
  EXPECT_EQ(decide_quorum(input, Options{}).reason, QuorumReason::kWaitingForReports);
  input.now = at(12);
  input.trainers[2].reported_at = at(12);
  EXPECT_EQ(decide_quorum(input, Options{}).verdict, QuorumVerdict::kSeal);
}

TEST(Quorum, SaysWhenNobodyTrains) {
  EXPECT_EQ(decide_quorum(three_trainers({}, 1), Options{}).reason, QuorumReason::kNobodyTrains);
}

// Asynchronous: two of three are enough, and a moment for those that come at about the same time.
TEST(Quorum, EnoughReportsSealAfterAMoment) {
  auto input = three_trainers({80.0, 100.0, {}}, 101);
  input.enough = 2;
  auto decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kWait);
  EXPECT_EQ(decision.look_again_at, at(105));  // a twentieth of the round's age
  input.now = at(105);
  decision = decide_quorum(input, Options{});
  EXPECT_EQ(decision.verdict, QuorumVerdict::kSeal);
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
  SyncSpec sync;
  EXPECT_EQ(enough_reports(sync, 4), 0);
  sync.algorithm = SyncAlgorithm::kAsync;
  EXPECT_EQ(enough_reports(sync, 4), 2);
  EXPECT_EQ(enough_reports(sync, 5), 3);
  EXPECT_EQ(enough_reports(sync, 1), 1);
  sync.quorum = 3;
  EXPECT_EQ(enough_reports(sync, 8), 3);
  EXPECT_EQ(enough_reports(sync, 2), 2);
}

// ---- arrivals

TEST(Arrivals, NContributionsAreOneRoundOfEverybody) {
  Steps at;
  std::int64_t carried = 0;
  double kept = 1;
  JobSpec spec;
  spec.train.steps = Steps(1000);
  spec.sync.every = Steps(50);
  for (int round = 1; round <= 12; ++round) {
    const Arrived arrived = count_arrivals(at, carried, {3, 1, 50});
    EXPECT_DOUBLE_EQ(arrived.share, 1.0 / 3);
    kept *= terms_of(spec, arrived.share, at, arrived.to_step).decay;
    at = arrived.to_step, carried = arrived.carried_steps;
    EXPECT_EQ(at.count() * 3 + carried, 50 * round);
  }
  EXPECT_EQ(at, Steps(200));
  EXPECT_NEAR(kept, std::pow(spec.sync.outer.momentum, 4), 1e-12);
}

TEST(Arrivals, ARoundOfEverybodyIsOneRenewal) {
  JobSpec spec;
  spec.sync.every = Steps(50);
  const outer_opt::DelayedTerms terms = terms_of(spec, 1, Steps(100), Steps(150));
  EXPECT_EQ(terms.decay, spec.sync.outer.momentum);
  EXPECT_EQ(terms.push, spec.sync.outer.momentum);
  EXPECT_EQ(terms_of(spec, 1, Steps(100), Steps(100)).push, 0);
}

TEST(Arrivals, WithoutAContributionNothingMoves) {
  const Arrived arrived = count_arrivals(Steps(7), 2, {4, 0, 0});
  EXPECT_EQ(arrived.to_step, Steps(7));
  EXPECT_EQ(arrived.carried_steps, 2);
  EXPECT_EQ(arrived.share, 0);
}

// ---- attempt

constexpr Digest kA{1, 1}, kB{2, 2};

AttemptMember voted(std::uint64_t id, Digest digest, bool alive = true) {
  return {.replica = ReplicaId(id),
          .alive = alive,
          .vote = digest,
          .failed = false,
          .complains_about = {}};
}
AttemptMember silent(std::uint64_t id, bool alive = true) {
  return {
      .replica = ReplicaId(id), .alive = alive, .vote = {}, .failed = false, .complains_about = {}};
}
AttemptMember failed(std::uint64_t id, std::uint64_t about) {
  return {.replica = ReplicaId(id),
          .alive = true,
          .vote = {},
          .failed = true,
          .complains_about = ReplicaId(about)};
}

AttemptInput attempt_of(std::vector<AttemptMember> members, double now = 1) {
  AttemptInput input;
  input.now = at(now);
  input.started_at = kStart;
  input.time_limit = seconds(20);
  input.members = std::move(members);
  for (const auto& member : input.members) {
    if (member.failed) input.first_failure_at = kStart;
  }
  return input;
}

TEST(Attempt, CommitsOnEqualVotes) {
  const auto decision = judge_attempt(attempt_of({voted(1, kA), voted(2, kA)}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);
  EXPECT_EQ(decision.average, kA);
  EXPECT_TRUE(decision.exclude.empty());
}

TEST(Attempt, AMemberLostAfterItsVoteDoesNotBlock) {
  const auto decision =
      judge_attempt(attempt_of({voted(1, kA), voted(2, kA, false), voted(3, kA)}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);
}

TEST(Attempt, AMemberLostBeforeItsVoteBlocksOnlyWhileOthersMissVotes) {
  auto decision =
      judge_attempt(attempt_of({voted(1, kA), silent(2, false), voted(3, kA)}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);  // both survivors have the whole average
  decision = judge_attempt(attempt_of({voted(1, kA), silent(2, false), silent(3)}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kRetry);
  EXPECT_EQ(decision.reason, AttemptReason::kMemberDied);
  EXPECT_TRUE(decision.exclude.empty());
}

AttemptMember owner(AttemptMember member) {
  member.owns_part = true;
  return member;
}
AttemptMember left_out(AttemptMember member) {
  member.left_out = true;
  return member;
}

// Of an attempt of two owners that agree and this third member.
std::vector<ReplicaId> left_out_with(AttemptMember third) {
  const auto decision = judge_attempt(
      attempt_of({owner(voted(1, kA)), owner(voted(2, kA)), std::move(third)}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);
  return decision.left_out;
}

TEST(Attempt, WhoDiedAndWasLeftOutDoesNotCount) {
  const std::vector<ReplicaId> third{ReplicaId(3)};
  EXPECT_EQ(left_out_with(left_out(silent(3, false))), third);
  EXPECT_TRUE(left_out_with(silent(3, false)).empty()) << "it had delivered everything";
  EXPECT_TRUE(left_out_with(left_out(voted(3, kA))).empty()) << "who has the average is in it";
  EXPECT_TRUE(left_out_with(left_out(voted(3, kA, false))).empty());
  EXPECT_TRUE(left_out_with(owner(left_out(silent(3, false)))).empty()) << "an owner is in it";
  AttemptMember joiner = left_out(silent(3, false));
  joiner.contributes = false;
  EXPECT_TRUE(left_out_with(joiner).empty()) << "it had nothing to lose";
}

TEST(Attempt, AnOwnerWithoutAVoteMayHaveLeftSomebodyOut) {
  const auto decision = judge_attempt(
      attempt_of({owner(voted(1, kA)), voted(2, kA), owner(silent(3, false)), silent(4, false)}),
      Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);
  EXPECT_EQ(decision.left_out, std::vector{ReplicaId(4)});
}

TEST(Attempt, AnAverageOfNobodyIsNotCommitted) {
  AttemptMember first = owner(voted(1, kA)), second = owner(voted(2, kA));
  first.contributes = second.contributes = false;
  auto input = attempt_of({first, second, left_out(silent(3, false))});
  EXPECT_EQ(judge_attempt(input, Options{}).verdict, AttemptVerdict::kRetry);
  EXPECT_EQ(judge_attempt(input, Options{}).reason, AttemptReason::kNobodyCounts);
  input.members[2].left_out = false;
  EXPECT_EQ(judge_attempt(input, Options{}).verdict, AttemptVerdict::kCommit);
}

AttemptMember reducer(AttemptMember member) {
  member.reducer = true;
  return member;
}

TEST(Attempt, AReducerHasNoSay) {
  const Digest none;
  auto decision = judge_attempt(
      attempt_of({voted(1, kA), voted(2, kA), reducer(voted(3, none)), reducer(voted(4, none))}),
      Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);
  EXPECT_EQ(decision.average, kA);
  EXPECT_TRUE(decision.exclude.empty());
  decision = judge_attempt(attempt_of({voted(1, kA), reducer(silent(3))}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit) << "nobody waits for one";
  decision = judge_attempt(attempt_of({silent(1, false), reducer(voted(3, none))}), Options{});
  EXPECT_EQ(decision.reason, AttemptReason::kNobodyLeft);
}

TEST(Attempt, AReducerThatIsLostOrSilentCostsTheAttempt) {
  auto decision =
      judge_attempt(attempt_of({voted(1, kA), silent(2), reducer(silent(3, false))}), Options{});
  EXPECT_EQ(decision.reason, AttemptReason::kMemberDied);
  decision =
      judge_attempt(attempt_of({failed(1, 3), failed(2, 3), reducer(silent(3))}, 2), Options{});
  EXPECT_EQ(decision.reason, AttemptReason::kUnreachable);
  EXPECT_EQ(decision.exclude, std::vector<ReplicaId>{ReplicaId(3)});
}

TEST(Attempt, TheMajorityCommitsAndTheOddOneGoes) {
  const auto decision =
      judge_attempt(attempt_of({voted(1, kA), voted(2, kB), voted(3, kA)}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);
  EXPECT_EQ(decision.average, kA);
  EXPECT_EQ(decision.exclude, std::vector{ReplicaId(2)});
}

TEST(Attempt, WithoutMajorityTheyTryAgainUntilAttemptsAreSpent) {
  auto input = attempt_of({voted(1, kA), voted(2, kB)});
  EXPECT_EQ(judge_attempt(input, Options{}).reason, AttemptReason::kNoMajority);
  input.attempt = Options{}.attempts_max;
  const auto decision = judge_attempt(input, Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kAbort);
  EXPECT_EQ(decision.reason, AttemptReason::kAttemptsSpent);
}

TEST(Attempt, WaitsForNewsOfADeathBeforeItJudgesALiveMember) {
  auto decision = judge_attempt(attempt_of({failed(1, 3), failed(2, 3), silent(3)}, 1), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kWait);
  EXPECT_EQ(decision.look_again_at, at(2));
  decision = judge_attempt(attempt_of({failed(1, 3), failed(2, 3), silent(3)}, 2), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kRetry);
  EXPECT_EQ(decision.exclude, std::vector{ReplicaId(3)});
}

TEST(Attempt, TwoThatCannotReachEachOtherCostOneOfThem) {
  auto input = attempt_of({failed(1, 2), failed(2, 1), voted(3, kA)}, 3);
  EXPECT_EQ(judge_attempt(input, Options{}).reason,
            AttemptReason::kFailedAlone);  // may be a mistake
  input.attempt = 2;
  const auto decision = judge_attempt(input, Options{});
  EXPECT_EQ(decision.reason, AttemptReason::kUnreachable);
  EXPECT_EQ(decision.exclude, std::vector{ReplicaId(2)});
}

// A complaint names one that is gone already: the others try again as they are.
TEST(Attempt, ComplaintsOfTheDeadBlameNobody) {
  auto input = attempt_of({failed(1, 2), voted(2, kA, false), silent(3)}, 3);
  input.attempt = 2;
  const auto decision = judge_attempt(input, Options{});
  EXPECT_EQ(decision.reason, AttemptReason::kFailedAlone);
  EXPECT_TRUE(decision.exclude.empty());
}

// Whoever complained and is gone says nothing about those that still work.
TEST(Attempt, ComplaintsByTheDeadAreNotJudged) {
  AttemptMember gone = voted(1, kA, false);
  gone.failed = true;
  gone.complains_about = ReplicaId(2);
  const auto input = attempt_of({gone, silent(2), silent(3)}, 10);
  EXPECT_EQ(judge_attempt(input, Options{}).verdict, AttemptVerdict::kWait);
  EXPECT_EQ(judge_attempt(input, Options{}).look_again_at, at(22));
}

// 1 says nothing, 2 complains of it; 3 complains of 2, which at least speaks.
TEST(Attempt, OfTwoComplainedOfTheSilentOneGoes) {
  const auto decision =
      judge_attempt(attempt_of({silent(1), failed(2, 1), failed(3, 2)}, 3), Options{});
  EXPECT_EQ(decision.reason, AttemptReason::kUnreachable);
  EXPECT_EQ(decision.exclude, std::vector{ReplicaId(1)});
}

TEST(Attempt, UntilTheLimitAndAGraceTheyWait) {
  auto input = attempt_of({voted(1, kA), silent(2)}, 21.5);  // of 20 s and 2
  EXPECT_EQ(judge_attempt(input, Options{}).verdict, AttemptVerdict::kWait);
  EXPECT_EQ(judge_attempt(input, Options{}).look_again_at, at(22));
  input.now = at(22);
  EXPECT_EQ(judge_attempt(input, Options{}).reason, AttemptReason::kSilent);
}

TEST(Attempt, PastTheLimitTheSilentOnesGo) {
  const auto decision = judge_attempt(attempt_of({voted(1, kA), silent(2)}, 23), Options{});
  EXPECT_EQ(decision.reason, AttemptReason::kSilent);
  EXPECT_EQ(decision.exclude, std::vector{ReplicaId(2)});
}

TEST(Attempt, AbortsWhenNobodyIsLeft) {
  const auto decision = judge_attempt(attempt_of({silent(1, false)}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kAbort);
}

// ---- shares of a batch

TEST(ShareBatch, FollowsSpeedInWholeMicrobatches) {
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(share_batch(16, 4, {1}), (Counts{16}));
  EXPECT_EQ(share_batch(32, 4, {1, 1}), (Counts{16, 16}));
  EXPECT_EQ(share_batch(32, 4, {3, 1}), (Counts{24, 8}));
  EXPECT_EQ(share_batch(12, 4, {1, 1}), (Counts{8, 4})) << "of equals the first draws the odd one";
  EXPECT_EQ(share_batch(16, 4, {}), Counts{}) << "nobody draws";
  EXPECT_EQ(share_batch(12, 1, {5, 2, 1}), (Counts{8, 3, 1}));  // ends at 1.6, 1.5 and 1
}

TEST(ShareBatch, GivesTheSlowestOneMicrobatchAndTheUnknownTheMean) {
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(share_batch(16, 2, {1000, 1}), (Counts{14, 2}));
  EXPECT_EQ(share_batch(16, 8, {1000, 1}), (Counts{8, 8}));
  EXPECT_EQ(share_batch(18, 1, {0, 2, 4}), share_batch(18, 1, {3, 2, 4}));
  EXPECT_EQ(share_batch(12, 2, {0, 0}), (Counts{6, 6}));
}

}  // namespace
}  // namespace shoal::coordinator
