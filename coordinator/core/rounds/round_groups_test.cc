// Rounds in groups: who is in which, what a group that fails costs the others, and states that are
// equal nowhere.
#include "coordinator/core/rounds/round_groups.h"

#include <set>

#include <gtest/gtest.h>

#include "coordinator/core/coordinator_test_util.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

JobSpec grid_job(Topology topology = Topology::kMoshpit) {
  JobSpec spec = small_job();
  spec.train.steps = Steps(200);
  change_sync(spec, [&](SyncSpec& sync) {
    sync.topology = topology;
    sync.codec = CodecKind::kFp32;
    sync.outer.momentum = 0.5;
  });
  return spec;
}

// Four replicas in a grid of two rows; an odd round averages its columns {0, 2} and {1, 3}.
struct Grid : Rig {
  // The last one cannot be dialed when `mute`, and so owns no part.
  explicit Grid(const JobSpec& spec = grid_job(), std::size_t count = 4, bool mute = false) {
    for (std::size_t i = 0; i < count; ++i) agents.push_back(join("agent-" + std::to_string(i)));
    id = *submit(spec);
    for (std::size_t i = 0; i < count; ++i) {
      replicas.push_back(mute && i + 1 == count ? load_mute(agents[i]) : load(agents[i]));
    }
    wait(seconds(3));
  }
  ReplicaId load_mute(ConnectionId agent) {
    const Assign assign = last<Assign>(agent).value();
    say(agent, Loaded{assign.replica, assign.source.key, {7, 7}, {8, 8}, 1000, "", {}});
    return assign.replica;
  }
  RoundKey key(RoundNumber round) const { return {id, 0, round}; }
  void all_report(RoundNumber round) {
    for (std::size_t i = 0; i < agents.size(); ++i) report(agents[i], replicas[i], key(round));
  }
  void group_votes(RoundNumber round, std::vector<std::size_t> members, Digest average) {
    for (const std::size_t i : members) {
      vote(agents[i], replicas[i], key(round), plan(i).attempt, average);
    }
  }
  void fails(std::size_t i, RoundNumber round) {
    say(agents[i],
        FromReplica<ReduceFailed>{
            replicas[i], {key(round), plan(i).attempt, {}, ReduceFailure::kTimeLimit, "slow"}});
  }
  void all_apply(RoundNumber round) {
    for (std::size_t i = 0; i < agents.size(); ++i) {
      applied(agents[i], replicas[i], key(round), anchor(round, i));
    }
  }
  void come_back() {
    restart();
    for (std::size_t i = 0; i < agents.size(); ++i) {
      const Incarnation incarnation = state().agents.at(AgentId(i + 1)).incarnation;
      agents[i] = join("agent-" + std::to_string(i), incarnation, {replicas[i]});
    }
  }
  static Digest anchor(RoundNumber round, std::size_t i) {
    return {100 + static_cast<std::uint64_t>(round), 1 + i};
  }
  const ReducePlan& plan(std::size_t i) {
    plans[i] = last<ToReplica<ReducePlan>>(agents[i]).value().body;
    return plans[i];
  }
  std::vector<ReplicaId> group_of(std::size_t i) {
    std::vector<ReplicaId> ids;
    for (const ReduceMember& member : plan(i).members) ids.push_back(member.replica);
    return ids;
  }
  std::optional<CommitRound> commit_of(std::size_t i) {
    const auto commit = last<ToReplica<CommitRound>>(agents[i]);
    return commit ? std::optional(commit->body) : std::nullopt;
  }
  const ContributionRecord& contribution(RoundNumber round, std::size_t i) const {
    return state().contributions.at({key(round), replicas[i]});
  }
  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  std::map<std::size_t, ReducePlan> plans;
  JobId id;
};

TEST(RoundGroups, EveryGroupHasItsOwnPlan) {
  Grid grid;
  grid.all_report(1);
  EXPECT_EQ(grid.group_of(0), (std::vector{grid.replicas[0], grid.replicas[2]}));
  EXPECT_EQ(grid.group_of(1), (std::vector{grid.replicas[1], grid.replicas[3]}));
  EXPECT_EQ(grid.group_of(2), grid.group_of(0));
  const ReducePlan& plan = grid.plan(3);
  EXPECT_EQ(plan.topology, Topology::kButterfly);
  EXPECT_EQ(plan.outer_lr, OuterSpec{}.lr);
  for (const ReduceMember& member : plan.members) EXPECT_EQ(member.weight, 1);
  EXPECT_EQ(grid.contribution(1, 3).group, 1);
}

