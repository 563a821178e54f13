// A job on four agents whose votes are played by hand: who is found out, and what becomes of the
// round.
#include "coordinator/core/rounds/verification.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

constexpr Digest kAverage{5, 5};

struct Four : Rig {
  explicit Four(double audit) {
    JobSpec spec = small_job();
    change_sync(spec, [&](SyncSpec& sync) { sync.audit = audit; });
    spec.swarm.min_replicas = 2;
    for (const char* name : {"a", "b", "c", "d"}) agents.push_back(join(name));
    id = *submit(spec);
    wait(seconds(3));
    for (const ConnectionId agent : agents) replicas.push_back(load(agent));
    for (std::size_t i = 0; i < agents.size(); ++i) report(agents[i], replicas[i], key(), 2);
  }

  RoundKey key() const { return {id, 0, 1}; }
  ReducePlan plan(std::size_t to = 0) { return last<ToReplica<ReducePlan>>(agents[to])->body; }

  // Votes as member `i`, whose norm is 2, with what each of the four sent to it.
  void vote(std::size_t i, std::vector<double> squares, std::vector<ReplicaId> disputed = {}) {
    const std::int32_t attempt = plan(i).attempt;
    say(agents[i],
        FromReplica<Vote>{replicas[i], {key(), attempt, kAverage, {}, {{}, squares, disputed}}});
  }
  void all_vote(const std::vector<double>& squares = {1, 1, 1, 1},
                const std::vector<ReplicaId>& disputed = {}) {
    for (std::size_t i = 0; i < agents.size(); ++i) vote(i, squares, disputed);
  }

  bool committed() const { return job(id).committed_round == 1; }
  const ContributionRecord& contribution(std::size_t i) const {
    return state().contributions.at({key(), replicas[i]});
  }
  const AgentRecord& agent(std::size_t i) const { return state().agents.at(contribution(i).agent); }
  double weight(std::size_t i) { return member(i).weight; }
  ReduceMember member(std::size_t i) {
    const ReducePlan newest = plan();
    return *std::ranges::find(newest.members, replicas[i], &ReduceMember::replica);
  }
  ReplicaId second_of(std::size_t owner) {
    const std::vector<AuditedRange> audited = plan().audited;
    return std::ranges::find(audited, replicas[owner], &AuditedRange::owner)->second;
  }
  std::int64_t named(std::size_t i) const {
    return std::ranges::count_if(events, [&](const EventRecord& event) {
      return event.kind == event_kind::kMemberDistrusted && event.replica == replicas[i];
    });
  }

  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  JobId id;
};

TEST(Verification, HonestVotesCommitAtOnce) {
  Four rig(0);
  rig.all_vote();
  EXPECT_TRUE(rig.committed());
}

TEST(Verification, WhoSentMoreThanItReportedGoesWithoutWeightAndPartByName) {
  Four rig(0);
  rig.all_vote({1, 1, 100, 1});
  EXPECT_FALSE(rig.committed());
  EXPECT_EQ(rig.plan().attempt, 2);
  EXPECT_EQ(rig.weight(2), 0);
  EXPECT_EQ(rig.member(2).part_count, 0);
  EXPECT_GT(rig.weight(1), 0);
  EXPECT_EQ(rig.contribution(2).reject_reason, RejectReason::kFalseNorm);
  EXPECT_EQ(rig.agent(2).health_record.violations, 1);
  EXPECT_EQ(rig.agent(1).health_record.violations, 0);
  EXPECT_EQ(rig.named(2), 1);
  rig.all_vote();
  EXPECT_TRUE(rig.committed());
  EXPECT_EQ(rig.contribution(2).state, ContributionState::kRejected);
  EXPECT_EQ(rig.contribution(1).state, ContributionState::kCommitted);
}

TEST(Verification, TheWordOfOneOwnerChargesNobodyAndCostsItsPart) {
  Four rig(0);
  rig.vote(0, {1, 50, 50, 50});
  for (const std::size_t i : {1u, 2u, 3u}) rig.vote(i, {1, 1, 1, 1});
  EXPECT_FALSE(rig.committed());
  EXPECT_EQ(rig.member(0).part_count, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GT(rig.weight(i), 0) << i;
    EXPECT_EQ(rig.agent(i).health_record.violations, 0) << i;
  }
  rig.all_vote();
  EXPECT_TRUE(rig.committed());
}

