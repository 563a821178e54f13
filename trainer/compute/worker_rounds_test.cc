// Rounds of other kinds through the real worker and learner: fragments and overlap, vectors on a
// device, asynchronous rounds.
#include "job/sync_spec_test_util.h"
#include "trainer/compute/worker_rig_test_util.h"

namespace shoal::trainer {
namespace {

class StreamingWorkerTest : public WorkerTest {
 protected:
  explicit StreamingWorkerTest(bool on_device = false) : WorkerTest(on_device) {
    spec_.model.layers = 2;
    change_sync(spec_, [](SyncSpec& sync) {
      sync.every = Steps(8);
      sync.codec = CodecKind::kFp32;
    });
  }
  std::vector<float> anchor(RoundNumber round) {
    const outer_opt::StateAsk newest{ReplicaId(1), key(0), outer_opt::AskKind::kState, {0, 1}};
    EXPECT_EQ(state_server_.answer(newest).held, round);
    return state_server_.published()->anchor;
  }
  ReducePlan plan_of(RoundNumber round, std::int64_t values, std::int32_t fragment) {
    ReducePlan made = plan(round, values);
    made.fragment = fragment;
    return made;
  }
  Vote vote_in(const ReducePlan& made) {
    tell_replica(made);
    return hear<FromReplica<Vote>>().body;
  }
};

TEST_F(StreamingWorkerTest, ARoundChangesTheValuesOfItsFragment) {
  change_sync(spec_, [](SyncSpec& sync) { sync.fragments = 2; });
  const Loaded loaded = load_from_seed();
  ASSERT_EQ(loaded.fragments.size(), 2u);
  EXPECT_EQ(loaded.fragments[0] + loaded.fragments[1], loaded.value_count);
  const std::vector<float> before = anchor(0);
  tell_replica(OpenRound{key(1), Steps(0), Steps(4), {{0, 8}}, 1});
  EXPECT_EQ(hear<FromReplica<RoundReport>>().body.tokens, Tokens(4 * 2 * 8));
  const Vote vote = vote_in(plan_of(1, loaded.fragments[0], 1));
  const OpenRound next{key(2), Steps(4), Steps(8), {{8, 8}}, 2};
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 1, 3}, false, next, 0.7});
  hear<FromReplica<Applied>>();
  const auto evaluated = hear<FromReplica<Evaluated>>().body;
  const std::vector<float> after = anchor(1);
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < after.size(); ++i) changed += after[i] != before[i] ? 1 : 0;
  EXPECT_GT(changed, loaded.fragments[0] / 2);
  EXPECT_LE(changed, loaded.fragments[0]);
  // The other fragment has both rounds behind it, this round only its own tokens.
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(second.tokens, Tokens(8 * 2 * 8));
  EXPECT_EQ(second.drawn, Tokens(4 * 2 * 8));
  EXPECT_GE(second.stall_s, 0);

  // What was evaluated is the anchor, not what stays local: a replica that holds only that agrees.
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_streaming";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
  hear<CheckpointReady>();
  auto resume = load(2, SourceKind::kCheckpoint, 1);
  resume.checkpoint_folder = folder.string();
  tell(resume);
  hear<Loaded>();
  tell(ToReplica<Evaluate>{ReplicaId(2), {key(1), {0, 1, 3}}});
  EXPECT_EQ(hear<FromReplica<Evaluated>>().body.loss_sum, evaluated.loss_sum);
}

TEST_F(StreamingWorkerTest, APlanForAnotherFragmentFailsByName) {
  change_sync(spec_, [](SyncSpec& sync) { sync.fragments = 2; });
  const Loaded loaded = load_from_seed();
  tell_replica(OpenRound{key(1), Steps(0), Steps(4), {{0, 8}}, 1});
  hear<FromReplica<RoundReport>>();
  tell_replica(plan_of(1, loaded.fragments[1], 2));
  EXPECT_EQ(hear<FromReplica<ReduceFailed>>().body.failure, ReduceFailure::kPlanMismatch);
  ReducePlan again = plan_of(1, 7, 1);
  again.attempt = 2;
  tell_replica(again);
  EXPECT_EQ(hear<FromReplica<ReduceFailed>>().body.failure, ReduceFailure::kPlanMismatch);
}

TEST_F(StreamingWorkerTest, TrainsOnBehindTheBoundaryAndCountsEveryTokenOnce) {
  change_sync(spec_, [](SyncSpec& sync) {
    sync.overlap_steps = Steps(2);
    sync.blend = 0.5;
  });
  const Loaded loaded = load_from_seed();
  tell_replica(OpenRound{key(1), Steps(0), Steps(8), {{0, 20}}, 0});
  const auto first = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(first.steps, Steps(8));
  const Vote vote = vote_in(plan(1, loaded.value_count));
  const OpenRound next{key(2), Steps(8), Steps(16), {{16, 20}}, 0};
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 0, 0}, false, next, 0.7});
  hear<FromReplica<Applied>>();
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(second.key, key(2));
  EXPECT_EQ(second.steps, Steps(8));
  EXPECT_EQ(second.drawn, Tokens(8 * 2 * 8));
  EXPECT_GT(second.norm, 0);
}

