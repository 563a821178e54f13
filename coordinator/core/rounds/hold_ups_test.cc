// Rounds that stand still for agents that say nothing: how long, and when they do not.
#include <algorithm>
#include <array>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

// A heartbeat and a half: what was trained in rounds as short as these is not worth more.
constexpr Duration kPatience = seconds(3);

// Four replicas of one stage in their first round, on agents whose heartbeats come when they
// should.
struct Four : Rig {
  explicit Four(std::int32_t stages = 1, std::int64_t min_replicas = 1) {
    JobSpec spec = small_job();
    spec.train.steps = Steps(100);
    spec.model.layers = 2;
    spec.swarm.stages = stages;
    spec.swarm.min_replicas = min_replicas;
    adopt(spec);
    for (std::size_t i = 0; i < 4; ++i) agents[i] = join("agent-" + std::to_string(i));
    wait(seconds(3));
    for (std::size_t i = 0; i < 4; ++i) replicas[i] = load(agents[i]);
    wait(seconds(3));
    stay(seconds(1));
  }
  // All agents that are not frozen keep sending heartbeats.
  void stay(Duration d) {
    for (Duration passed; passed < d; passed = passed + seconds(1)) {
      wait(seconds(1));
      for (std::size_t i = 0; i < 4; ++i) {
        if (!frozen[i]) say(agents[i], Heartbeat{});
      }
    }
  }
  void report_of(std::size_t i) { report(agents[i], replicas[i], key); }
  void report_all_but(std::size_t i) {
    for (std::size_t other = 0; other < 4; ++other) {
      if (other != i) report_of(other);
    }
  }
  // It froze before its report, which is the only one that is missing.
  void wait_for(std::size_t i, Duration d) {
    frozen[i] = true;
    report_all_but(i);
    stay(d);
  }
  void vote_of(std::size_t i, std::int32_t attempt) { vote(agents[i], replicas[i], key, attempt); }
  bool is_there(std::size_t i) const { return is_present(state(), replicas[i]); }
  RoundState round() const { return state().rounds.at(key).state; }

  std::array<ConnectionId, 4> agents;
  std::array<ReplicaId, 4> replicas;
  std::array<bool, 4> frozen = {};
  RoundKey key{JobId(1), 0, 1};
};

struct PipedFour : Four {
  PipedFour() : Four(2) {}
  std::array<std::size_t, 2> of_stage(StageIndex stage) {
    std::array<std::size_t, 2> found = {4, 4};
    for (std::size_t i = 0, n = 0; i < 4 && n < 2; ++i) {
      if (last<Assign>(agents[i])->stage == stage) found[n++] = i;
    }
    return found;
  }
  void lose(std::size_t i) {
    say(agents[i], ReplicaFailed{replicas[i], ReplicaFailure::kTrainerExited, "was killed"});
    stay(seconds(2));
    replicas[i] = load(agents[i]);
  }
  bool trains(std::size_t i) {
    const auto there = with_assigned_data(state(), key);
    return std::ranges::count(there, replicas[i]) > 0;
  }
  std::int64_t data_of_round() {
    std::int64_t sequences = 0;
    for (const std::size_t i : of_stage(0)) {
      sequences += count_sequences(state().contributions.at({key, replicas[i]}).leases);
    }
    return sequences;
  }
};

TEST(HoldUps, ASilentAgentForWhichAloneARoundWaitsIsGivenNoWholeLease) {
  Four rig;
  rig.wait_for(3, kPatience - seconds(1));
  EXPECT_TRUE(rig.is_there(3));
  EXPECT_EQ(rig.round(), RoundState::kOpen);
  rig.stay(seconds(1));
  EXPECT_TRUE(is_live(rig.state(), rig.replicas[3])) << "it is absent, and keeps what it holds";
  EXPECT_FALSE(rig.is_there(3));
  EXPECT_EQ(rig.round(), RoundState::kReducing) << "without it";
  ASSERT_LT(kPatience, rig.options.reconnect_grace);
}

// It trained for longer than the three others would wait for it together.
TEST(HoldUps, InALongRoundASilentAgentIsWorthMoreTime) {
  Four rig;
  rig.stay(seconds(30));
  rig.wait_for(3, rig.options.reconnect_grace - seconds(1));
  EXPECT_TRUE(rig.is_there(3));
  EXPECT_EQ(rig.round(), RoundState::kOpen);
  rig.stay(seconds(1));
  EXPECT_FALSE(rig.is_there(3)) << "but no more than for one whose stream has closed";
}

