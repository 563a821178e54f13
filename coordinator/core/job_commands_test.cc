// What people ask of jobs, and what they are answered.
#include "coordinator/core/job_commands.h"

#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/rounds_test_util.h"
#include "job/job_rules.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// No device has the memory for it.
JobSpec huge_job(const std::string& name = "huge") {
  JobSpec spec = small_job(name);
  spec.model.hidden = 8192;
  spec.model.heads = 64;
  spec.model.layers = 80;
  return spec;
}

TEST(JobCommands, KeepsWhatAnAcceptedJobWasSubmittedAs) {
  Rig rig;
  rig.join("a");
  const SubmittedText text{{}, "application/toml", "# mine\n"};
  rig.input(SubmitJob{RequestId{1}, small_job(), true, text});
  rig.input(SubmitJob{RequestId{2}, huge_job(), false, text});
  EXPECT_TRUE(rig.submitted.empty());
  rig.input(SubmitJob{RequestId{3}, small_job(), false, text});
  const SubmittedText kept{*rig.replies.back().result, text.media_type, text.text};
  EXPECT_EQ(rig.submitted, std::vector<SubmittedText>{kept});
}

TEST(JobCommands, RefusesWhatItCannotDo) {
  Rig rig;
  rig.join("a");
  JobSpec spec = small_job();
  ASSERT_TRUE(rig.submit(spec).ok());
  EXPECT_EQ(rig.submit(spec).error().code, Code::kConflict);
  EXPECT_EQ(rig.submit(huge_job()).error().code, Code::kValidation);
  EXPECT_EQ(rig.replies.back().fields.front().pointer, "/model");
  rig.input(CancelJob{RequestId{2}, JobId(99)});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kNotFound);
}

TEST(JobCommands, AnOwnerKeepsToItsQuotaOfDevices) {
  Rig rig;
  rig.options.quotas = {.each = 0, .of = {{"ada", 1}}};
  rig.restart();
  rig.join("a");
  rig.join("b");
  JobSpec spec = small_job("hers");
  spec.swarm.min_replicas = 2;
  rig.input(SubmitJob{RequestId{1}, spec, false, {}, "ada"});
  EXPECT_EQ(rig.replies.back().fields.front().pointer, "/swarm/min_replicas");
  spec.swarm.min_replicas = 1;
  rig.input(SubmitJob{RequestId{2}, spec, false, {}, "ada"});
  const JobId hers = *rig.replies.back().result;
  EXPECT_EQ(rig.state().jobs.at(hers).owner, "ada");
  EXPECT_EQ(rig.state().replicas.size(), 1u) << "of two free devices";
  spec.name = "second";
  rig.input(SubmitJob{RequestId{3}, spec, false, {}, "ada"});
  EXPECT_EQ(rig.state().replicas.size(), 1u);
  EXPECT_THAT(rig.state().jobs.at(*rig.replies.back().result).detail,
              HasSubstr("the jobs of its owner may hold 1 devices"));
  spec.name = "other";
  rig.input(SubmitJob{RequestId{4}, spec, false, {}, "bob"});
  EXPECT_EQ(rig.state().replicas.size(), 2u);
}

TEST(JobCommands, ADryRunOfATakenNameIsPlannedAllTheSame) {
  Rig rig;
  rig.join("a");
  ASSERT_TRUE(rig.submit(small_job()).ok());
  rig.input(SubmitJob{RequestId{2}, small_job(), true, {}});
  EXPECT_TRUE(rig.replies.back().result.ok());
  EXPECT_EQ(rig.state().jobs.size(), 1u);
}

TEST(JobCommands, ATakenNameIsSaidBesideTheOtherMistakes) {
  Rig rig;
  rig.join("a");
  ASSERT_TRUE(rig.submit(small_job()).ok());
  const JobSpec spec = huge_job(small_job().name);
  for (const bool dry_run : {false, true}) {
    rig.input(SubmitJob{RequestId{2}, spec, dry_run, {}});
    EXPECT_EQ(rig.replies.back().result.error().code, Code::kValidation);
    ASSERT_EQ(rig.replies.back().fields.size(), 2u);
    EXPECT_EQ(rig.replies.back().fields[0].pointer, "/model");
    EXPECT_EQ(rig.replies.back().fields[1].pointer, "/name");
  }
}

