// Limits follow progress: what moves is waited for however long it takes, what stands still is not,
// and a compute thread that says nothing is found regardless of who else has reported.
#include "coordinator/core/state/movement.h"

#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// Agents that live; what else is said, tick() says, each second.
struct Watched : Pair {
  explicit Watched(const JobSpec& spec = long_job()) : Pair(spec) {}
  template <typename Tick>
  void live(std::int64_t seconds_, const Tick& tick) {
    for (std::int64_t second = 0; second < seconds_; ++second) {
      wait(seconds(1));
      if (is_up_a) say(a, Heartbeat{});
      if (is_up_b) say(b, Heartbeat{});
      tick(second);
    }
  }
  void works(ConnectionId agent, ReplicaId replica) {
    say(agent, Progress{.replica = replica, .key = key(1)});
  }
  bool is_up_a = true, is_up_b = true;
};

// ---- loads

struct Loading : Rig {
  Loading() {
    a = join("a");
    id = *submit(small_job());
    join("b");
    replica = last<Assign>(a)->replica;
  }
  template <typename Tick>
  void live(std::int64_t seconds_, const Tick& tick) {
    for (std::int64_t second = 0; second < seconds_; ++second) {
      wait(seconds(1));
      say(a, Heartbeat{});
      tick(second);
    }
  }
  ConnectionId a;
  JobId id;
  ReplicaId replica;
};