// What three rounds came to, wherever their outer steps were taken.
struct ThreeRounds : StreamingWorkerTest {
  ThreeRounds(bool on_device, std::int64_t fragments, std::int64_t overlap)
      : StreamingWorkerTest(on_device) {
    change_sync(spec_, [&](SyncSpec& sync) {
      sync.fragments = fragments;
      sync.overlap_steps = Steps(overlap);
      sync.blend = overlap > 0 ? 0.25 : 0;
    });
    const Loaded loaded = load_from_seed();
    tell_replica(opening(1));
    for (RoundNumber round = 1; round <= 3; ++round) {
      norms.push_back(hear<FromReplica<RoundReport>>().body.norm);
      const std::int32_t fragment = opening(round).fragment;
      const std::int64_t values = fragment > 0
                                      ? loaded.fragments[static_cast<std::size_t>(fragment) - 1]
                                      : loaded.value_count;
      ReducePlan exact = plan_of(round, values, fragment);
      exact.codec = CodecKind::kFp32;  // as the lone node averages
      const Vote vote = vote_in(exact);
      tell_replica(
          CommitRound{key(round), 1, vote.average, {0, 0, 0}, false, opening(round + 1), 0.7});
      applied.push_back(hear<FromReplica<Applied>>().body);
    }
  }
  void TestBody() override {}
  OpenRound opening(RoundNumber round) {
    const std::int64_t length = 8 / spec_.sync.fragments, overlap = spec_.sync.overlap_steps.n;
    const std::int64_t from = (round - 1) * length, to = round * length;
    const auto fragment = spec_.sync.fragments > 1
                              ? static_cast<std::int32_t>((round - 1) % spec_.sync.fragments) + 1
                              : 0;
    return {key(round), Steps(from), Steps(to), {{2 * from, 2 * (to + overlap - from)}}, fragment};
  }
  int reduced_on_device() const { return node_.on_device; }
  std::vector<Applied> applied;
  std::vector<double> norms;
};

TEST(DeviceWorker, RoundsHaveTheBitsOfTheHost) {
  for (const auto& [fragments, overlap] : {std::pair(1, 0), std::pair(2, 0), std::pair(1, 2)}) {
    ThreeRounds host(false, fragments, overlap), device(true, fragments, overlap);
    EXPECT_EQ(device.reduced_on_device(), 3);
    EXPECT_EQ(host.reduced_on_device(), 0);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(device.applied[i].anchor, host.applied[i].anchor) << fragments << ", round " << i;
      EXPECT_EQ(device.applied[i].momentum, host.applied[i].momentum) << fragments;
      EXPECT_NEAR(device.norms[i], host.norms[i], 1e-9);
    }
  }
}

// A member with half of the weight. The average of round 1 points the other way, so that the
// estimate of round 2 is far off; two steps are taken behind each boundary.
class EagerWorkerTest : public StreamingWorkerTest {
 protected:
  EagerWorkerTest() {
    change_sync(spec_, [](SyncSpec& sync) {
      sync.overlap_steps = Steps(2);
      sync.eager = true;
    });
    loaded_ = load_from_seed();
    tell_replica(OpenRound{key(1), Steps(0), Steps(8), {{0, 20}}, 0});
    hear<FromReplica<RoundReport>>();
    node_.scale = -4;
    commit(1, 32, {key(2), Steps(8), Steps(16), {{16, 20}}, 0});
    node_.scale = 1;
    trained_ = hear<FromReplica<RoundReport>>().body.norm;
  }
  static OpenRound nothing_more(RoundNumber round, std::int64_t to) {
    return {key(round), Steps(to - 1), Steps(to), {{32, 4}}, 0};
  }
  void commit(RoundNumber round, double weight, const OpenRound& next) {
    ReducePlan made = plan(round, loaded_.value_count);
    made.codec = CodecKind::kFp32;
    made.members[0].weight = weight;
    made.members.push_back({ReplicaId(9), "", 32, 1, 0, 0});
    const Vote vote = vote_in(made);
    tell_replica(CommitRound{key(round), 1, vote.average, {0, 0, 0}, false, next, 0.7});
    hear<FromReplica<Applied>>();
  }
  Loaded loaded_;
  double trained_ = 0;  // the norm of the report of round 2
};

TEST_F(EagerWorkerTest, AnAbortedRoundReportsWhatWasTrainedAndNoEstimate) {
  tell_replica(AbortRound{key(2), AbortReason::kAttemptsSpent, nothing_more(2, 17)});
  const double norm = hear<FromReplica<RoundReport>>().body.norm;
  EXPECT_GT(norm, 0.9 * trained_);
  EXPECT_LT(norm, 1.5 * trained_);
}

TEST_F(EagerWorkerTest, TheResultCorrectsTheEstimateAndKeepsTheStepsBehindTheBoundary) {
  commit(2, 32, nothing_more(3, 24));
  const auto report = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(report.steps, Steps(2));
  EXPECT_GT(report.norm, 0.01 * trained_);
  EXPECT_LT(report.norm, 0.7 * trained_);
}