TEST(Verification, ASecondOwnerThatSaysTheSameIsBelieved) {
  Four rig(0);
  rig.vote(0, {1, 50, 1, 1});
  for (const std::size_t i : {1u, 2u, 3u}) rig.vote(i, {1, 1, 1, 1});
  rig.vote(2, {1, 50, 1, 1});
  for (const std::size_t i : {0u, 1u, 3u}) rig.vote(i, {1, 1, 1, 1});
  EXPECT_FALSE(rig.committed());
  EXPECT_EQ(rig.weight(1), 0);
  EXPECT_EQ(rig.agent(1).health_record.violations, 1);
  EXPECT_EQ(rig.agent(0).health_record.violations, 0);
}

TEST(Verification, AnAuditThatConfirmsCommitsTheAverageOfTheFirstAttempt) {
  Four rig(1);
  EXPECT_TRUE(rig.plan().codes_own);
  const ReducePlan first = rig.plan();
  rig.all_vote();
  EXPECT_FALSE(rig.committed());
  const ReducePlan audit = rig.plan();
  EXPECT_EQ(audit.attempt, 2);
  EXPECT_EQ(audit.value_count, first.value_count) << "all frames are drawn";
  ASSERT_EQ(audit.audited.size(), 4u);
  rig.all_vote();
  EXPECT_TRUE(rig.committed());
  EXPECT_EQ(rig.rounds_.at(rig.key()).reduces[0].average, kAverage);
}

TEST(Verification, TheFalseOwnerIsFoundByAThirdAndItsAgentQuarantined) {
  Four rig(1);
  rig.all_vote();
  const ReplicaId second = rig.second_of(3);
  rig.all_vote({1, 1, 1, 1}, {rig.replicas[3]});
  const ReducePlan third = rig.plan();
  EXPECT_EQ(third.attempt, 3);
  for (const AuditedRange& range : third.audited) {
    EXPECT_EQ(range.owner, rig.replicas[3]);
    EXPECT_NE(range.second, second);
    EXPECT_NE(range.second, rig.replicas[3]);
  }
  rig.all_vote({1, 1, 1, 1}, {rig.replicas[3]});
  EXPECT_FALSE(rig.committed());
  EXPECT_EQ(rig.weight(3), 0);
  EXPECT_EQ(rig.member(3).part_count, 0);
  EXPECT_EQ(rig.contribution(3).reject_reason, RejectReason::kFalseAverage);
  EXPECT_NE(rig.agent(3).health_record.quarantined_until, Instant());
  EXPECT_GT(rig.weight(0), 0) << "the contributions of the others are kept";
  rig.all_vote();                        // the average without it
  if (!rig.committed()) rig.all_vote();  // and its audit
  EXPECT_TRUE(rig.committed());
}

TEST(Verification, TheSecondOwnerIsTheFalseOneWhereTheThirdAgreesWithTheFirst) {
  Four rig(1);
  rig.all_vote();
  const ReplicaId second = rig.second_of(3);
  const auto at =
      static_cast<std::size_t>(std::ranges::find(rig.replicas, second) - rig.replicas.begin());
  rig.all_vote({1, 1, 1, 1}, {rig.replicas[3]});
  rig.all_vote();
  EXPECT_EQ(rig.contribution(at).reject_reason, RejectReason::kFalseAverage);
  EXPECT_EQ(rig.contribution(3).reject_reason, RejectReason::kNone);
}

TEST(Verification, OneMemberThatDisputesAloneIsNotHeard) {
  Four rig(1);
  rig.all_vote();
  rig.vote(0, {1, 1, 1, 1}, {rig.replicas[3]});
  for (const std::size_t i : {1u, 2u, 3u}) rig.vote(i, {1, 1, 1, 1});
  EXPECT_TRUE(rig.committed());
}

TEST(Verification, WithTwoOwnersNothingIsDrawnAndTheAccusedGoesWithoutAViolation) {
  JobSpec spec = small_job();
  change_sync(spec, [](SyncSpec& sync) { sync.audit = 1; });
  PairRig rig(spec);
  rig.report(rig.a, rig.rep_a, rig.key(1), 2), rig.report(rig.b, rig.rep_b, rig.key(1), 2);
  rig.say(rig.a, FromReplica<Vote>{rig.rep_a, {rig.key(1), 1, kAverage, {}, {{}, {1, 90}, {}}}});
  rig.say(rig.b, FromReplica<Vote>{rig.rep_b, {rig.key(1), 1, kAverage, {}, {{}, {1, 1}, {}}}});
  const auto& accused = rig.state().contributions.at({rig.key(1), rig.rep_b});
  EXPECT_EQ(accused.reject_reason, RejectReason::kUnverified);
  EXPECT_EQ(accused.weight, 0);
  EXPECT_EQ(rig.state().agents.at(accused.agent).health_record.violations, 0);
  rig.vote(rig.a, rig.rep_a, rig.key(1), 2), rig.vote(rig.b, rig.rep_b, rig.key(1), 2);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
}

}  // namespace
}  // namespace shoal::coordinator