// A job that has stored a checkpoint, and its model.
struct WithCheckpoint : PairRig {
  static JobSpec spec() {
    JobSpec spec = small_job("old");
    spec.train.steps = Steps(1000);
    spec.swarm.max_replicas = 2;
    spec.checkpoint.every_rounds = 1;
    spec.checkpoint.keep = 1;
    return spec;
  }
  WithCheckpoint() : PairRig(spec()) { checkpoint = train(1); }
  CheckpointId train(RoundNumber round) {
    report(a, rep_a, key(round)), report(b, rep_b, key(round));
    finish(round);
    const CheckpointId stored = std::prev(state().checkpoints.end())->first;
    upload(stored, 0);
    return stored;
  }
  JobSpec next() const {
    JobSpec spec = small_job("new");
    spec.model.init = to_string(checkpoint);
    return spec;
  }
  CheckpointId checkpoint;
};

TEST(JobCommands, AJobBeginsFromTheCheckpointOfAnother) {
  WithCheckpoint rig;
  const auto c = rig.join("c"), d = rig.join("d");
  ASSERT_TRUE(rig.submit(rig.next()).ok());
  for (const auto agent : {c, d}) {
    const auto assign = rig.last<Assign>(agent);
    ASSERT_TRUE(assign.has_value());
    EXPECT_EQ(assign->source.kind, SourceKind::kCheckpoint);
    EXPECT_EQ(assign->source.checkpoint, rig.checkpoint);
    EXPECT_EQ(assign->source.key.round, 0);
    EXPECT_FALSE(assign->source.anchor) << "nobody has loaded it";
  }
}

TEST(JobCommands, WhatAJobBeginsFromIsKept) {
  WithCheckpoint rig;
  rig.join("c"), rig.join("d");
  const JobId next = *rig.submit(rig.next());
  rig.train(2), rig.train(3);
  EXPECT_TRUE(rig.state().checkpoints.contains(rig.checkpoint));
  EXPECT_EQ(rig.state().checkpoints.size(), 2u) << "keep is 1";
  rig.input(CancelJob{RequestId{9}, next});
  ASSERT_EQ(rig.job(next).phase, JobPhase::kCancelled);
  rig.train(4);
  EXPECT_FALSE(rig.state().checkpoints.contains(rig.checkpoint));
}

TEST(JobCommands, WeightsThatAreNotThereOrOfAnotherModelAreRefused) {
  WithCheckpoint rig;
  JobSpec spec = rig.next();
  const auto refusal = [&] {
    EXPECT_EQ(rig.submit(spec).error().code, Code::kValidation);
    const auto& fields = rig.replies.back().fields;
    EXPECT_EQ(fields.size(), 1u);
    return fields.empty() ? FieldError() : fields[0];
  };
  spec.model.layers = 7;
  spec.model.rope.theta = 5e5;
  EXPECT_EQ(refusal().pointer, "/model/init");
  EXPECT_THAT(refusal().detail, HasSubstr("model.layers is 7 in the job and"));
  EXPECT_THAT(refusal().detail, HasSubstr("model.rope.theta is 5e+05"));
  spec = rig.next();
  spec.model.init = "ckpt_99";
  EXPECT_THAT(refusal().detail, HasSubstr("must name a stored checkpoint"));
}

TEST(JobCommands, CancelReleasesEverybody) {
  PairRig rig(small_job());
  rig.input(CancelJob{RequestId{5}, rig.id});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCancelled);
  EXPECT_EQ(rig.last<Release>(rig.a)->reason, ReleaseReason::kCancelled);
  EXPECT_TRUE(rig.state().replicas.empty());
  EXPECT_TRUE(rig.state().rounds.empty());
}

TEST(Pause, IsDoneAlreadyOrRefused) {
  Pair rig;
  EXPECT_TRUE(rig.resume(rig.id).ok()) << "it runs";
  EXPECT_EQ(rig.count_events(event_kind::kJobChanged), 0);
  EXPECT_TRUE(rig.pause(rig.id).ok());
  const JobRecord paused = rig.job(rig.id);
  EXPECT_TRUE(rig.pause(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id), paused);
  EXPECT_EQ(rig.count_events(event_kind::kJobChanged), 1);
  EXPECT_EQ(rig.pause(JobId(99)).error().code, Code::kNotFound);
  EXPECT_EQ(rig.resume(JobId(99)).error().code, Code::kNotFound);
  rig.input(CancelJob{RequestId{9}, rig.id});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCancelled) << "a paused job can be cancelled";
  EXPECT_EQ(rig.pause(rig.id).error().code, Code::kConflict);
  EXPECT_EQ(rig.resume(rig.id).error().code, Code::kConflict);
  EXPECT_NE(rig.replies.back().result.error().message.find("cancelled"), std::string::npos);
}

