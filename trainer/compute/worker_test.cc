// Whole rounds through the real worker and learner: seed, train, report, vote, commit, evaluate,
// checkpoint, resume, join, and the refusals. Other kinds of rounds: worker_rounds_test.cc.
#include <sys/stat.h>

#include "job/sync_spec_test_util.h"
#include "trainer/compute/worker_rig_test_util.h"
#include "trainer/plain/data.h"

namespace shoal::trainer {
namespace {

TEST_F(WorkerTest, ARoundFromSeedToEvaluation) {
  const Loaded loaded = load_from_seed();
  EXPECT_EQ(loaded.value_count, parameter_count(spec_.model));
  EXPECT_EQ(loaded.address, "127.0.0.1:7");
  const Applied applied = run_round(loaded, 1, 0, 8, {0, 1, 3}, true);
  EXPECT_EQ(report_.steps, Steps(8));
  EXPECT_EQ(report_.tokens, Tokens(8 * 2 * 8));
  EXPECT_EQ(report_.drawn, report_.tokens);
  EXPECT_GT(report_.norm, 0);
  EXPECT_EQ(report_.nonfinite, 0);
  EXPECT_NE(applied.anchor, loaded.anchor);
  const auto evaluated = hear<FromReplica<Evaluated>>().body;
  EXPECT_EQ(evaluated.key, key(1));
  EXPECT_EQ(evaluated.tokens, Tokens(3 * 2 * 8));
  EXPECT_GT(evaluated.loss_sum, 0);
}

TEST_F(WorkerTest, ABlockIsMeasuredWhileThereIsNoReplica) {
  const BlockShape shape = block_shape(spec_);
  tell(MeasureBlock{3, shape, spec_.model.layers, spec_.train.batch});
  const auto idle = hear<BlockMeasured>();
  EXPECT_EQ(idle.device, 3);
  EXPECT_EQ(idle.shape, digest_of(shape));
  EXPECT_EQ(idle.error, "");
  EXPECT_GT(idle.times.block, Duration());
  load_from_seed();
  tell(MeasureBlock{3, shape, spec_.model.layers, spec_.train.batch});
  const auto busy = hear<BlockMeasured>();
  EXPECT_EQ(busy.times, BlockTimes());
  EXPECT_EQ(busy.error, "a replica is on it");
}

TEST_F(WorkerTest, ABlockThatCannotBeMeasuredHasAnError) {
  spec_.train.precision = Precision::kBf16;
  tell(MeasureBlock{0, block_shape(spec_), 1, 2});
  EXPECT_EQ(hear<BlockMeasured>().error, "the device has no bf16");
}

TEST_F(WorkerTest, AlgorithmNoneAdoptsTheLocalParameters) {
  change_sync(spec_, [](SyncSpec& sync) { sync.algorithm = SyncAlgorithm::kNone; });
  const Loaded loaded = load_from_seed();
  train_four_steps();
  tell_replica(plan(1, loaded.value_count));
  const Vote vote = hear<FromReplica<Vote>>().body;
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 0, 0}, true, {}});
  const Applied applied = hear<FromReplica<Applied>>().body;
  EXPECT_EQ(applied.anchor, vote.average);
  EXPECT_EQ(applied.momentum, loaded.momentum);
}

TEST_F(WorkerTest, AbortKeepsTheProgress) {
  load_from_seed();
  const RoundReport first = train_four_steps();
  tell_replica(AbortRound{key(1), AbortReason::kTimeSpent, open(1, 4, 6)});
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(first.steps, Steps(4));
  EXPECT_EQ(second.steps, Steps(6));
  EXPECT_EQ(second.tokens, Tokens(6 * 2 * 8));
}

// An abort that only waits has no steps: the progress is reported again on request.
TEST_F(WorkerTest, AnAbortWithoutStepsLeavesTheReportAsItIs) {
  load_from_seed();
  const RoundReport first = train_four_steps();
  tell_replica(AbortRound{key(1), AbortReason::kBelowMinReplicas, open(1, 10, 10)});
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(second.steps, Steps(4));
  EXPECT_EQ(second.norm, first.norm);
  tell_replica(AbortRound{key(1), AbortReason::kTimeSpent, open(1, 10, 12)});
  EXPECT_EQ(hear<FromReplica<RoundReport>>().body.steps, Steps(6));
}