TEST(RoundGroups, TheRoundCommitsWhenEachGroupAgreesWithItself) {
  Grid grid;
  grid.all_report(1);
  grid.group_votes(1, {0, 2}, {5, 1});
  EXPECT_EQ(grid.job(grid.id).committed_round, 0);
  grid.group_votes(1, {1, 3}, {5, 2});
  EXPECT_EQ(grid.job(grid.id).committed_round, 1);
  EXPECT_EQ(grid.commit_of(0)->average, (Digest{5, 1}));
  EXPECT_EQ(grid.commit_of(3)->average, (Digest{5, 2}));
  grid.all_apply(1);
  grid.all_report(2);
  EXPECT_EQ(grid.group_of(0), (std::vector{grid.replicas[0], grid.replicas[1]})) << "a row";
  EXPECT_EQ(grid.job(grid.id).committed_tokens, Tokens(4 * 1280));
}

// Half of the groups have a result at once: the others get failure_grace.
TEST(RoundGroups, AGroupThatIsLateKeepsItsProgressAndHoldsNobodyUp) {
  Grid grid;
  grid.all_report(1);
  grid.group_votes(1, {0, 2}, {5, 1});
  grid.vote(grid.agents[1], grid.replicas[1], grid.key(1), 1, {5, 2});  // the other is silent
  grid.wait(grid.options.failure_grace);
  ASSERT_EQ(grid.job(grid.id).committed_round, 1);
  EXPECT_EQ(grid.commit_of(0)->outcome, RoundOutcome::kAveraged);
  for (const std::size_t i : {1u, 3u}) {
    EXPECT_EQ(grid.commit_of(i)->outcome, RoundOutcome::kKept);
    EXPECT_EQ(grid.commit_of(i)->next.key, grid.key(2));
    EXPECT_GT(grid.commit_of(i)->next.leases.at(0).count, 0);
    EXPECT_EQ(grid.contribution(1, i).state, ContributionState::kKept);
  }
  EXPECT_EQ(grid.job(grid.id).committed_tokens, Tokens(4 * 1280)) << "kept ones count, too";
  grid.come_back();  // they are told again
  ASSERT_TRUE(grid.commit_of(3));
  EXPECT_EQ(grid.commit_of(3)->outcome, RoundOutcome::kKept);
}

TEST(RoundGroups, AGroupTriesAgainWhileOthersAreAtIt) {
  Grid grid;
  grid.all_report(1);
  grid.fails(1, 1), grid.fails(3, 1);
  grid.wait(grid.options.failure_grace);
  EXPECT_EQ(grid.plan(1).attempt, 2);
  EXPECT_EQ(grid.plan(0).attempt, 1);
  grid.group_votes(1, {1, 3}, {5, 2});
  grid.group_votes(1, {0, 2}, {5, 1});
  EXPECT_EQ(grid.job(grid.id).committed_round, 1);
  EXPECT_EQ(grid.commit_of(1)->attempt, 2);
}

TEST(RoundGroups, WhenAllGiveUpTheRoundIsAborted) {
  Grid grid;
  grid.options.attempts_max = 1;
  grid.come_back();
  grid.all_report(1);
  for (std::size_t i = 0; i < 4; ++i) grid.fails(i, 1);
  grid.wait(grid.options.failure_grace);
  EXPECT_EQ(grid.job(grid.id).committed_round, 0);
  const auto abort = grid.last<ToReplica<AbortRound>>(grid.agents[0]);
  ASSERT_TRUE(abort);
  EXPECT_EQ(abort->body.reason, AbortReason::kAttemptsSpent);
  EXPECT_EQ(grid.state().rounds.at(grid.key(1)).aborts, 1);
  grid.all_report(1);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(grid.plan(i).attempt, 2) << "votes of before the abort are of another attempt";
  }
}

