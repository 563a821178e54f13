// What becomes of a round, its replicas and its data when values are not finite.
#include "coordinator/core/rounds/nonfinite.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/rounds_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

struct NonFinitePair : StepPair {
  explicit NonFinitePair(const JobSpec& spec = job_of_steps()) : StepPair(spec) {}
  void report_nan(ConnectionId connection, ReplicaId replica, RoundNumber number) {
    RoundReport body{.key = key(number), .tokens = Tokens(1280), .steps = Steps(10)};
    body.drawn = body.tokens;
    body.nonfinite = 3;
    if (const RoundRecord* round = state().rounds.find(key(number))) body.aborts = round->aborts;
    say(connection, FromReplica<RoundReport>{replica, body});
  }
  // A round that only the first replica counts in.
  void round_of_a(RoundNumber number) {
    report(a, rep_a, key(number));
    report_nan(b, rep_b, number);
    finish(number);
  }
  std::vector<std::string> texts(const char* kind) const {
    std::vector<std::string> found;
    for (const EventRecord& event : events) {
      if (event.kind == kind) found.push_back(event.message);
    }
    return found;
  }
};

TEST(NonFinite, AnEventNamesTheReplicaTheStepsAndTheRemedyOnce) {
  NonFinitePair rig;
  rig.round_of_a(1);
  rig.round_of_a(2);
  const auto told = rig.texts(event_kind::kContributionRejected);
  ASSERT_EQ(told.size(), 1u) << "not in each round";
  EXPECT_THAT(told[0], HasSubstr("round 1: the values of "));
  EXPECT_THAT(told[0], HasSubstr("inner steps 0 to 10"));
  EXPECT_THAT(told[0], HasSubstr("lower train.lr"));
  rig.report(rig.a, rig.rep_a, rig.key(3)), rig.report(rig.b, rig.rep_b, rig.key(3));
  rig.finish(3);
  rig.round_of_a(4);
  EXPECT_EQ(rig.texts(event_kind::kContributionRejected).size(), 2u) << "it was finite meanwhile";
}

TEST(NonFinite, ItsSequencesAreNotLeasedAgain) {
  NonFinitePair rig;
  const DataLease bad = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.round_of_a(1);
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
  for (const ConnectionId agent : {rig.a, rig.b}) {
    for (const DataLease& lease : rig.next_of(agent).leases) {
      EXPECT_GE(lease.first, bad.first + bad.count);
    }
  }
}

TEST(NonFinite, NorAreTheyWhenItsTrainerDiesInTheReduce) {
  NonFinitePair rig;
  rig.report(rig.a, rig.rep_a, rig.key(1));
  rig.report_nan(rig.b, rig.rep_b, 1);
  ASSERT_NE(rig.state().rounds.at(rig.key(1)).state, RoundState::kOpen);
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, "killed"});
  EXPECT_EQ(rig.state().contributions.at({rig.key(1), rig.rep_b}).state, ContributionState::kLost);
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
}

TEST(NonFinite, NorAreTheyWhenItsAgentIsAbsentAtTheCommit) {
  JobSpec spec = job_of_steps();
  spec.swarm.min_replicas = 1;
  NonFinitePair rig(spec);
  rig.report(rig.a, rig.rep_a, rig.key(1));
  rig.report_nan(rig.b, rig.rep_b, 1);
  rig.input(AgentHungUp{rig.b});
  for (int i = 0; i < 10; ++i) rig.wait(seconds(1)), rig.say(rig.a, Heartbeat{});
  ASSERT_EQ(rig.state().replicas.at(rig.rep_b).state, ReplicaState::kAbsent);
  rig.vote(rig.a, rig.rep_a, rig.key(1), rig.state().rounds.at(rig.key(1)).reduces.at(0).attempt);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.state().contributions.at({rig.key(1), rig.rep_b}).state, ContributionState::kLost);
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
}

TEST(NonFinite, AReplicaThatStaysSoIsReplacedAndItsAgentIsNotBlamed) {
  NonFinitePair rig;
  for (RoundNumber number = 1; number < kNonFiniteRoundsMax; ++number) rig.round_of_a(number);
  rig.report(rig.a, rig.rep_a, rig.key(kNonFiniteRoundsMax));
  rig.report_nan(rig.b, rig.rep_b, kNonFiniteRoundsMax);
  EXPECT_EQ(rig.replicas_.at(rig.rep_b).failure, ReplicaFailure::kNonFiniteLoss);
  EXPECT_THAT(rig.replicas_.at(rig.rep_b).detail, HasSubstr("in 5 rounds in a row"));
  EXPECT_EQ(rig.state().agents.at(AgentId(2)).health_record, HealthRecord());
  rig.wait(seconds(3));
  EXPECT_NE(rig.last<Assign>(rig.b)->replica, rig.rep_b) << "the device is used again";
}

TEST(NonFinite, OneRoundOfAllIsTriedAgain) {
  NonFinitePair rig;
  for (int tries = 1; tries < kNonFiniteTriesMax; ++tries) {
    rig.report_nan(rig.a, rig.rep_a, 1), rig.report_nan(rig.b, rig.rep_b, 1);
    ASSERT_EQ(rig.state().rounds.at(rig.key(1)).aborts, tries);
  }
  rig.report(rig.a, rig.rep_a, rig.key(1)), rig.report(rig.b, rig.rep_b, rig.key(1));
  rig.finish(1);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
}

TEST(NonFinite, AJobWhoseReplicasStaySoFailsWithTheReason) {
  NonFinitePair rig;
  for (int tries = 0; tries < kNonFiniteTriesMax; ++tries) {
    ASSERT_FALSE(is_terminal(rig.job(rig.id).phase)) << tries;
    rig.report_nan(rig.a, rig.rep_a, 1), rig.report_nan(rig.b, rig.rep_b, 1);
  }
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFailed);
  EXPECT_EQ(
      rig.job(rig.id).detail,
      "no replica had finite values in 3 tries of round 1, up to inner step 30: lower train.lr, "
      "clip the gradients, or look for values that are not finite in the data and in the loss");
}

}  // namespace
}  // namespace shoal::coordinator
