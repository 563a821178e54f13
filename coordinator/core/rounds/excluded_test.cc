// A member without a part is lost in a reduce: does its contribution count? Its line is the slow
// one, so the two others own the whole vector.
#include "coordinator/core/coordinator_test_util.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

struct SlowThird : Rig {
  explicit SlowThird(std::int64_t nonfinite = 0, std::int64_t min_replicas = 2) {
    JobSpec spec = small_job();
    change_sync(spec, [](SyncSpec& sync) { sync.codec = CodecKind::kFp32; });
    spec.swarm.min_replicas = min_replicas;
    spec.swarm.max_replicas = 3;
    for (int i = 0; i < 3; ++i) agents.push_back(join("a" + std::to_string(i)));
    key = {*submit(spec), 0, 1};
    for (const ConnectionId agent : agents) replicas.push_back(load(agent));
    wait(seconds(3));
    say_report(0, nonfinite, {line(1, 8e6), line(2, 1e6)});
    say_report(1, nonfinite, {line(2, 1e6)});
    say_report(2, 0, {});
    EXPECT_EQ(last<ToReplica<ReducePlan>>(agents[0])->body.members.at(2).part_count, 0);
  }

  LinkEstimate line(std::size_t to, double bytes_per_s) const {
    return {replicas[to], milliseconds(20), bytes_per_s, bytes_per_s, true};
  }
  void say_report(std::size_t i, std::int64_t nonfinite, std::vector<LinkEstimate> links) {
    RoundReport body;
    body.key = key;
    body.tokens = body.drawn = Tokens(1280);
    body.steps = Steps(10);
    body.train_loss = i == 2 ? 9 : 2.5;
    body.norm = 1;
    body.nonfinite = nonfinite;
    body.links = std::move(links);
    say(agents[i], FromReplica<RoundReport>{replicas[i], body});
  }
  void vote_of(std::size_t i, std::int32_t attempt, const std::vector<ReplicaId>& without = {}) {
    vote(agents[i], replicas[i], key, attempt, {5, 5}, without);
  }
  void lose_third() {
    say(agents[2], ReplicaFailed{replicas[2], ReplicaFailure::kTrainerExited, "SIGKILL"});
  }
  const ContributionRecord& third() const { return state().contributions.at({key, replicas[2]}); }
  bool committed() const { return job(key.job).committed_round == 1; }

  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  RoundKey key;
};

TEST(Excluded, DoesNotCountAndItsDataIsGivenOutAgain) {
  SlowThird rig;
  const DataLease lease = rig.third().leases.at(0);
  const AgentId agent = rig.third().agent;
  rig.vote_of(0, 1, {rig.replicas[2]});
  rig.vote_of(1, 1);
  EXPECT_FALSE(rig.committed()) << "the third is still expected";
  rig.lose_third();
  ASSERT_TRUE(rig.committed());
  EXPECT_EQ(rig.third().state, ContributionState::kRejected);
  EXPECT_EQ(rig.third().reject_reason, RejectReason::kExcluded);
  EXPECT_TRUE(rig.third().leases.empty());
  EXPECT_EQ(rig.job(rig.key.job).committed_tokens, Tokens(2 * 1280));
  EXPECT_DOUBLE_EQ(rig.job(rig.key.job).train_loss, 2.5);
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.agents[0])->body.next.leases.at(0).first,
            lease.first);
  EXPECT_EQ(rig.state().agents.at(agent).health_record.violation_reason, RejectReason::kNone);
}

TEST(Excluded, WhoHadDeliveredAllCounts) {
  SlowThird rig;
  rig.vote_of(0, 1);
  rig.vote_of(1, 1);
  rig.lose_third();
  ASSERT_TRUE(rig.committed());
  EXPECT_EQ(rig.third().state, ContributionState::kCommitted);
  EXPECT_EQ(rig.job(rig.key.job).committed_tokens, Tokens(3 * 1280));
}

TEST(Excluded, WhoVotedCountsWhateverOthersSay) {
  SlowThird rig;
  rig.vote_of(0, 1, {rig.replicas[1], rig.replicas[2]});
  rig.vote_of(1, 1);
  rig.vote_of(2, 1);
  ASSERT_TRUE(rig.committed());
  EXPECT_EQ(rig.job(rig.key.job).committed_tokens, Tokens(3 * 1280));
}

TEST(Excluded, OnlyOwnersExclude) {
  SlowThird rig;
  rig.vote_of(2, 1, {rig.replicas[0], rig.replicas[1]});
  EXPECT_FALSE(rig.state().contributions.at({rig.key, rig.replicas[0]}).excluded);
}

TEST(Excluded, IsRememberedOverARestart) {
  SlowThird rig;
  rig.vote_of(0, 1, {rig.replicas[2], ReplicaId(999)});
  rig.restart();
  EXPECT_TRUE(rig.third().excluded);
}

