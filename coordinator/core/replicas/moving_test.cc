#include "coordinator/core/replicas/moving.h"

#include <gmock/gmock.h>

#include "coordinator/core/pipelines_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/placing.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Moving : Piped {
  // Nine equal agents, of which the second stage has lost three of its five.
  Moving() : Piped(9) {
    for (int i = 0; i < 3; ++i) lose(of_stage(1).front());
  }
  Moving(const JobSpec& spec, int count) : Piped(spec, count) {}
  // Every agent measures its line to another one of its stage.
  void say_lines(RoundNumber round, double bytes_per_s) {
    for (const StageIndex stage : {0, 1}) {
      const std::vector<ConnectionId> all = of_stage(stage);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const ReplicaId peer = last<Assign>(all[(i + 1) % all.size()])->replica;
        RoundReport report;
        report.key = {JobId(1), 0, round};
        report.links = {{peer, milliseconds(20), bytes_per_s, bytes_per_s, true}};
        report.tokens = report.drawn = Tokens(1280);
        report.steps = Steps(10);
        report.norm = 1;
        say(all[i], FromReplica<RoundReport>{last<Assign>(all[i])->replica, report});
      }
    }
  }
  void serves(ConnectionId agent, Duration service) {
    say(agent, PipelineStats{.replica = last<Assign>(agent)->replica, .service = service});
  }
  std::vector<std::string> said(const char* kind) const {
    std::vector<std::string> found;
    for (const EventRecord& event : events) {
      if (event.kind == kind) found.push_back(event.message);
    }
    return found;
  }
};

TEST(MovingTest, TheDeviceLoadsItsNewStageInTheSameStep) {
  Moving rig;
  rig.commit_round(1);
  rig.stay_alive(seconds(65));
  rig.commit_round(2);
  ASSERT_EQ(rig.said(event_kind::kReplicaMoved).size(), 1u);
  EXPECT_THAT(rig.said(event_kind::kReplicaMoved)[0],
              AllOf(HasSubstr("leaves stage 0 for stage 1 (balance: +"), HasSubstr("/s take 5 s")));
  ASSERT_EQ(rig.of_stage(1).size(), 3u);
  const auto second = rig.of_stage(1);
  EXPECT_EQ(
      std::ranges::count(second, SourceKind::kPeer,
                         [&](ConnectionId agent) { return rig.last<Assign>(agent)->source.kind; }),
      1);
  EXPECT_THAT(rig.said(event_kind::kMoveRefused), IsEmpty());
}

TEST(MovingTest, WhatTheLinesCannotCarryInTimeIsRefusedWithItsFiguresOnce) {
  Moving rig;
  rig.say_lines(1, 1);
  rig.commit_round(1);
  rig.stay_alive(seconds(65));
  rig.commit_round(2);
  EXPECT_THAT(rig.said(event_kind::kReplicaMoved), IsEmpty());
  ASSERT_EQ(rig.said(event_kind::kMoveRefused).size(), 1u);
  EXPECT_THAT(rig.said(event_kind::kMoveRefused)[0],
              AllOf(HasSubstr("stays in stage 0: in stage 1, which makes"), HasSubstr(" at 1 B/s"),
                    HasSubstr("as long again within 1800 s")));
  rig.stay_alive(seconds(65));
  rig.commit_round(3);
  EXPECT_EQ(rig.said(event_kind::kMoveRefused).size(), 1u);
}

TEST(MovingTest, TheMoveThatWasConsideredLastIsKeptWithItsFigures) {
  Moving refused;
  refused.say_lines(1, 1);
  refused.commit_round(1);
  refused.stay_alive(seconds(65));
  refused.commit_round(2);
  const JobTimers& timers = refused.state().timers.at(JobId(1));
  ASSERT_TRUE(timers.look);
  EXPECT_EQ(timers.look->verdict, swarm::BalanceVerdict::kDoesNotPay);
  EXPECT_EQ(timers.look->weakest_stage, 1);
  ASSERT_TRUE(timers.considered);
  EXPECT_EQ(timers.considered->verdict, swarm::BalanceVerdict::kDoesNotPay);
  EXPECT_EQ(timers.considered->from, 0);
  EXPECT_EQ(timers.considered->to, 1);
  EXPECT_DOUBLE_EQ(timers.considered->worth.bytes_per_s, 1) << "the line of the mover";
  EXPECT_EQ(timers.considered->worth.payback, timers.considered->worth.away * 2);
  EXPECT_EQ(timers.considered->worth.bound, seconds(1800));
  EXPECT_EQ(timers.considered->reason, refused.said(event_kind::kMoveRefused).at(0));

  Moving made;
  made.commit_round(1);
  made.stay_alive(seconds(65));
  made.commit_round(2);
  const auto& considered = made.state().timers.at(JobId(1)).considered;
  ASSERT_TRUE(considered);
  EXPECT_EQ(considered->verdict, swarm::BalanceVerdict::kMoves);
  EXPECT_THAT(considered->reason, HasSubstr(" moves from stage 0: in stage 1, which makes "));
  EXPECT_THAT(considered->reason, HasSubstr("and the move pays after 10 s of at most 1800 s"));
}

