// Jobs that continue a checkpoint of another job.
#include "coordinator/core/continuing.h"

#include <iterator>

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// A job that has stored its second round; and the same once more, under another name.
struct Continued : PairRig {
  static JobSpec spec() {
    JobSpec spec = small_job("old");
    spec.train.steps = Steps(1000);
    spec.swarm.max_replicas = 2;
    spec.checkpoint.every_rounds = 2;
    spec.checkpoint.keep = 1;
    return spec;
  }
  Continued() : PairRig(spec()) {
    for (RoundNumber round = 1; round <= 2; ++round) train(round);
    checkpoint = std::prev(state().checkpoints.end())->first;
    upload(checkpoint, 0);
    cut = state().checkpoints.at(checkpoint);
    c = join("c"), d = join("d");
  }
  void train(RoundNumber round) {
    report(a, rep_a, key(round)), report(b, rep_b, key(round));
    finish(round);
  }
  // The replica of this agent has what the checkpoint has.
  void load_cut(ConnectionId agent) {
    const Assign assign = last<Assign>(agent).value();
    say(agent, Loaded{assign.replica, assign.source.key, cut.parts[0].anchor, cut.parts[0].momentum,
                      1000, "127.0.0.1:" + std::to_string(7100 + agent.n), fragments});
  }
  JobSpec next() const {
    JobSpec next = spec();
    next.name = "new";
    next.train.continue_from = to_string(checkpoint);
    return next;
  }
  CheckpointId checkpoint;
  CheckpointRecord cut;
  ConnectionId c, d;
};

TEST(Continuing, TheJobStandsWhereTheCheckpointDoes) {
  Continued rig;
  const auto id = rig.submit(rig.next());
  ASSERT_TRUE(id.ok());
  const JobRecord& job = rig.job(*id);
  EXPECT_EQ(job.committed_round, 2);
  EXPECT_EQ(job.committed_step, rig.cut.step);
  EXPECT_EQ(job.committed_tokens, rig.cut.tokens);
  EXPECT_GT(job.next_sequence, 0);
  EXPECT_EQ(job.next_sequence, rig.cut.next_sequence);
  EXPECT_EQ(job.returned, rig.cut.returned);
  for (const auto agent : {rig.c, rig.d}) {
    const auto assign = rig.last<Assign>(agent);
    ASSERT_TRUE(assign.has_value());
    EXPECT_EQ(assign->source.kind, SourceKind::kCheckpoint);
    EXPECT_EQ(assign->source.checkpoint, rig.checkpoint);
    EXPECT_EQ(assign->source.key, (RoundKey{*id, 0, 2}));
    EXPECT_EQ(assign->source.anchor, rig.cut.parts[0].anchor);
    EXPECT_EQ(assign->source.momentum, rig.cut.parts[0].momentum);
  }
}

TEST(Continuing, ItsNextRoundFollowsAndBeforeThatItGoesBackThere) {
  Continued rig;
  const JobId id = *rig.submit(rig.next());
  rig.load_cut(rig.c), rig.load_cut(rig.d);
  ASSERT_EQ(rig.job(id).phase, JobPhase::kTraining);
  ASSERT_TRUE(rig.state().rounds.contains({id, 0, 3}));
  EXPECT_GT(rig.job(id).next_sequence, rig.cut.next_sequence) << "leased";
  rig.input(CancelJob{RequestId{8}, rig.id});
  for (const auto agent : {rig.c, rig.d}) {
    const auto assign = rig.last<Assign>(agent);
    rig.say(agent, ReplicaFailed{assign->replica, ReplicaFailure::kInternal, "gone"});
  }
  rig.wait(seconds(1));
  EXPECT_EQ(rig.job(id).committed_round, 2);
  const auto assign = rig.last<Assign>(rig.c);
  EXPECT_EQ(assign->source.checkpoint, rig.checkpoint);
  EXPECT_EQ(assign->source.key.round, 2);
}

TEST(Continuing, WhatAJobContinuesIsKept) {
  Continued rig;
  const JobId next = *rig.submit(rig.next());
  const auto store = [&](RoundNumber round) {
    rig.train(round), rig.train(round + 1);
    rig.upload(std::prev(rig.state().checkpoints.end())->first, 0);
  };
  store(3);
  EXPECT_TRUE(rig.state().checkpoints.contains(rig.checkpoint)) << "keep is 1";
  rig.input(CancelJob{RequestId{9}, next});
  store(5);
  EXPECT_FALSE(rig.state().checkpoints.contains(rig.checkpoint));
}

TEST(Continuing, WhatMustBeTheSameIsNamed) {
  const auto refused = [](const auto& change) {
    Continued rig;
    JobSpec spec = rig.next();
    change(spec);
    EXPECT_FALSE(rig.submit(spec).ok());
    const auto& fields = rig.replies.back().fields;
    return fields.empty() ? FieldError() : fields[0];
  };
  EXPECT_THAT(refused([](JobSpec& s) { s.train.continue_from = "ckpt_99"; }).detail,
              HasSubstr("must name a stored checkpoint"));
  const FieldError model = refused([](JobSpec& s) { s.model.layers = 7; });
  EXPECT_EQ(model.pointer, "/model");
  EXPECT_THAT(model.detail, HasSubstr("model.layers is 7 in the job"));
  EXPECT_EQ(refused([](JobSpec& s) { s.data.val_fraction = 0.2; }).pointer, "/data");
  EXPECT_EQ(refused([](JobSpec& s) { s.train.seed = 9; }).pointer, "/train/seed");
  EXPECT_EQ(refused([](JobSpec& s) { s.train.optimizer = Optimizer::kMuon; }).pointer,
            "/train/optimizer");
  EXPECT_EQ(refused([](JobSpec& s) { s.swarm.stages = 2; }).pointer, "/swarm/stages");
  const FieldError steps =
      refused([](JobSpec& s) { s.train.steps = Steps(20), s.train.warmup = Steps(1); });
  EXPECT_EQ(steps.pointer, "/train/steps");
  EXPECT_THAT(steps.detail, HasSubstr("must be above 20, the inner steps that"));
}

}  // namespace
}  // namespace shoal::coordinator