TEST(Movement, ALoadThatMovesIsWaitedForForAsLongAsItTakes) {
  Loading rig;
  rig.live(1800, [&](std::int64_t second) {
    rig.say(rig.a, LoadProgress{rig.replica, Bytes(1 + second), Bytes(100'000)});
  });
  EXPECT_TRUE(is_live(rig.state(), rig.replica));
}

TEST(Movement, ALoadThatStandsStillEndsAndIsNobodysFault) {
  Loading rig;
  rig.live(400, [&](std::int64_t second) {
    rig.say(rig.a, LoadProgress{rig.replica, Bytes(1 + second), Bytes(100'000)});
  });
  rig.live(295, [&](std::int64_t) {
    rig.say(rig.a, LoadProgress{rig.replica, Bytes(400), Bytes(100'000)});
  });
  EXPECT_TRUE(is_live(rig.state(), rig.replica));
  rig.live(10, [](std::int64_t) {});
  EXPECT_EQ(rig.replicas_.at(rig.replica).failure, ReplicaFailure::kSourceLost);
  EXPECT_EQ(rig.job(rig.id).failures_in_row, 0);
}

// ---- checkpoints

TEST(Movement, AnUploadThatMovesIsWaitedForForAsLongAsItTakes) {
  Watched rig;
  rig.commit(1), rig.evaluate(1);
  const CheckpointId checkpoint = rig.newest(rig.id);
  const auto works = [&] { rig.works(rig.a, rig.rep_a), rig.works(rig.b, rig.rep_b); };
  rig.live(1800, [&](std::int64_t second) {
    rig.input(CheckpointMoved{checkpoint, 0, Bytes(1 + second)});
    works();
  });
  EXPECT_TRUE(rig.state().checkpoints.contains(checkpoint));
  rig.live(175, [&](std::int64_t) {
    rig.input(CheckpointMoved{checkpoint, 0, Bytes(1800)});
    works();
  });
  EXPECT_TRUE(rig.state().checkpoints.contains(checkpoint));
  rig.live(10, [&](std::int64_t) { works(); });
  EXPECT_FALSE(rig.state().checkpoints.contains(checkpoint));
  EXPECT_THAT(rig.job(rig.id).detail, HasSubstr("nothing moved"));
  EXPECT_THAT(rig.deleted, testing::Contains(checkpoint)) << "what was received goes, too";
}

TEST(Movement, AfterAStartOfTheCoordinatorAnUploadHasItsTimeAgain) {
  Watched rig;
  rig.commit(1), rig.evaluate(1);
  const CheckpointId checkpoint = rig.newest(rig.id);
  rig.now = rig.now + seconds(10'000);
  rig.restart();
  rig.wait(seconds(5));
  EXPECT_TRUE(rig.state().checkpoints.contains(checkpoint));
}

// ---- compute threads

TEST(Movement, AHungReplicaIsAskedAndReplacedBeforeAnybodyReported) {
  Watched rig;
  rig.live(20, [&](std::int64_t) { rig.works(rig.a, rig.rep_a), rig.works(rig.b, rig.rep_b); });
  rig.live(58, [&](std::int64_t) { rig.works(rig.a, rig.rep_a); });
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.b));
  rig.live(4, [&](std::int64_t) { rig.works(rig.a, rig.rep_a); });
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.a)) << "it trains";
  EXPECT_TRUE(is_live(rig.state(), rig.rep_b));
  rig.live(30, [&](std::int64_t) { rig.works(rig.a, rig.rep_a); });
  EXPECT_FALSE(is_live(rig.state(), rig.rep_b));
  EXPECT_EQ(rig.replicas_.at(rig.rep_b).failure, ReplicaFailure::kUnresponsive);
  EXPECT_THAT(rig.replicas_.at(rig.rep_b).detail, HasSubstr("compute thread"));
  EXPECT_TRUE(is_live(rig.state(), rig.rep_a));
}

TEST(Movement, WhoAnswersInTimeStays) {
  Watched rig;
  rig.live(20, [&](std::int64_t) { rig.works(rig.a, rig.rep_a), rig.works(rig.b, rig.rep_b); });
  rig.live(70, [&](std::int64_t) { rig.works(rig.a, rig.rep_a); });
  ASSERT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
  rig.works(rig.b, rig.rep_b);
  rig.live(55, [&](std::int64_t) { rig.works(rig.a, rig.rep_a); });
  EXPECT_TRUE(is_live(rig.state(), rig.rep_b));
}

TEST(Movement, AFirstStepMayTakeLonger) {
  Watched rig;
  rig.live(590, [](std::int64_t) {});
  EXPECT_TRUE(is_live(rig.state(), rig.rep_a));
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.a));
  rig.live(50, [](std::int64_t) {});
  EXPECT_FALSE(is_live(rig.state(), rig.rep_a));
}

TEST(Movement, LongStepsAreWaitedFor) {
  Watched rig;
  rig.live(1000, [&](std::int64_t second) {
    if (second % 100 == 0) rig.works(rig.a, rig.rep_a), rig.works(rig.b, rig.rep_b);
  });
  rig.live(800, [](std::int64_t) {});
  EXPECT_TRUE(is_live(rig.state(), rig.rep_a));
}

TEST(Movement, TheOnlyReplicaOfAJobIsFoundToHang) {
  JobSpec spec = long_job();
  spec.swarm.min_replicas = 1;
  Rig rig;
  const auto a = rig.join("a");
  const JobId id = *rig.submit(spec);
  const ReplicaId replica = rig.load(a);
  for (int second = 0; second < 120; ++second) {
    rig.wait(seconds(1));
    rig.say(a, Heartbeat{});
    if (second < 20) rig.say(a, Progress{.replica = replica, .key = {id, 0, 1}});
  }
  EXPECT_EQ(rig.state().replicas.at(replica).state, ReplicaState::kAbsent)
      << "nobody else has what it holds, so it is waited for";
  for (int second = 0; second < 120; ++second) rig.wait(seconds(1)), rig.say(a, Heartbeat{});
  EXPECT_FALSE(is_live(rig.state(), replica));
}

// The coordinator stood still for an hour: nobody could be heard meanwhile.
TEST(Movement, TimeInWhichTheCoordinatorStoodStillIsNobodysSilence) {
  Watched rig;
  rig.live(20, [&](std::int64_t) { rig.works(rig.a, rig.rep_a), rig.works(rig.b, rig.rep_b); });
  rig.now = rig.now + seconds(3600);
  rig.say(rig.a, Heartbeat{}), rig.say(rig.b, Heartbeat{});
  rig.live(50, [](std::int64_t) {});
  EXPECT_TRUE(is_live(rig.state(), rig.rep_a));
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.a));
}

// Its line was down: what its trainer said was lost with it.
TEST(Movement, AReturningAgentIsHeardAnew) {
  Watched rig;
  rig.live(20, [&](std::int64_t) { rig.works(rig.a, rig.rep_a), rig.works(rig.b, rig.rep_b); });
  rig.live(50, [&](std::int64_t) { rig.works(rig.a, rig.rep_a); });
  const Incarnation incarnation = rig.last<Welcome>(rig.b)->incarnation;
  rig.input(AgentHungUp{rig.b});
  rig.b = rig.join("b", incarnation, {rig.rep_b});
  rig.live(50, [&](std::int64_t) { rig.works(rig.a, rig.rep_a); });
  EXPECT_TRUE(is_live(rig.state(), rig.rep_b));
}

// ---- reduces

TEST(Movement, AnAttemptHasTheTimeThatTheSlowestLineTakes) {
  Watched rig;
  rig.report_both(1);
  const auto time_limit = [&] {
    const RoundRecord& round = rig.state().rounds.at(rig.key(1));
    return attempt_time_limit(rig.state(), round, 0).seconds();
  };
  const double bytes = 2 * 4 * 1000;  // 1000 values, each way
  EXPECT_DOUBLE_EQ(time_limit(), 20 + bytes / 1e6);
  State state = rig.state();
  const AgentId from = state.replicas.at(rig.rep_a).agent, to = state.replicas.at(rig.rep_b).agent;
  state.links.put({from, to}, {from, to, milliseconds(50), 400, PeerWay::kDirect, rig.now});
  const RoundRecord& round = state.rounds.at(rig.key(1));
  EXPECT_DOUBLE_EQ(attempt_time_limit(state, round, 0).seconds(), 20 + bytes / 100);
}

}  // namespace
}  // namespace shoal::coordinator