TEST_F(WorkerTest, TheOuterRateIsThatOfTheCommit) {
  const Loaded loaded = load_from_seed();
  train_four_steps();
  tell_replica(plan(1, loaded.value_count));
  const Vote vote = hear<FromReplica<Vote>>().body;
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 0, 0}, true, {}, 0});
  EXPECT_EQ(hear<FromReplica<Applied>>().body.anchor, loaded.anchor);
}

// A disk that takes nothing: whoever opens a FIFO for writing waits for its reader.
TEST_F(WorkerTest, TrainingContinuesWhileACheckpointIsWritten) {
  const Loaded loaded = load_from_seed();
  run_round(loaded, 1, 0, 4, {0, 0, 0}, false);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_stuck";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto file = folder / "model.safetensors";
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
  run_round(loaded, 2, 4, 8, {0, 0, 0}, false);
  std::ifstream reader(file, std::ios::binary);
  const std::string written(std::istreambuf_iterator<char>(reader), {});
  EXPECT_GT(written.size(), static_cast<std::size_t>(4 * loaded.value_count));
  EXPECT_EQ(hear<CheckpointFailed>().checkpoint, CheckpointId(5)) << "a FIFO cannot be synced";
}

TEST_F(WorkerTest, CheckpointAndResume) {
  const Loaded loaded = load_from_seed();
  const Applied applied = run_round(loaded, 1, 0, 4, {0, 0, 0}, true);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_checkpoint";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
  const auto ready = hear<CheckpointReady>();
  EXPECT_EQ(ready.checkpoint, CheckpointId(5));
  EXPECT_FALSE(ready.sample.empty()) << "of the last round";
  EXPECT_EQ(ready.anchor, applied.anchor);
  EXPECT_EQ(std::ranges::count(ready.files, "part", &FileEntry::role), 1);
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(6), key(3)}, folder.string()});
  EXPECT_EQ(hear<CheckpointFailed>().checkpoint, CheckpointId(6));

  auto resume = load(2, SourceKind::kCheckpoint, 1);
  resume.checkpoint_folder = folder.string();
  resume.assign.source.anchor = applied.anchor;
  resume.assign.source.momentum = applied.momentum;
  tell(resume);
  const auto again = hear<Loaded>();
  EXPECT_EQ(again.replica, ReplicaId(2));
  EXPECT_EQ(again.anchor, applied.anchor);
  EXPECT_EQ(again.momentum, applied.momentum);
}

TEST_F(WorkerTest, MissingCheckpointFileIsDamage) {
  const Loaded loaded = load_from_seed();
  run_round(loaded, 1, 0, 4, {0, 0, 0}, false);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_missing";
  for (const char* file : {"part-00.json", "model.safetensors", "optimizer.safetensors"}) {
    tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
    hear<CheckpointReady>();
    std::filesystem::remove(folder / file);
    auto resume = load(2, SourceKind::kCheckpoint, 1);
    resume.checkpoint_folder = folder.string();
    tell(resume);
    const auto failed = hear<ReplicaFailed>();
    EXPECT_EQ(failed.failure, ReplicaFailure::kDigestMismatch) << file;
    EXPECT_NE(failed.detail.find(file), std::string::npos) << failed.detail;
    tell(load(1, SourceKind::kSeed, 0));
    hear<Loaded>();
    run_round(loaded, 1, 0, 4, {0, 0, 0}, false);
  }
}

TEST_F(WorkerTest, SaysThatItIsReadyAgainOnceItHasLetGo) {
  load_from_seed();
  tell(Release{replica_, ReleaseReason::kReplaced});
  recorder_.ready(1);
  tell(Release{ReplicaId(9), ReleaseReason::kReplaced});
  recorder_.ready(2);
  tell(load(1, SourceKind::kSeed, 0));
  hear<Loaded>();
}

