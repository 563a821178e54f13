#include "coordinator/core/replicas/moving.h"

#include <gmock/gmock.h>

#include "coordinator/core/pipelines_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Moving : Piped {
  // Nine equal agents, of which the second stage has lost three of its five.
  Moving() : Piped(9) {
    for (int i = 0; i < 3; ++i) lose(of_stage(1).front());
  }
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