// Both of stage 1 are as slow as one tenth: those of stage 0 would help, if they were more.
TEST(MovingTest, ASmallClusterMovesDownToOneCopyWhereTheJobAllowsIt) {
  for (const std::int64_t copies : {2, 1}) {
    JobSpec spec = two_stages();
    spec.swarm.copies_min = copies;
    Moving rig(spec, 4);
    rig.commit_round(1);
    for (const auto agent : rig.of_stage(0)) rig.serves(agent, milliseconds(10));
    for (const auto agent : rig.of_stage(1)) rig.serves(agent, milliseconds(10));
    rig.stay_alive(seconds(15));
    for (const auto agent : rig.of_stage(1)) rig.serves(agent, milliseconds(100));
    rig.stay_alive(seconds(25));
    EXPECT_EQ(rig.of_stage(0).size(), copies == 1 ? 1u : 2u);
    const auto& look = rig.state().timers.at(JobId(1)).look;
    ASSERT_TRUE(look);
    if (copies == 1) continue;
    EXPECT_EQ(look->verdict, swarm::BalanceVerdict::kNoGain);
    EXPECT_THAT(look->reason, HasSubstr("2 replicas of other stages would help it, but every stage "
                                        "keeps 2 copies"));
  }
}

// The state of stage 1 is only in a checkpoint whose last part is on its way.
TEST(MovingTest, AStageWithoutHoldersTakesOneOfAnotherAsSoonAsItsStateIsStored) {
  Moving rig(two_stages(), 4);
  rig.commit_round(1);
  rig.upload(CheckpointId(1), 1);
  for (const auto agent : rig.of_stage(1)) rig.lose(agent);
  rig.stay_alive(seconds(5));
  EXPECT_EQ(rig.of_stage(0).size(), 2u) << "nothing could be loaded yet";
  rig.upload(CheckpointId(1), 0);
  ASSERT_EQ(rig.of_stage(1).size(), 1u) << "in the same step";
  EXPECT_EQ(rig.last<Assign>(rig.of_stage(1)[0])->source.kind, SourceKind::kCheckpoint);
  EXPECT_EQ(rig.job(JobId(1)).epoch, 0);
}

TEST(MovingTest, ADeviceDoesNotReturnToAnyStageThatItLeftWithinHalfAnHour) {
  Moving rig;
  rig.commit_round(1);
  rig.stay_alive(seconds(65));
  rig.commit_round(2);
  const auto& left = rig.state().timers.at(JobId(1)).left;
  ASSERT_EQ(left.size(), 1u);
  const auto& [device, stages] = *left.begin();
  ASSERT_EQ(stages.size(), 1u);
  EXPECT_EQ(stages[0].stage, 0);
  const auto may_return = [&, device = device](Duration later) {
    State state = rig.state();
    Transaction tx(state, rig.now + later);
    for (const PlacedReplica& replica : placement_input(tx, rig.job(JobId(1))).live) {
      if (std::pair(replica.agent, replica.device) == device) return replica.left.empty();
    }
    return true;
  };
  EXPECT_FALSE(may_return(seconds(1799)));
  EXPECT_TRUE(may_return(seconds(1800)));
}

// Stage 1 falls to a tenth of its speed in the middle of a round.
TEST(MovingTest, AStageFarBehindDoesNotWaitForTheCommit) {
  Moving rig;
  rig.commit_round(1);
  for (const auto agent : rig.agents) rig.serves(agent, milliseconds(10));
  rig.stay_alive(seconds(25));
  EXPECT_THAT(rig.said(event_kind::kReplicaMoved), IsEmpty());
  for (const auto agent : rig.of_stage(1)) rig.serves(agent, milliseconds(100));
  rig.stay_alive(seconds(25));
  EXPECT_EQ(rig.said(event_kind::kReplicaMoved).size(), 1u);
  EXPECT_EQ(rig.job(JobId(1)).committed_round, 1);
  EXPECT_EQ(rig.of_stage(1).size(), 3u);
}

}  // namespace
}  // namespace shoal::coordinator