replica::OuterState source_state(const JobSpec& spec) {
  replica::OuterState source;
  source.anchor.assign(static_cast<std::size_t>(parameter_count(with_derived_fields(spec).model)),
                       0.5f);
  source.vectors = {{"momentum", std::vector<float>(source.anchor.size(), 0.25f)}};
  return source;
}

TEST_F(WorkerTest, JoinerTakesTheSourcesState) {
  const replica::OuterState source = source_state(spec_);
  node_.source = &source;
  auto join = load(1, SourceKind::kPeer, 3);
  join.assign.source.anchor = digest_of(std::span<const float>(source.anchor));
  tell(join);
  const auto loaded = hear<Loaded>();
  EXPECT_EQ(loaded.key, key(3));
  EXPECT_EQ(loaded.anchor, join.assign.source.anchor);
  const auto progress = recorder_.load();
  ASSERT_TRUE(progress) << "said on the way";
  EXPECT_EQ(progress->total.count(), 2 * 4 * std::ssize(source.anchor));
}

TEST_F(WorkerTest, JoinerTakesMomentsWhereTheJobWantsThem) {
  spec_.train.join = JoinMoments::kMoments;
  const replica::OuterState source = source_state(spec_);
  node_.source = &source;
  tell(load(1, SourceKind::kPeer, 3));
  hear<Loaded>();
  const auto progress = recorder_.load();
  ASSERT_TRUE(progress) << "said on the way";
  EXPECT_EQ(progress->total.count(), 4 * 4 * std::ssize(source.anchor));
}

// The step is that of the committed state, for every writer: not what this replica trained.
TEST_F(WorkerTest, ACheckpointNamesTheStepOfTheCommittedState) {
  auto join = load(1, SourceKind::kPeer, 3);
  const replica::OuterState source = source_state(spec_);
  node_.source = &source;
  join.assign.record.step = Steps(30);
  tell(join);
  const auto loaded = hear<Loaded>();
  EXPECT_EQ(step_in_checkpoint(3), Steps(30)) << "it has not trained yet";
  tell_replica(open(4, 30, 34));
  hear<FromReplica<RoundReport>>();
  EXPECT_EQ(step_in_checkpoint(3), Steps(30)) << "its round is not committed";
  tell_replica(plan(4, loaded.value_count));
  CommitRound commit{key(4), 1, hear<FromReplica<Vote>>().body.average, {0, 0, 0}, true, {}, 0.7};
  commit.record.step = Steps(40);  // the others took more
  tell_replica(commit);
  hear<FromReplica<Applied>>();
  EXPECT_EQ(step_in_checkpoint(4), Steps(40));
}

// A round later the file says what this replica's optimizer was at the cut, not what it is.
TEST_F(WorkerTest, ACheckpointHasTheMomentsOfItsCut) {
  spec_.checkpoint.every_rounds = 2;
  const Loaded loaded = load_from_seed();
  run_round(loaded, 1, 0, 2, {0, 0, 0}, true);
  run_round(loaded, 2, 2, 4, {0, 0, 0}, true);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_moments";
  const auto write = [&](std::uint64_t checkpoint) {
    tell(WriteCheckpointTo{replica_, {CheckpointId(checkpoint), key(2)}, folder.string()});
    hear<CheckpointReady>();
    return read_checkpoint(folder, 0).value();
  };
  const Checkpoint at_rest = write(5);
  tell_replica(open(3, 4, 8));
  hear<FromReplica<RoundReport>>();
  const Checkpoint later = write(6);
  EXPECT_EQ(later.adam_m, at_rest.adam_m);
  EXPECT_EQ(later.adam_v, at_rest.adam_v);
  EXPECT_EQ(later.adam_step, at_rest.adam_step);
  EXPECT_EQ(at_rest.adam_step, 4);
}