TEST(RoundGroups, AGroupHasAgreedWithItsLastVote) {
  for (const std::size_t first : {0u, 2u}) {
    Grid grid;
    grid.all_report(1);
    const auto vote = [&](std::size_t i) {
      grid.vote(grid.agents[i], grid.replicas[i], grid.key(1), 1, {5, 1 + i % 2});
    };
    vote(first);
    grid.wait(milliseconds(300));
    vote(2 - first);
    const Instant last = grid.now;
    grid.wait(milliseconds(100));
    vote(3);  // one of two
    using Times = std::vector<std::optional<Instant>>;
    EXPECT_EQ(agreed_at(grid.state(), grid.key(1), {true, false}), (Times{last, std::nullopt}));
    EXPECT_EQ(agreed_at(grid.state(), grid.key(1), {false, false}), Times(2));
  }
}

TEST(RoundGroups, WhoIsLostBeforeTheNextFreezeIsOfNoGroup) {
  Grid grid;
  grid.options.attempts_max = 1;
  grid.come_back();
  grid.all_report(1);
  ASSERT_EQ(grid.contribution(1, 3).group, 1);
  const ReplicaId lost = grid.replicas[3];
  grid.say(grid.agents[3], ReplicaFailed{lost, ReplicaFailure::kTrainerExited, ""});
  grid.fails(0, 1), grid.fails(2, 1);
  grid.wait(grid.options.failure_grace);
  ASSERT_EQ(grid.state().rounds.at(grid.key(1)).aborts, 1);
  for (std::size_t i = 0; i < 3; ++i) grid.report(grid.agents[i], grid.replicas[i], grid.key(1));
  grid.wait(grid.options.join_grace);  // for the one in its place
  ASSERT_EQ(grid.plan(0).attempt, 2);
  EXPECT_EQ(grid.contribution(1, 3).group, 0);
  EXPECT_EQ(grid.contribution(1, 1).group, 1);
}

// One of the two members left trained nothing: its group of one cannot average.
TEST(RoundGroups, AGroupWithoutAnythingUsableIsNotAskedAndDropsNothingElse) {
  Grid grid(grid_job(), 3);  // columns {0, 2} and {1}
  for (const std::size_t i : {0u, 2u}) grid.report(grid.agents[i], grid.replicas[i], grid.key(1));
  grid.report_broken(grid.agents[1], grid.replicas[1], grid.key(1));
  EXPECT_FALSE(grid.last<ToReplica<ReducePlan>>(grid.agents[1]));
  grid.group_votes(1, {0, 2}, {5, 1});
  ASSERT_EQ(grid.job(grid.id).committed_round, 1);
  EXPECT_EQ(grid.commit_of(1)->outcome, RoundOutcome::kDropped);
  EXPECT_EQ(grid.contribution(1, 1).state, ContributionState::kRejected);
  EXPECT_EQ(grid.job(grid.id).committed_tokens, Tokens(2 * 1280));
}

// The pair {1, 3} continues when 3 is lost; its tokens are those of 1 alone.
TEST(RoundGroups, WhomAGroupExcludedDoesNotCount) {
  Grid grid(grid_job(), 4, true);
  grid.all_report(1);
  ASSERT_EQ(grid.plan(3).members.at(1).part_count, 0);
  const DataLease lease = grid.contribution(1, 3).leases.at(0);
  grid.vote(grid.agents[1], grid.replicas[1], grid.key(1), 1, {5, 2},
            {grid.replicas[3], grid.replicas[0]});
  EXPECT_FALSE(grid.contribution(1, 0).excluded) << "of another group";
  grid.say(grid.agents[3], ReplicaFailed{grid.replicas[3], ReplicaFailure::kTrainerExited, ""});
  EXPECT_EQ(grid.contribution(1, 3).reject_reason, RejectReason::kNone) << "not before the commit";
  grid.group_votes(1, {0, 2}, {5, 1});
  ASSERT_EQ(grid.job(grid.id).committed_round, 1);
  EXPECT_EQ(grid.contribution(1, 3).state, ContributionState::kRejected);
  EXPECT_EQ(grid.contribution(1, 3).reject_reason, RejectReason::kExcluded);
  EXPECT_EQ(grid.job(grid.id).committed_tokens, Tokens(3 * 1280));
  EXPECT_EQ(grid.commit_of(0)->next.leases.at(0).first, lease.first)
      << "its data is given out again";
}

