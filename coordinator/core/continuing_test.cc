// Jobs that continue a checkpoint of another job.
#include "coordinator/core/continuing.h"

#include <functional>
#include <iterator>
#include <set>

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "job/sync_spec_test_util.h"

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
  // `idle_protocol`: that of the agents without work.
  explicit Continued(std::int32_t idle_protocol = kProtocolVersion) : PairRig(spec()) {
    writes_part_files = true;
    for (RoundNumber round = 1; round <= 2; ++round) train(round);
    checkpoint = std::prev(state().checkpoints.end())->first;
    upload(checkpoint, 0);
    cut = state().checkpoints.at(checkpoint);
    protocol = idle_protocol;
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
  EXPECT_EQ(job.begun_step, rig.cut.step);
  EXPECT_EQ(job.begun_tokens, rig.cut.tokens);
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

// Two stages that have stored their first round, and are cancelled then.
struct ContinuedPipeline : Piped {
  ContinuedPipeline() {
    commit(1), evaluate(1);
    checkpoint = store(id);
    stored = state().checkpoints.at(checkpoint);
    cut = last<Assign>(a)->cut;
    input(CancelJob{RequestId{9}, id});
  }
  Result<JobId> go_on(const std::function<void(JobSpec&)>& change = {}) {
    JobSpec next = job(id).spec;
    next.name = "new";
    next.train.continue_from = to_string(checkpoint);
    if (change) change(next);
    const Result<JobId> submitted = submit(next);
    wait(seconds(3));  // for devices
    return submitted;
  }
  CheckpointId checkpoint;
  CheckpointRecord stored;
  std::vector<UnitRange> cut;
};

TEST(Continuing, EachStageOfAPipelineHasItsPart) {
  ContinuedPipeline rig;
  const Result<JobId> next = rig.go_on();
  ASSERT_TRUE(next.ok());
  ASSERT_EQ(rig.job(*next).stages.size(), 2u);
  EXPECT_EQ(rig.job(*next).committed_round, 1);
  std::set<StageIndex> stages;
  for (const auto agent : {rig.a, rig.b}) {
    const auto assign = rig.last<Assign>(agent);
    ASSERT_TRUE(assign.has_value());
    EXPECT_EQ(assign->job, *next);
    EXPECT_EQ(assign->source.kind, SourceKind::kCheckpoint);
    EXPECT_EQ(assign->source.checkpoint, rig.checkpoint);
    EXPECT_EQ(assign->source.key, (RoundKey{*next, 0, 1}));
    const auto& part = rig.stored.parts.at(static_cast<std::size_t>(assign->stage));
    EXPECT_EQ(assign->source.anchor, part.anchor);
    EXPECT_EQ(assign->source.momentum, part.momentum);
    EXPECT_EQ(assign->cut, rig.cut);
    stages.insert(assign->stage);
  }
  EXPECT_EQ(stages, (std::set<StageIndex>{0, 1}));
  rig.load_what_is_told(rig.a), rig.load_what_is_told(rig.b);
  rig.wait(seconds(3));
  EXPECT_EQ(rig.job(*next).phase, JobPhase::kTraining);
  EXPECT_TRUE(rig.state().rounds.contains({*next, 0, 2}));
  EXPECT_GE(rig.job(*next).next_sequence, rig.stored.next_sequence);
}

TEST(Continuing, APipelineIsNotCutAnew) {
  ContinuedPipeline rig;
  EXPECT_FALSE(rig.go_on([](JobSpec& spec) { spec.swarm.stages = 1; }).ok());
  ASSERT_FALSE(rig.replies.back().fields.empty());
  EXPECT_EQ(rig.replies.back().fields[0].pointer, "/swarm/stages");
  const Result<JobId> as_it_is = rig.go_on([](JobSpec& spec) { spec.swarm.stages = 0; });
  ASSERT_TRUE(as_it_is.ok());
  EXPECT_EQ(rig.job(*as_it_is).stages.size(), 2u);
}

// It would begin with the seed otherwise, and nobody asked for that.
TEST(Continuing, WhatCannotBeLoadedEndsTheJob) {
  Continued rig;
  const JobId id = *rig.submit(rig.next());
  for (int seconds_passed = 0; seconds_passed < 300 && !is_terminal(rig.job(id).phase);
       ++seconds_passed) {
    for (const auto agent : {rig.a, rig.b, rig.c, rig.d}) rig.say(agent, Heartbeat{});
    for (const auto agent : {rig.c, rig.d}) {
      const Assign assign = *rig.last<Assign>(agent);
      ASSERT_EQ(assign.source.kind, SourceKind::kCheckpoint);
      rig.say(agent, ReplicaFailed{assign.replica, ReplicaFailure::kDigestMismatch, "damaged"});
    }
    rig.wait(seconds(1));
  }
  EXPECT_EQ(rig.job(id).phase, JobPhase::kFailed);
  EXPECT_THAT(rig.job(id).detail, HasSubstr(to_string(rig.checkpoint)));
  EXPECT_THAT(rig.job(id).detail, HasSubstr("--from"));
}

TEST(Continuing, AgentTooOldForPartFilesDoesNotSetTheCheckpointAside) {
  constexpr std::int32_t kWithPartFiles = 5;
  for (const std::int32_t protocol : {kWithPartFiles - 1, kWithPartFiles}) {
    Continued rig(protocol);
    ASSERT_TRUE(rig.submit(rig.next()).ok());
    for (int i = 0; i < 30; ++i) {
      for (const auto agent : {rig.a, rig.b, rig.c, rig.d}) rig.say(agent, Heartbeat{});
      for (const auto agent : {rig.c, rig.d}) {
        const Assign assign = *rig.last<Assign>(agent);
        rig.say(agent, ReplicaFailed{assign.replica, ReplicaFailure::kDigestMismatch, "missing"});
      }
      rig.wait(seconds(1));
    }
    EXPECT_EQ(rig.state().checkpoints.contains(rig.checkpoint), protocol < kWithPartFiles);
  }
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
  const FieldError kind = refused(
      [](JobSpec& s) { s.trainer.kind = TrainerKind::kPython, s.trainer.entry = "train.py"; });
  EXPECT_EQ(kind.pointer, "/trainer/kind") << "whose checkpoints have other files";
  EXPECT_EQ(refused([](JobSpec& s) { s.data.val_fraction = 0.2; }).pointer, "/data");
  EXPECT_EQ(refused([](JobSpec& s) { s.train.seed = 9; }).pointer, "/train/seed");
  EXPECT_EQ(refused([](JobSpec& s) { s.train.optimizer = Optimizer::kMuon; }).pointer,
            "/train/optimizer");
  EXPECT_EQ(refused([](JobSpec& s) {
              change_sync(s, [](SyncSpec& sync) { sync.outer.method = OuterMethod::kAdam; });
            }).pointer,
            "/sync/outer/method")
      << "its vectors are others";
  EXPECT_EQ(refused([](JobSpec& s) { s.swarm.stages = 2; }).pointer, "/swarm/stages");
  const FieldError steps =
      refused([](JobSpec& s) { s.train.steps = Steps(20), s.train.warmup = Steps(1); });
  EXPECT_EQ(steps.pointer, "/train/steps");
  EXPECT_THAT(steps.detail, HasSubstr("must be above 20, the inner steps that"));
}

}  // namespace
}  // namespace shoal::coordinator
