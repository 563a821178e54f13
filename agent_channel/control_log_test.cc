// Which lines come of which messages, with their levels and figures.
#include "agent_channel/control_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_rules.h"

namespace shoal::agent_channel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const RoundKey kRound{JobId(1), 0, 12};

struct Fixture {
  std::vector<std::string> take() { return std::exchange(lines, {}); }
  void load(SyncAlgorithm algorithm) {
    LoadReplica load;
    load.assign.replica = ReplicaId(3);
    load.assign.job = JobId(1);
    load.assign.stage = 1;
    load.assign.spec.sync = default_spec(algorithm).sync;
    load.assign.source = {.kind = SourceKind::kPeer, .key = kRound, .replica = ReplicaId(2)};
    log.heard(load);
  }
  std::vector<std::string> lines;
  ControlLog log{[this](const std::string& line) { lines.push_back(line); }};
};

TEST(ControlLog, StateTransferNamesItsSource) {
  Fixture s;
  s.load(SyncAlgorithm::kDiloco);
  s.log.said(Loaded{.replica = ReplicaId(3), .key = kRound, .value_count = 1000});
  EXPECT_THAT(s.take(),
              ElementsAre("info: loads replica=rep_3 job=job_1 stage=1 state_from=peer round=12 "
                          "source=rep_2",
                          "info: loaded replica=rep_3 round=12 parameters=1000"));
}

TEST(ControlLog, ACopyOfAnotherStageIsNamedWithItsRound) {
  Fixture s;
  s.log.heard(ToReplica<KeepCopies>{ReplicaId(3), {{{.copy = ReplicaId(21), .key = kRound}}}});
  s.log.said(FromReplica<CopiesHeld>{ReplicaId(3), {{{ReplicaId(21), kRound, {}, {}}}}});
  EXPECT_THAT(s.take(), ElementsAre("info: copy_held copy=rep_21 round=12"));
}

TEST(ControlLog, ARoundLeavesALinePerStep) {
  Fixture s;
  s.log.heard(ToReplica<OpenRound>{ReplicaId(3), {kRound, Steps(50), Steps(100), {{0, 800}}}});
  RoundReport report{.key = kRound, .tokens = Tokens(6400), .steps = Steps(50)};
  report.train_loss = 1.5;
  report.norm = 0.25;
  report.compute_s = 12.5;
  s.log.said(FromReplica<RoundReport>{ReplicaId(3), report});
  s.log.said(FromReplica<Vote>{ReplicaId(3), {kRound, 2, {}, {Bytes(1000), Bytes(2000), 0.5}, {}}});
  s.log.said(FromReplica<Vote>{ReplicaId(3), {kRound, 3, {}, {}, {{ReplicaId(5)}, {}, {}}}});
  s.log.said(FromReplica<Evaluated>{ReplicaId(3), {kRound, {0, 1, 4}, 300, Tokens(200)}});
  EXPECT_THAT(s.take(),
              ElementsAre("info: round_open round=12 from_step=50 to_step=100 sequences=800",
                          "info: round_trained round=12 steps=50 tokens=6400 train_loss=1.5 "
                          "norm=0.25 nonfinite=0 compute_s=12.5",
                          "info: reduced round=12 attempt=2 sent_bytes=1000 received_bytes=2000 "
                          "seconds=0.5",
                          "info: reduced round=12 attempt=3 sent_bytes=0 received_bytes=0 "
                          "seconds=0 excluded=rep_5",
                          "info: evaluated round=12 tokens=200 loss=1.5"));
}

TEST(ControlLog, TroubleIsAWarningOrAnError) {
  Fixture s;
  s.log.said(FromReplica<ReduceFailed>{
      ReplicaId(3), {kRound, 1, ReplicaId(5), ReduceFailure::kPeerLost, "stream ended"}});
  s.log.said(ReplicaFailed{ReplicaId(3), ReplicaFailure::kOutOfMemory, "needs 5 MiB"});
  s.log.said(CheckpointFailed{ReplicaId(3), CheckpointId(4), "disk full"});
  EXPECT_THAT(s.take(),
              ElementsAre("warning: reduce_failed round=12 attempt=1 failure=peer_lost "
                          "lost_peer=rep_5: stream ended",
                          "error: failed replica=rep_3 failure=out_of_memory: needs 5 MiB",
                          "warning: checkpoint_failed checkpoint=ckpt_4: disk full"));
}

TEST(ControlLog, PeersThatLeaveTheViewAreNamed) {
  Fixture s;
  PipelineView view{.job = JobId(1), .number = 1};
  for (const std::uint64_t n : {7, 3, 5}) view.members.push_back({ReplicaId(n), 0, "", 0});
  s.log.heard(ToReplica<PipelineView>{ReplicaId(3), view});
  EXPECT_THAT(s.take(), ElementsAre("info: view number=1 members=3"));
  view.members.erase(view.members.begin());
  view.number = 2;
  s.log.heard(ToReplica<PipelineView>{ReplicaId(3), view});
  EXPECT_THAT(s.take(),
              ElementsAre("warning: peer_gone peer=rep_7 view=2", "info: view number=2 members=2"));
}

TEST(ControlLog, RoundsOfDdpAreForDebugging) {
  Fixture s;
  s.load(SyncAlgorithm::kDdp);
  s.take();
  s.log.heard(ToReplica<OpenRound>{ReplicaId(3), {kRound, Steps(11), Steps(12), {{0, 16}}}});
  EXPECT_THAT(s.take(),
              ElementsAre("debug: round_open round=12 from_step=11 to_step=12 sequences=16"));
  s.log.said(Progress{});
  EXPECT_THAT(s.take(), IsEmpty());
}

}  // namespace
}  // namespace shoal::agent_channel