TEST(RoundGroups, WhoDeliveredToItsGroupCountsWhenItIsLost) {
  Grid grid(grid_job(), 4, true);
  grid.all_report(1);
  grid.group_votes(1, {1}, {5, 2});
  grid.say(grid.agents[3], ReplicaFailed{grid.replicas[3], ReplicaFailure::kTrainerExited, ""});
  grid.group_votes(1, {0, 2}, {5, 1});
  ASSERT_EQ(grid.job(grid.id).committed_round, 1);
  EXPECT_EQ(grid.contribution(1, 3).state, ContributionState::kCommitted);
  EXPECT_EQ(grid.job(grid.id).committed_tokens, Tokens(4 * 1280));
}

TEST(RoundGroups, AnchorsDifferAndAJoinerGetsThatOfItsSource) {
  Grid grid;
  grid.all_report(1);
  grid.group_votes(1, {0, 2}, {5, 1});
  grid.group_votes(1, {1, 3}, {5, 2});
  grid.all_apply(1);
  EXPECT_EQ(grid.job(grid.id).stages[0].anchor, Grid::anchor(1, 0)) << "of the first replica";
  for (const ReplicaId replica : grid.replicas) {
    EXPECT_TRUE(is_live(grid.state(), replica)) << "nobody fails for its digest";
  }
  const auto wanted = grid.last<ToReplica<WriteCheckpoint>>(grid.agents[0]);
  ASSERT_TRUE(wanted) << "the first one writes the checkpoint";
  const auto& part = grid.state().checkpoints.at(wanted->body.checkpoint).parts.at(0);
  EXPECT_EQ(part.anchor, Grid::anchor(1, 0));

  const ConnectionId late = grid.join("late");
  grid.wait(seconds(5));
  const auto assign = grid.last<Assign>(late);
  ASSERT_TRUE(assign);
  const ReplicaId peer = assign->source.replica;
  EXPECT_EQ(assign->source.anchor, grid.state().replicas.at(peer).anchor);
  const Digest other =
      assign->source.anchor == Grid::anchor(1, 0) ? Grid::anchor(1, 1) : Grid::anchor(1, 0);
  EXPECT_EQ(assign->source.momentum, (Digest{9, 9}));
  grid.say(late, Loaded{assign->replica, assign->source.key, other, {9, 9}, 1000, "x:1", {}});
  EXPECT_FALSE(is_live(grid.state(), assign->replica)) << "the state of somebody else";
}

TEST(GroupsLimit, IsAsLongAgainAsHalfOfTheGroupsTook) {
  const Options options;
  const Instant start = Instant() + seconds(100);
  const auto at = [&](std::int64_t s) { return std::optional(start + seconds(s)); };
  EXPECT_FALSE(groups_limit(start, {{}, {}}, options));
  EXPECT_EQ(groups_limit(start, {at(3), {}}, options), start + seconds(6) + options.failure_grace);
  EXPECT_FALSE(groups_limit(start, {at(3), {}, {}}, options)) << "not half";
  EXPECT_EQ(groups_limit(start, {at(9), {}, at(4)}, options),
            start + seconds(18) + options.failure_grace);
}

TEST(RoundGroups, PairsAreDrawnAnewForEachRound) {
  Grid grid(grid_job(Topology::kGossip), 6);
  std::set<std::vector<ReplicaId>> seen;
  for (RoundNumber round = 1; round <= 4; ++round) {
    grid.all_report(round);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(grid.group_of(i).size(), 2u);
      grid.group_votes(round, {i}, {7, grid.group_of(i).front().n});
    }
    seen.insert(grid.group_of(0));
    ASSERT_EQ(grid.job(grid.id).committed_round, round);
    grid.all_apply(round);
  }
  EXPECT_GT(seen.size(), 1u);
}

}  // namespace
}  // namespace shoal::coordinator