TEST(OuterRate, TakesEffectAtTheNextFreezeAndEverybodyHearsIt) {
  StepPair rig(job_of_steps());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 1);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 1);  // frozen
  rig.input(ChangeJob{RequestId{9}, rig.id, 0.4});
  EXPECT_TRUE(rig.replies.back().result.ok());
  EXPECT_EQ(rig.events.back().kind, event_kind::kJobChanged);
  EXPECT_THAT(rig.events.back().message, testing::HasSubstr("0.9 -> 0.4"));
  rig.finish(1);
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.outer_lr, OuterSpec{}.lr);
  rig.report_steps(rig.a, rig.rep_a, 2, Steps(10), 1);
  rig.report_steps(rig.b, rig.rep_b, 2, Steps(10), 1);
  rig.finish(2);
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.outer_lr, 0.4);
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.b)->body.outer_lr, 0.4);
  EXPECT_EQ(rig.rounds_.at(rig.key(1)).outer_lr, OuterSpec{}.lr);
  EXPECT_EQ(rig.rounds_.at(rig.key(2)).outer_lr, 0.4);
  rig.restart();
  EXPECT_EQ(rig.job(rig.id).outer_lr, 0.4);
}

TEST(OuterRate, IsRefusedByTheRulesOfTheSpec) {
  StepPair rig(job_of_steps());
  for (const double rate : {0.0, -1.0, 11.0}) {
    rig.input(ChangeJob{RequestId{9}, rig.id, rate});
    EXPECT_EQ(rig.replies.back().result.error().code, Code::kValidation) << rate;
    EXPECT_EQ(rig.replies.back().fields.front().pointer, "/outer_lr");
  }
  rig.input(ChangeJob{RequestId{9}, JobId(99), 0.5});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kNotFound);
  rig.input(CancelJob{RequestId{8}, rig.id});
  rig.input(ChangeJob{RequestId{9}, rig.id, 0.5});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kConflict);
}

TEST(Priority, IsTheSpecsUntilItIsChanged) {
  JobSpec spec = job_of_steps();
  spec.swarm.priority = 30;
  StepPair rig(spec);
  EXPECT_EQ(rig.job(rig.id).priority, 30);
  rig.input(ChangeJob{.request = RequestId{9}, .job = rig.id, .priority = 70});
  EXPECT_TRUE(rig.replies.back().result.ok());
  EXPECT_EQ(rig.job(rig.id).priority, 70);
  EXPECT_EQ(rig.job(rig.id).outer_lr, OuterSpec{}.lr) << "what is not given stays";
  EXPECT_EQ(rig.job(rig.id).spec.swarm.priority, 30) << "what was asked for";
  rig.restart();
  EXPECT_EQ(rig.job(rig.id).priority, 70);
}

TEST(Priority, IsRefusedByTheRulesOfTheSpec) {
  StepPair rig(job_of_steps());
  for (const std::int64_t priority : {0, -1, 100}) {
    rig.input(ChangeJob{.request = RequestId{9}, .job = rig.id, .priority = priority});
    EXPECT_EQ(rig.replies.back().result.error().code, Code::kValidation) << priority;
    EXPECT_EQ(rig.replies.back().fields.front().pointer, "/priority");
  }
  JobSpec spec = default_spec(SyncAlgorithm::kNone);
  spec.swarm.priority = 100;
  const auto refused = validate(spec);
  EXPECT_TRUE(std::ranges::any_of(refused, [](const FieldError& field) {
    return field.pointer == "/swarm/priority";
  })) << "with none, too";
}

TEST(OuterRate, AnAlgorithmWithoutOneSaysSo) {
  for (const auto algorithm : {SyncAlgorithm::kLocalSgd, SyncAlgorithm::kDdp}) {
    JobSpec spec = job_of_steps();
    spec.sync = default_spec(algorithm).sync;
    StepPair rig(spec);
    rig.input(ChangeJob{RequestId{9}, rig.id, 0.4});
    EXPECT_EQ(rig.replies.back().result.error().code, Code::kValidation);
    EXPECT_THAT(rig.replies.back().fields.front().detail, testing::HasSubstr(to_string(algorithm)));
  }
}

}  // namespace
}  // namespace shoal::coordinator