TEST_F(EagerWorkerTest, ARefusedContributionIsDroppedWithItsEstimate) {
  commit(2, 0, nothing_more(3, 24));
  const auto report = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(report.steps, Steps(0));
  EXPECT_EQ(report.norm, 0);
}

struct DeviceWorkerTest : WorkerTest {
  DeviceWorkerTest() : WorkerTest(true) {}
};

// The host computes what the device does not.
TEST_F(DeviceWorkerTest, ARingIsReducedOnTheHost) {
  const Loaded loaded = load_from_seed();
  train_four_steps();
  ReducePlan ring = plan(1, loaded.value_count);
  ring.topology = Topology::kRing;
  tell_replica(ring);
  const Vote vote = hear<FromReplica<Vote>>().body;
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 0, 0}, true, {}, 0.7});
  EXPECT_NE(hear<FromReplica<Applied>>().body.anchor, loaded.anchor);
  EXPECT_EQ(node_.on_device, 0);
}

TEST_F(DeviceWorkerTest, JobsThatDoNotSuitStayOnTheHost) {
  spec_.sync = sync_of(shoal::SyncAlgorithm::kDdp);
  load_from_seed();
  EXPECT_EQ(accelerator_.held, 0);
}

TEST_F(DeviceWorkerTest, EagerUpdatesAreComputedOnTheHost) {
  change_sync(spec_, [](SyncSpec& sync) {
    sync.overlap_steps = Steps(1);
    sync.eager = true;
  });
  load_from_seed();
  EXPECT_EQ(accelerator_.held, 0);
}

TEST_F(DeviceWorkerTest, ADeviceWithoutRoomIsNamed) {
  accelerator_.room = 100;
  tell(load(1, SourceKind::kSeed, 0));
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kOutOfMemory);
}

TEST_F(DeviceWorkerTest, ADeviceThatFailsAtTheBoundaryReportsNothing) {
  load_from_seed();
  accelerator_.waits_left = 0;
  tell_replica(open(1, 0, 4));
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kDeviceLost);
}

class AsyncWorkerTest : public WorkerTest {
 protected:
  AsyncWorkerTest() {
    change_sync(spec_, [](SyncSpec& sync) { sync.algorithm = SyncAlgorithm::kAsync; });
    node_.others = 0.01f;
  }
  // Round 1 is committed without this replica, which continues with `lease` for round 2.
  Applied commit_without(const Loaded& loaded, DataLease lease, std::int64_t steps) {
    ReducePlan without = plan(1, loaded.value_count);
    without.members[0].weight = 0;
    tell_replica(without);
    const Vote vote = hear<FromReplica<Vote>>().body;
    CommitRound commit{key(1), 1, vote.average, {0, 0, 0}, false, {}, 0.7};
    commit.next = {key(2), Steps(0), Steps(steps), {lease}};
    commit.share = 0.5, commit.keeps = true;
    tell_replica(commit);
    return hear<FromReplica<Applied>>().body;
  }
};

// The anchor moves, what was trained stays as it is and is reported again.
TEST_F(AsyncWorkerTest, AReportThatCameTooLateCountsInTheNextRound) {
  const Loaded loaded = load_from_seed();
  const RoundReport first = train_four_steps();
  const Applied applied = commit_without(loaded, {0, 8}, 4);
  EXPECT_NE(applied.anchor, loaded.anchor);
  EXPECT_NE(applied.momentum, loaded.momentum);
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(second.key, key(2));
  EXPECT_EQ(second.steps, Steps(4));
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.train_loss, first.train_loss);
  EXPECT_NEAR(second.norm, first.norm, 1e-4 * first.norm);
}

// A round without it neither stops it nor takes what it has. The lease is longer than the test.
TEST_F(AsyncWorkerTest, TrainsOnWhileOthersCommit) {
  const Loaded loaded = load_from_seed();
  constexpr std::int64_t kLong = 1'000'000;
  tell_replica(open(1, 0, kLong));
  commit_without(loaded, {0, 2 * kLong}, kLong);
  tell_replica(CloseRound{key(2)});
  const auto report = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(report.key, key(2));
  EXPECT_LT(report.steps, Steps(kLong));
  EXPECT_EQ(report.tokens, Tokens(report.steps.count() * 2 * 8));
  EXPECT_EQ(report.nonfinite, 0);
}

// The result is adopted where nothing is kept.
TEST_F(AsyncWorkerTest, AContributionBeginsAnewFromTheAnchor) {
  const Loaded loaded = load_from_seed();
  train_four_steps();
  tell_replica(plan(1, loaded.value_count));
  const Vote vote = hear<FromReplica<Vote>>().body;
  CommitRound commit{key(1), 1, vote.average, {0, 0, 0}, false, {}, 0.7};
  commit.next = {key(2), Steps(2), Steps(4), {{100, 4}}};
  commit.share = 0.5;
  tell_replica(commit);
  hear<FromReplica<Applied>>();
  EXPECT_EQ(hear<FromReplica<RoundReport>>().body.steps, Steps(2));
}

}  // namespace
}  // namespace shoal::trainer
