// What the records say of rounds: constructed states, numbers by hand.
#include "coordinator/core/state/round_facts.h"

#include <gmock/gmock.h>

#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr JobId kJob{1};
const RoundKey kRound{kJob, 0, 3};

// A job of one stage of 1,000 values in its third round, whose members are rep_7, rep_5 and rep_6.
State example() {
  State state;
  JobRecord job{.id = kJob};
  job.committed_round = 2;
  job.committed_step = Steps(20);
  job.spec.train.steps = Steps(100);
  change_sync(job.spec, [](SyncSpec& sync) { sync.every = Steps(10); });
  job.stages = {{.units = {0, 3}, .value_count = 1000, .anchor = {}, .momentum = {}}};
  state.jobs.put(kJob, job);
  RoundRecord round{.key = kRound};
  round.from_step = Steps(20), round.to_step = Steps(30);
  round.outer_lr = 0.9;
  round.reduces = {{.attempt = 2}};
  state.rounds.put(kRound, round);
  std::int32_t index = 0;
  for (const std::uint64_t id : {7, 5, 6}) {
    ContributionRecord part{.key = kRound, .replica = ReplicaId(id), .agent = AgentId(id)};
    part.member_index = index++;
    part.weight = static_cast<double>(id);
    state.contributions.put({kRound, part.replica}, part);
    state.replicas.put(part.replica, {.id = part.replica, .job = kJob, .agent = part.agent});
    state.replicas.at(part.replica).address = "host-" + std::to_string(id);
  }
  return state;
}

TEST(RoundFacts, TheNextRoundFollowsTheCommittedOne) {
  State state = example();
  EXPECT_EQ(next_key(state.jobs.at(kJob)), kRound);
  EXPECT_FALSE(is_trained(state.jobs.at(kJob)));
  state.jobs.at(kJob).committed_step = Steps(100);
  EXPECT_TRUE(is_trained(state.jobs.at(kJob)));
}

TEST(RoundFacts, OnlyAnAsynchronousMemberIsLate) {
  JobRecord job;
  ContributionRecord part{.reject_reason = RejectReason::kNotReported};
  EXPECT_FALSE(is_late(job, part));
  change_sync(job.spec, [](SyncSpec& sync) { sync.algorithm = SyncAlgorithm::kAsync; });
  EXPECT_TRUE(is_late(job, part));
  part.reject_reason = RejectReason::kJoiner;
  EXPECT_FALSE(is_late(job, part));
}

TEST(RoundFacts, WhoWasToldToTrainHasData) {
  ContributionRecord part;
  EXPECT_TRUE(has_assigned_data(part));
  for (const auto left : {ContributionState::kLost, ContributionState::kMoved}) {
    part.state = left;
    EXPECT_FALSE(has_assigned_data(part));
  }
  part.state = ContributionState::kRejected;
  EXPECT_TRUE(has_assigned_data(part)) << "its report was refused, but it trained";
  part.reject_reason = RejectReason::kJoiner;
  EXPECT_FALSE(has_assigned_data(part));
  part = {.reducer = true};
  EXPECT_FALSE(has_assigned_data(part));
}

// With ddp, whose rounds are single inner steps, only evaluated rounds and the last one are events.
TEST(RoundFacts, EventsOfDdpAreFew) {
  JobRecord job;
  job.spec.train.steps = Steps(100);
  job.spec.eval.every_rounds = 10;
  RoundRecord round{.key = {kJob, 0, 7}};
  round.to_step = Steps(7);
  EXPECT_TRUE(has_events(job, round));
  job.spec.sync = sync_of(SyncAlgorithm::kDdp);
  EXPECT_FALSE(has_events(job, round));
  round.key.round = 20;
  EXPECT_TRUE(has_events(job, round));
  round.key.round = 7, round.to_step = Steps(100);
  EXPECT_TRUE(has_events(job, round));
  job.spec.eval.every_rounds = 0;
  EXPECT_TRUE(has_events(job, round));
}

TEST(RoundFacts, MembersComeInTheOrderOfThePlan) {
  State state = example();
  EXPECT_THAT(members_of(state, kRound, 0), ElementsAre(ReplicaId(7), ReplicaId(5), ReplicaId(6)));
  EXPECT_THAT(members_of(state, kRound, 1), IsEmpty());
  state.contributions.at({kRound, ReplicaId(5)}).member_index = -1;
  EXPECT_THAT(members_of(state, kRound, 0), ElementsAre(ReplicaId(7), ReplicaId(6)));
}

TEST(RoundFacts, APlanSaysWhatTheRecordsDoAndTheDeadHaveNoAddress) {
  State state = example();
  state.replicas.erase(ReplicaId(5));
  const ReducePlan plan = plan_of(state, kRound, 0);
  EXPECT_EQ(plan.attempt, 2);
  EXPECT_EQ(plan.value_count, 1000);
  EXPECT_EQ(plan.outer_lr, 0.9);
  ASSERT_EQ(plan.members.size(), 3u);
  EXPECT_EQ(plan.members[0].address, "host-7");
  EXPECT_EQ(plan.members[0].weight, 7);
  EXPECT_EQ(plan.members[1].address, "");
}

// 2 vectors of 1,000 values of 4 bytes each: 8,000 bytes at 1,000 bytes/s are 8 s.
TEST(RoundFacts, AnAttemptHasTheTimeThatItsBytesTake) {
  State state = example();
  state.options.reduce_limit_min = seconds(20);
  state.options.reduce_bytes_per_s = 1000;
  const RoundRecord round = state.rounds.at(kRound);
  EXPECT_EQ(attempt_time_limit(state, round, 0), seconds(28));
  // A quarter of the slowest measured line counts, where that is less: 500 bytes/s.
  LinkRecord link{.from = AgentId(5), .to = AgentId(6)};
  link.bytes_per_s = 2000;
  state.links.put({link.from, link.to}, link);
  EXPECT_EQ(attempt_time_limit(state, round, 0), seconds(36));
  // With sharded momentum a third vector may be on its way.
  change_sync(state.jobs.at(kJob).spec,
              [](SyncSpec& sync) { sync.outer_state = OuterState::kSharded; });
  EXPECT_EQ(attempt_time_limit(state, round, 0), seconds(44));
}

// One cut, one ledger, however much the round that follows has leased since.
TEST(RoundFacts, WhatIsLeasedIsNotTrainedAtTheCut) {
  State state = example();
  JobRecord& job = state.jobs.at(kJob);
  job.next_sequence = 120;
  job.returned = {{10, 5}};
  state.contributions.at({kRound, ReplicaId(7)}).leases = {{80, 20}};
  state.contributions.at({kRound, ReplicaId(5)}).leases = {{100, 20}};
  const CommitRecord record = commit_record(state, job);
  EXPECT_EQ(record.key, (RoundKey{kJob, 0, 2}));
  EXPECT_EQ(record.next_sequence, 80);
  EXPECT_THAT(record.returned, ElementsAre(DataLease{10, 5}));
  EXPECT_THAT(record.averages, IsEmpty()) << "the committed round is not known";
}

}  // namespace
}  // namespace shoal::coordinator