// Ten seconds of work, and each of three others waits for it.
TEST(HoldUps, TheTimeIsWhatItTrainedSharedByThoseWhoWait) {
  Four rig;
  const Instant opened = rig.state().rounds.at(rig.key).opened_at;
  while (rig.now < opened + seconds(12)) rig.stay(seconds(1));
  rig.wait_for(3, seconds(3));
  EXPECT_TRUE(rig.is_there(3));
  rig.stay(seconds(1));
  EXPECT_FALSE(rig.is_there(3));
}

TEST(HoldUps, WhileOthersTrainASilentAgentHasItsLease) {
  Four rig;
  rig.frozen[3] = true;
  rig.report_of(0), rig.report_of(1);
  rig.stay(rig.options.lease - seconds(1));
  EXPECT_TRUE(rig.is_there(3)) << "the round would not continue without it either";
  rig.report_of(2);
  rig.stay(seconds(1));
  EXPECT_FALSE(rig.is_there(3));
}

// Half of them wait, but a line that all of them share is down: without the others nothing
// continues.
TEST(HoldUps, WhereNobodyIsHeardEverybodyHasTheLease) {
  Four rig;
  rig.report_all_but(3);
  rig.frozen.fill(true);
  rig.stay(rig.options.lease - seconds(1));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(rig.is_there(i)) << i;
  EXPECT_EQ(rig.round(), RoundState::kOpen);
}

TEST(HoldUps, OneThatReportsLateCountsAndStays) {
  Four rig;
  rig.wait_for(3, kPatience - seconds(1));
  rig.frozen[3] = false;
  rig.report_of(3);
  EXPECT_EQ(rig.round(), RoundState::kReducing);
  rig.stay(kPatience);
  EXPECT_TRUE(rig.is_there(3));
}

// It froze after its report, while another one was waited for: both cost the round no more than the
// later of them.
TEST(HoldUps, TheSecondOneOfARoundIsNotWaitedForAnew) {
  Four rig;
  rig.wait_for(3, kPatience - seconds(2));
  rig.frozen[2] = true;
  rig.stay(seconds(2));
  ASSERT_EQ(rig.round(), RoundState::kReducing);
  ASSERT_TRUE(rig.is_there(2)) << "it may only be late";
  rig.stay(kPatience - seconds(2));
  EXPECT_FALSE(rig.is_there(2)) << "it was silent before the attempt began";
  rig.vote_of(0, 2), rig.vote_of(1, 2);
  EXPECT_EQ(rig.job(JobId(1)).committed_round, 1);
}

TEST(HoldUps, AMemberThatWasHeardSinceTheAttemptBeganHasItsLease) {
  Four rig;
  rig.report_all_but(3), rig.report_of(3);
  rig.stay(seconds(1));
  rig.frozen[3] = true;
  rig.stay(rig.options.lease - seconds(2));
  EXPECT_TRUE(rig.is_there(3)) << "averages take their time";
}

// What it holds would be worthless with the next commit, and one replica all that its stage has.
TEST(HoldUps, TheLastButOneOfAStageHasItsLease) {
  PipedFour rig;
  const auto there = rig.of_stage(1);
  rig.wait_for(there[1], rig.options.lease - seconds(1));
  EXPECT_TRUE(rig.is_there(there[1]));
  rig.stay(seconds(1));
  EXPECT_FALSE(rig.is_there(there[1]));
}

TEST(HoldUps, ButARoundWaitsForOneLeaseOnly) {
  PipedFour rig;
  const auto first = rig.of_stage(0), last = rig.of_stage(1);
  rig.wait_for(last[1], rig.options.lease - seconds(2));
  rig.frozen[first[1]] = true;
  rig.stay(seconds(2));
  ASSERT_EQ(rig.round(), RoundState::kReducing);
  rig.stay(rig.options.reconnect_grace - seconds(2));
  EXPECT_FALSE(rig.is_there(first[1])) << "it has had all that the first one left";
}

// ---- trainers that hang: their agents speak for them

ReplicaFailed hangs(ReplicaId replica) {
  return {replica, ReplicaFailure::kUnresponsive, "the trainer of device 0 hangs"};
}

TEST(HoldUps, ATrainerThatHangsIsAbsentUntilTheRoundIsOver) {
  Four rig;
  rig.say(rig.agents[3], hangs(rig.replicas[3]));
  EXPECT_FALSE(rig.is_there(3));
  EXPECT_TRUE(is_live(rig.state(), rig.replicas[3]));
  EXPECT_FALSE(rig.last<Release>(rig.agents[3])) << "it may be back before the round is over";
  rig.report_all_but(3);
  ASSERT_EQ(rig.round(), RoundState::kReducing);
  for (std::size_t i = 0; i < 3; ++i) rig.vote_of(i, 1);
  EXPECT_EQ(rig.job(JobId(1)).committed_round, 1);
  EXPECT_EQ(rig.last<Release>(rig.agents[3])->replica, rig.replicas[3]);
}