TEST(Excluded, ANewAttemptForgetsTheVotesOfTheOldOne) {
  SlowThird rig;
  rig.vote_of(0, 1, {rig.replicas[2]});
  for (const std::size_t i : {1u, 2u}) {
    rig.say(rig.agents[i],
            FromReplica<ReduceFailed>{rig.replicas[i],
                                      {rig.key, 1, {}, ReduceFailure::kInternal, "simulated"}});
  }
  EXPECT_TRUE(rig.third().excluded);
  rig.wait(rig.options.failure_grace);
  ASSERT_EQ(rig.last<ToReplica<ReducePlan>>(rig.agents[0])->body.attempt, 2);
  EXPECT_FALSE(rig.third().excluded);
  rig.vote_of(0, 2);
  rig.vote_of(1, 2);
  rig.lose_third();
  ASSERT_TRUE(rig.committed());
  EXPECT_EQ(rig.third().state, ContributionState::kCommitted);
}

TEST(Excluded, AnAverageOfTooFewIsNotCommitted) {
  for (const bool delivered : {true, false}) {
    SlowThird rig(0, 3);
    rig.vote_of(0, 1, delivered ? std::vector<ReplicaId>{} : std::vector{rig.replicas[2]});
    rig.vote_of(1, 1);
    rig.lose_third();
    EXPECT_EQ(rig.committed(), delivered);
    if (delivered) continue;
    EXPECT_EQ(rig.last<ToReplica<AbortRound>>(rig.agents[0])->body.reason,
              AbortReason::kBelowMinReplicas);
    EXPECT_EQ(rig.third().state, ContributionState::kLost);
    EXPECT_EQ(rig.rounds_.at(rig.key).abort_reason, AbortReason::kBelowMinReplicas);
    EXPECT_EQ(rig.rounds_.at(rig.key).to_step, Steps(10)) << "no further without them";
  }
}

// Three replicas in each of two stages; in `stage` the third one owns no part.
struct SlowThirdOfAStage : Rig {
  SlowThirdOfAStage(StageIndex stage, std::int64_t min_replicas) {
    JobSpec spec = small_job();
    spec.model.layers = 2;
    change_sync(spec, [](SyncSpec& sync) { sync.codec = CodecKind::kFp32; });
    spec.swarm.stages = 2;
    spec.swarm.min_replicas = min_replicas;
    spec.swarm.max_replicas = 3;
    adopt(spec);
    for (int i = 0; i < 6; ++i) join_one(i);
    wait(seconds(3));
    for (const ConnectionId agent : all) {
      load(agent);
      (last<Assign>(agent)->stage == stage ? here : there).push_back(agent);
    }
    wait(seconds(3));
    EXPECT_EQ(here.size(), 3u);
    report_from(here[0], {line(here[1], 8e6), line(here[2], 1e6)});
    report_from(here[1], {line(here[2], 1e6)});
    report_from(here[2], {});
    for (const ConnectionId agent : there) report_from(agent, {});
  }
  void join_one(int i) { all.push_back(join("a" + std::to_string(i))); }
  ReplicaId replica(ConnectionId agent) { return last<Assign>(agent)->replica; }
  LinkEstimate line(ConnectionId to, double bytes_per_s) {
    return {replica(to), milliseconds(20), bytes_per_s, bytes_per_s, true};
  }
  void report_from(ConnectionId agent, std::vector<LinkEstimate> links) {
    report(agent, replica(agent), key, 1, std::move(links));
  }
  void vote_of(ConnectionId agent, const std::vector<ReplicaId>& without = {}) {
    vote(agent, replica(agent), key, 1, {5, 5}, without);
  }
  std::vector<ConnectionId> all, here, there;
  RoundKey key{JobId(1), 0, 1};
};

// Five of six took part, but one stage has only two of the three that it must have.
TEST(Excluded, EveryStageNeedsEnoughInItsAverage) {
  for (const StageIndex stage : {0, 1}) {
    for (const std::int64_t min_replicas : {2, 3}) {
      SlowThirdOfAStage rig(stage, min_replicas);
      for (const ConnectionId agent : rig.there) rig.vote_of(agent);
      const ReplicaId third = rig.replica(rig.here[2]);
      rig.vote_of(rig.here[0], {third});
      rig.vote_of(rig.here[1]);
      rig.say(rig.here[2], ReplicaFailed{third, ReplicaFailure::kTrainerExited, "SIGKILL"});
      EXPECT_EQ(rig.job(JobId(1)).committed_round, min_replicas == 2 ? 1 : 0);
      if (min_replicas == 2) continue;
      ASSERT_TRUE(rig.last<ToReplica<AbortRound>>(rig.there[0]));
      EXPECT_EQ(rig.last<ToReplica<AbortRound>>(rig.there[0])->body.reason,
                AbortReason::kBelowMinReplicas);
    }
  }
}

TEST(Excluded, AnAverageOfNobodyIsNotCommitted) {
  SlowThird rig(1);
  rig.vote_of(0, 1, {rig.replicas[2]});
  rig.vote_of(1, 1);
  rig.lose_third();
  EXPECT_FALSE(rig.committed());
  EXPECT_EQ(rig.last<ToReplica<AbortRound>>(rig.agents[0])->body.reason,
            AbortReason::kNoUsableContribution);
  const RoundRecord& again = rig.rounds_.at(rig.key);
  EXPECT_EQ(again.abort_reason, AbortReason::kNoUsableContribution);
  EXPECT_EQ(again.from_step, Steps(10)) << "it continues where it was";
  EXPECT_EQ(again.to_step, Steps(20)) << "as many steps as a round has";
}

}  // namespace
}  // namespace shoal::coordinator
