// The end of an attempt: committed, tried again or given up, and who goes. Constructed members.
#include "coordinator/core/decisions/attempt.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr Instant kStart{1'000'000'000'000};
Instant at(double s) { return kStart + seconds_f(s); }

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
AttemptMember excluded(AttemptMember member) {
  member.excluded = true;
  return member;
}

// The excluded members of an attempt of two owners that agree and this third member.
std::vector<ReplicaId> excluded_with(AttemptMember third) {
  const auto decision = judge_attempt(
      attempt_of({owner(voted(1, kA)), owner(voted(2, kA)), std::move(third)}), Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);
  return decision.excluded;
}

TEST(Attempt, WhoDiedAndWasExcludedDoesNotCount) {
  const std::vector<ReplicaId> third{ReplicaId(3)};
  EXPECT_EQ(excluded_with(excluded(silent(3, false))), third);
  EXPECT_TRUE(excluded_with(silent(3, false)).empty()) << "it had delivered everything";
  EXPECT_TRUE(excluded_with(excluded(voted(3, kA))).empty()) << "who has the average is in it";
  EXPECT_TRUE(excluded_with(excluded(voted(3, kA, false))).empty());
  EXPECT_TRUE(excluded_with(owner(excluded(silent(3, false)))).empty()) << "an owner is in it";
  AttemptMember joiner = excluded(silent(3, false));
  joiner.contributes = false;
  EXPECT_TRUE(excluded_with(joiner).empty()) << "it had nothing to lose";
}

TEST(Attempt, AnOwnerWithoutAVoteMayHaveLeftSomebodyOut) {
  const auto decision = judge_attempt(
      attempt_of({owner(voted(1, kA)), voted(2, kA), owner(silent(3, false)), silent(4, false)}),
      Options{});
  EXPECT_EQ(decision.verdict, AttemptVerdict::kCommit);
  EXPECT_EQ(decision.excluded, std::vector{ReplicaId(4)});
}

TEST(Attempt, AnAverageOfNobodyIsNotCommitted) {
  AttemptMember first = owner(voted(1, kA)), second = owner(voted(2, kA));
  first.contributes = second.contributes = false;
  auto input = attempt_of({first, second, excluded(silent(3, false))});
  EXPECT_EQ(judge_attempt(input, Options{}).verdict, AttemptVerdict::kRetry);
  EXPECT_EQ(judge_attempt(input, Options{}).reason, AttemptReason::kNobodyCounts);
  input.members[2].excluded = false;
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
  EXPECT_EQ(decision.wakeup_at, at(2));
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

// A complaint by a member that is gone says nothing about those that still work.
TEST(Attempt, ComplaintsByTheDeadAreNotJudged) {
  AttemptMember gone = voted(1, kA, false);
  gone.failed = true;
  gone.complains_about = ReplicaId(2);
  const auto input = attempt_of({gone, silent(2), silent(3)}, 10);
  EXPECT_EQ(judge_attempt(input, Options{}).verdict, AttemptVerdict::kWait);
  EXPECT_EQ(judge_attempt(input, Options{}).wakeup_at, at(22));
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
  EXPECT_EQ(judge_attempt(input, Options{}).wakeup_at, at(22));
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

}  // namespace
}  // namespace shoal::coordinator