TEST(HoldUps, ATrainerThatHungAndIsBackInTimeCounts) {
  Four rig;
  rig.say(rig.agents[3], hangs(rig.replicas[3]));
  rig.report_of(0), rig.report_of(1);
  rig.agents[3] = rig.join("agent-3", Incarnation{1}, {rig.replicas[3]});
  EXPECT_TRUE(rig.is_there(3));
  rig.report_of(2);
  EXPECT_EQ(rig.round(), RoundState::kOpen);
  rig.report_of(3);
  ASSERT_EQ(rig.round(), RoundState::kReducing);
  for (std::size_t i = 0; i < 4; ++i) rig.vote_of(i, 1);
  EXPECT_EQ(rig.state().contributions.at({rig.key, rig.replicas[3]}).reject_reason,
            RejectReason::kNone);
}

TEST(HoldUps, WhereTheOthersWaitForAHungTrainerItIsReplaced) {
  Four rig(1, 4);
  rig.say(rig.agents[3], hangs(rig.replicas[3]));
  EXPECT_FALSE(is_live(rig.state(), rig.replicas[3]));
  EXPECT_TRUE(rig.last<Release>(rig.agents[3]));
}

// Its agent says again after every connection what the coordinator may not have heard.
TEST(HoldUps, ThatATrainerHangsMayBeSaidAgain) {
  Four rig;
  rig.say(rig.agents[3], hangs(rig.replicas[3]));
  const auto events = rig.events.size();
  rig.say(rig.agents[3], hangs(rig.replicas[3]));
  EXPECT_FALSE(rig.is_there(3));
  EXPECT_EQ(rig.events.size(), events);
}

// Once it was killed, and the job went back to where it began.
TEST(HoldUps, TheLastOnesOfAStageThatHangAreWaitedFor) {
  Four rig;
  rig.report_all_but(3), rig.report_of(3);
  for (std::size_t i = 0; i < 4; ++i) rig.vote_of(i, 1);
  for (std::size_t i = 0; i < 4; ++i)
    rig.applied(rig.agents[i], rig.replicas[i], rig.key, {11, 11});
  ASSERT_EQ(rig.job(JobId(1)).committed_round, 1);
  for (std::size_t i = 0; i < 4; ++i) rig.say(rig.agents[i], hangs(rig.replicas[i]));
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kStalled);
  rig.stay(rig.options.rollback_wait_min / 2);
  EXPECT_EQ(rig.job(JobId(1)).committed_round, 1);
  for (std::size_t i = 0; i < 4; ++i) {
    rig.agents[i] = rig.join("agent-" + std::to_string(i), Incarnation{1}, {rig.replicas[i]});
  }
  EXPECT_EQ(rig.job(JobId(1)).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(JobId(1)).committed_round, 1);
}

TEST(HoldUps, NobodyLoadsFromATrainerThatHangs) {
  Four rig;
  rig.report_all_but(3), rig.report_of(3);
  for (std::size_t i = 0; i < 4; ++i) rig.vote_of(i, 1);
  for (std::size_t i = 0; i < 4; ++i)
    rig.applied(rig.agents[i], rig.replicas[i], rig.key, {11, 11});
  for (std::size_t i = 1; i < 4; ++i) rig.say(rig.agents[i], hangs(rig.replicas[i]));
  const ConnectionId late = rig.join("late");
  ASSERT_TRUE(rig.last<Assign>(late));
  EXPECT_EQ(rig.last<Assign>(late)->source.replica, rig.replicas[0]);
}

// ---- pipelines: who is there may be needed before the next round

TEST(HoldUps, OneThatReplacesALostReplicaTrainsTheRoundThatIsOpen) {
  for (const StageIndex stage : {0, 1}) {
    PipedFour rig;
    const auto there = rig.of_stage(stage);
    ASSERT_LT(there[1], 4u);
    const std::int64_t data = rig.data_of_round();
    rig.lose(there[0]);
    EXPECT_TRUE(rig.trains(there[0])) << "the stage would hang on one";
    EXPECT_EQ(rig.data_of_round(), data);
    EXPECT_TRUE(rig.last<ToReplica<OpenRound>>(rig.agents[there[0]]));
  }
}

}  // namespace
}  // namespace shoal::coordinator