// What the coordinator compares: the file that is read, and what an outer step was made of.
TEST_F(WorkerTest, ItSaysWhatItReadsAndWhatItsStepBeganWith) {
  const Loaded loaded = load_from_seed();
  EXPECT_EQ(
      loaded.data,
      Dataset::open(with_derived_fields(spec_), data::DataRoots::whole_host()).value()->digest());
  const Applied first = run_round(loaded, 1, 0, 2, {0, 0, 0}, true);
  EXPECT_EQ(first.base, loaded.anchor);
  EXPECT_EQ(first.base_momentum, loaded.momentum);
  EXPECT_TRUE(first.average);
  const Applied second = run_round(loaded, 2, 2, 4, {0, 0, 0}, true);
  EXPECT_EQ(second.base, first.anchor);
  EXPECT_EQ(second.base_momentum, first.momentum);
  EXPECT_NE(second.average, first.average);
}

TEST_F(WorkerTest, WhatItWasToldNotToTrainIsUnused) {
  load_from_seed();
  tell_replica(open(1, 0, 100'000));
  tell_replica(CloseRound{key(1)});
  const auto report = hear<FromReplica<RoundReport>>().body;
  const std::int64_t read = report.steps.count() * 2;
  EXPECT_EQ(report.unused, (std::vector<DataLease>{{read, 200'000 - read}}));
}

// Alone it keeps all momentum; what a plan says that another one keeps is fetched before the
// reduce, and a checkpoint has all of it, wherever it is kept.
TEST_F(WorkerTest, ShardedMomentumIsStagedFollowedAndGathered) {
  change_sync(spec_, [&](SyncSpec& sync) { sync.outer_state = shoal::OuterState::kSharded; });
  const Loaded loaded = load_from_seed();
  EXPECT_EQ(loaded.momentum, Digest());
  const std::int64_t n = loaded.value_count, half = n / 2;
  Applied applied = run_round(loaded, 1, 0, 2, {0, 0, 0}, true);
  EXPECT_EQ(applied.momentum, Digest());
  EXPECT_EQ(node_.momentum_seen, std::vector<float>(static_cast<std::size_t>(n), 0.0f));

  holders_ = {{replica_, "a:1", 0, half}, {ReplicaId(7), "b:1", half, n - half}};
  run_round(loaded, 2, 2, 4, {0, 0, 0}, true);
  EXPECT_NE(node_.momentum_seen.front(), 0.25f);
  EXPECT_EQ(node_.momentum_seen.back(), 0.25f);

  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_sharded";
  WriteCheckpoint wanted{CheckpointId(5), key(2), holders_};
  wanted.momentum[1].address.clear();
  tell(WriteCheckpointTo{replica_, wanted, folder.string()});
  hear<CheckpointFailed>();
  tell(WriteCheckpointTo{replica_, {CheckpointId(6), key(2), holders_}, folder.string()});
  hear<CheckpointReady>();
  const auto written = read_checkpoint(folder, std::nullopt);
  ASSERT_TRUE(written) << to_string(written.error());
  const std::vector<float>& momentum = vector_of(written->outer, "momentum");
  EXPECT_EQ(momentum.back(), 0.25f);
  EXPECT_NE(momentum.front(), 0.25f);

  auto resume = load(2, SourceKind::kCheckpoint, 2);
  resume.checkpoint_folder = folder.string();
  tell(resume);
  EXPECT_EQ(hear<Loaded>().momentum, Digest());
  std::vector<float> kept;
  const auto take = [&](std::span<const float> values) {
    kept.assign(values.begin(), values.end());
  };
  EXPECT_TRUE(state_server_.serve_momentum(ReplicaId(2), key(2), {0, n}, take).ok());
  EXPECT_EQ(kept, momentum);
  EXPECT_FALSE(state_server_.serve_momentum(ReplicaId(2), key(2), {1, n}, take).ok());
  EXPECT_FALSE(state_server_.serve_momentum(ReplicaId(2), key(1), {0, n}, take).ok());
}

TEST_F(WorkerTest, AReduceWaitsForNoMomentumThatIsGone) {
  change_sync(spec_, [&](SyncSpec& sync) { sync.outer_state = shoal::OuterState::kSharded; });
  const Loaded loaded = load_from_seed();
  train_four_steps();
  holders_ = {{ReplicaId(7), "", 0, loaded.value_count}};
  tell_replica(plan(1, loaded.value_count));
  const auto failed = hear<FromReplica<ReduceFailed>>().body;
  EXPECT_EQ(failed.failure, ReduceFailure::kPeerLost);
  EXPECT_EQ(failed.lost, ReplicaId(7));
}

// With ddp the moments are part of what is committed: digests, checkpoints and joiners have them.
TEST_F(WorkerTest, SharedMomentsGoIntoCheckpointsAndToJoiners) {
  spec_.sync = default_spec(SyncAlgorithm::kDdp).sync;
  const Loaded loaded = load_from_seed();
  Applied applied = run_round(loaded, 1, 0, 1, {0, 0, 0}, true);
  EXPECT_NE(applied.momentum, loaded.momentum);
  applied = run_round(loaded, 2, 1, 2, {0, 0, 0}, true);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_ddp";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(2)}, folder.string()});
  hear<CheckpointReady>();
  const replica::OuterState held = *state_server_.published();
  EXPECT_TRUE(held.shares_adam());
  EXPECT_EQ(replica::digests_of(held).momentum, applied.momentum);

  auto resume = load(2, SourceKind::kCheckpoint, 2);
  resume.checkpoint_folder = folder.string();
  resume.assign.source.anchor = applied.anchor;
  resume.assign.source.momentum = applied.momentum;
  tell(resume);
  EXPECT_EQ(hear<Loaded>().momentum, applied.momentum);

  node_.source = &held;
  auto join = load(3, SourceKind::kPeer, 2);
  join.assign.source.anchor = applied.anchor;
  join.assign.source.momentum = applied.momentum;
  tell(join);
  EXPECT_EQ(hear<Loaded>().momentum, applied.momentum);
}

// Found when it is written, not when it is needed.
TEST_F(WorkerTest, AReplicaWhoseMemoryHasChangedWritesNoCheckpoint) {
  const Loaded loaded = load_from_seed();
  run_round(loaded, 1, 0, 4, {0, 0, 0}, true);
  const_cast<float&>(vector_of(state_server_.published()->vectors, "momentum")[3]) += 1;
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_flipped";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
  const auto failed = hear<ReplicaFailed>();
  EXPECT_EQ(failed.failure, ReplicaFailure::kDigestMismatch);
  EXPECT_THAT(failed.detail, testing::HasSubstr("check the memory of this host"));
}

// What muon keeps goes into checkpoints and to joiners, and all of them take the same next steps.
TEST_F(WorkerTest, MuonTrainsOnAfterACheckpointAndAtAJoiner) {
  spec_.train.optimizer = Optimizer::kMuon;
  spec_.train.join = JoinMoments::kMoments;
  const Loaded loaded = load_from_seed();
  const Applied first = run_round(loaded, 1, 0, 4, {0, 0, 0}, true);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_muon";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
  hear<CheckpointReady>();
  const replica::OuterState held = *state_server_.published();
  node_.source_moments = moments_of(1, 1);
  EXPECT_LT(node_.source_moments.second.size(), node_.source_moments.first.size());
  EXPECT_EQ(node_.source_moments.step, 4);
  const Applied uninterrupted = run_round(loaded, 2, 4, 8, {0, 0, 0}, true);

  replica_ = ReplicaId(2);
  auto resume = load(2, SourceKind::kCheckpoint, 1);
  resume.checkpoint_folder = folder.string();
  resume.assign.source.anchor = first.anchor;
  tell(resume);
  EXPECT_EQ(run_round(hear<Loaded>(), 2, 4, 8, {0, 0, 0}, true), uninterrupted);

  replica_ = ReplicaId(3);
  node_.source = &held;
  tell(load(3, SourceKind::kPeer, 1));
  EXPECT_EQ(run_round(hear<Loaded>(), 2, 4, 8, {0, 0, 0}, true), uninterrupted);
}

TEST_F(WorkerTest, WrongDigestAndLostSourceAreNamed) {
  tell(load(1, SourceKind::kPeer, 3));
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kSourceLost);
  auto wrong = load(2, SourceKind::kSeed, 0);
  wrong.assign.source.anchor = {1, 2};
  tell(wrong);
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kDigestMismatch);
}

TEST_F(WorkerTest, MissingDataModelTooLargeAndBadLeaseAreNamed) {
  auto missing = load(1, SourceKind::kSeed, 0);
  missing.assign.spec.data.train = "/nowhere/text";
  tell(missing);
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kDataMissing);
  auto huge = load(1, SourceKind::kSeed, 0);
  huge.assign.spec.model.hidden = 65536;
  huge.assign.spec.model.layers = 200;
  tell(huge);
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kOutOfMemory);
  load_from_seed();
  OpenRound round = open(1, 0, 4);
  round.leases.at(0).count = 7;
  tell_replica(round);
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kInternal);
}

TEST_F(WorkerTest, EvaluateInTheMiddleOfARoundUsesTheAnchor) {
  load_from_seed();
  tell_replica(Evaluate{key(0), {0, 1, 4}});
  const auto before = hear<FromReplica<Evaluated>>().body;
  train_four_steps();
  tell_replica(Evaluate{key(0), {0, 1, 4}});
  const auto after = hear<FromReplica<Evaluated>>().body;
  EXPECT_DOUBLE_EQ(before.loss_sum, after.loss_sum);
}

TEST_F(WorkerTest, SlicesOfTheValidationAddUp) {
  load_from_seed();
  tell_replica(Evaluate{key(0), {0, 1, 5}});
  const auto whole = hear<FromReplica<Evaluated>>().body;
  tell_replica(Evaluate{key(0), {0, 2, 5}});
  const auto even = hear<FromReplica<Evaluated>>().body;
  tell_replica(Evaluate{key(0), {1, 2, 5}});
  const auto odd = hear<FromReplica<Evaluated>>().body;
  EXPECT_EQ(whole.tokens, even.tokens + odd.tokens);
  EXPECT_NEAR(whole.loss_sum, even.loss_sum + odd.loss_sum, 1e-6);
}

TEST_F(WorkerTest, ShowsJoinersWhatItHoldsAndFromThenOnTheAverages) {
  const Loaded loaded = load_from_seed();
  using outer_opt::AskKind, outer_opt::StateRefusal;
  const auto ask = [&](std::uint64_t replica, AskKind kind, RoundNumber round) {
    return state_server_.answer({ReplicaId(replica), key(round), kind, {0, loaded.value_count}});
  };
  EXPECT_EQ(ask(9, AskKind::kState, 0).refusal, StateRefusal::kNotHere);
  const auto state = ask(1, AskKind::kState, 0);
  const auto values = static_cast<std::size_t>(loaded.value_count);
  ASSERT_EQ(state.values.size(), 2 * values);
  EXPECT_EQ(digest_of(std::span(state.values).first(values)), loaded.anchor);
  EXPECT_EQ(moments_of(1, 0).first.size(), values);
  const Applied applied = run_round(loaded, 1, 0, 4, {0, 0, 0}, true);
  const auto averages = ask(1, AskKind::kAverages, 0);
  ASSERT_EQ(averages.rounds.size(), 1u);
  EXPECT_EQ(averages.rounds[0].terms.round, 1);
  EXPECT_EQ(averages.rounds[0].terms.outer_lr, 0.7);
  EXPECT_EQ(ask(1, AskKind::kState, 0).held, applied.key.round);
}

// Its state is of an earlier round than the one it is named again: it follows, and says so.
TEST_F(WorkerTest, AJoinerThatIsNamedANewerRoundFollows) {
  const replica::OuterState source = source_state(spec_);
  node_.source = &source;
  auto join = load(1, SourceKind::kPeer, 3);
  tell(join);
  EXPECT_EQ(hear<Loaded>().key, key(3));
  tell(join);
  EXPECT_EQ(hear<Loaded>().key, key(3)) << "said again";
  node_.averaged(4, std::vector<float>(source.anchor.size(), 0.125f));
  join.assign.source.key = key(4);
  tell(join);
  const auto newer = hear<Loaded>();
  EXPECT_EQ(newer.key, key(4));
  EXPECT_EQ(newer.anchor, digest_of(std::span<const float>(node_.followed->anchor)));
}

}  // namespace
}  // namespace shoal::trainer
